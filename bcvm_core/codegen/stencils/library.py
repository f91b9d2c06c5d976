"""The stencils of this process: from the disk in milliseconds, or compiled once in the background and stored.

`splicer(width)` is the door. Until a family is there nothing is fused and ops run one by one.
"""

from __future__ import annotations

from typing import Final

from ... import config
from .. import store
from ..loader import LoadError
from ..loops import MAKERS, Loop, compiler_is_there, known, loop_for
from . import arena, target
from .blob import Blob, BlobError, load
from .graph import NotFusable
from .splice import Splicer

_TYPES: Final = {4: "float32", 8: "float64"}  # a family is named after the widest float it holds


class Family(Loop):
    """The stencils of one width. `splicer` is there once it is `ready`."""

    __slots__ = ("width", "splicer")
    heavy = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.width = 4 if dtype == "float32" else 8
        self.splicer: Splicer | None = None

    def load(self) -> bool:
        """Take the blob from the store; False when it is not there or can't be used."""
        host = target.host()
        if host is None:
            self.failed = "there are no stencils for this processor or system"
            return False
        try:
            arena.shared()
        except arena.ArenaError as error:
            self.failed = str(error)
            return False
        body = store.read(self.name)
        if body is None:
            return False
        try:
            self._open(load(body))
        except BlobError:
            return False
        return self.ready

    def body(self) -> bytes:
        host = target.host()
        if host is None:
            raise RuntimeError("there are no stencils for this processor or system")
        from . import build

        try:
            return build.build(host, self.width).dump()
        except BlobError as error:
            raise RuntimeError(str(error)) from error

    def _link(self, body: bytes) -> None:
        try:
            self._open(load(body))
        except BlobError as error:
            raise LoadError(str(error)) from error

    def _open(self, blob: Blob) -> None:
        host = target.host()
        if host is None or blob.level != host.level or blob.width != self.width:
            return
        try:
            self.splicer = Splicer(blob, arena.shared())
        except arena.ArenaError as error:
            self.failed = str(error)
            return
        self.ready = True


MAKERS["stencils"] = Family


def family(width: int) -> Family:
    """The stencils for kernels whose widest element type has `width` (4 or 8) bytes, on their way if they can be had."""
    found = loop_for("stencils", _TYPES[width])
    assert isinstance(found, Family)
    return found


def obstacle() -> str:
    """Why there will be no stencils in this process; "" where there are some, or they are on their way."""
    if not config.current.use_llvm:
        return "generated code is switched off (BCVM_LLVM=0)"
    if target.host() is None:
        return "there are no stencils for this processor or system"
    try:
        arena.shared()
    except arena.ArenaError as error:
        return str(error)
    for name in _TYPES.values():
        found = known("stencils", name)
        if found is not None and found.failed:
            return found.failed
    if not compiler_is_there() and not is_stored():
        return "the stencils were never compiled, and llvmlite is not there to do it"
    return ""


def is_ready() -> bool:
    """Whether a family was loaded: then nothing is in the way."""
    return any(found is not None and found.ready for found in (known("stencils", name) for name in _TYPES.values()))


def is_stored() -> bool:
    """Whether both families are on the disk, so that no process has to compile them."""
    return all((store.directory() / f"stencils_{name}.obj").exists() for name in _TYPES.values())


def splicer(width: int) -> Splicer:
    """The splicer of a family. Raises NotFusable with the reason while there is none."""
    found = family(width)
    if found.splicer is None:
        raise NotFusable(found.failed or "the stencils are being compiled")
    return found.splicer
