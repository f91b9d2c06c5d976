"""The compiled code around kernels: `entry` and `site`, which Python calls, `drive`, the splicer, an allocator of results."""

from __future__ import annotations

import ctypes
from importlib import resources
from typing import Any, Final

from ..loops import MAKERS, Loop, loop_for

SOURCES: Final = (
    *("offsets", "shapes_code", "results_code", "rows_code", "general_code", "entry_code", "site_code", "recycle_code", "lines_code"),
    *("keyed_code", "chain_code", "chain_fit_code", "chain_rows_code", "crew_code", "primitive_code"),
    *("uses_code", "arrange_code", "emit_code"),
)
EXPORTED: Final = (
    *("entry", "site", "drive", "mode", "line", "line_job", "keyed", "chain", "chain_job", "arrange", "emit"),
    *("crew_run", "crew_alone", "crew_serve", "pool_count", "pool_inside", "pool_for", "pool_part", "pool_nothing", "primitive"),
    *("block_malloc", "block_calloc", "block_realloc", "block_free"),
)


class Driver(Loop):
    """Addresses of the functions of the files that end in `_code`; none, and 0, until they are there."""

    __slots__ = ("entry", "site", "addresses", "drive", "mode", "arrange", "emit", "primitive")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.entry = self.site = 0
        self.addresses: dict[str, int] = {}
        self.drive: Any = None  # drive(address of a job), without the interpreter's lock
        self.mode: Any = None  # mode(): the floating-point mode of this thread
        self.arrange: Any = None  # arrange(address of a plan), emit(that address, where the code goes, offset of the family's constants)
        self.emit: Any = None
        self.primitive: Any = None  # primitive(address of a job, stream), without the interpreter's lock

    def _ir(self) -> str:
        from .native import compile_functions

        files = resources.files(__package__)
        sources = [files.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in SOURCES]
        return compile_functions(sources, EXPORTED)

    def _symbols(self) -> list[str]:
        return list(EXPORTED)

    def _take(self, found: dict[str, int]) -> None:
        self.addresses = found
        self.entry, self.site = found["entry"], found["site"]
        self.mode = ctypes.CFUNCTYPE(ctypes.c_int64)(found["mode"])
        self.arrange = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(found["arrange"])
        self.emit = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(found["emit"])
        self.drive = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found["drive"])
        self.primitive = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(found["primitive"])


MAKERS["driver"] = Driver


def driver() -> Driver:
    """The process's driver, on its way if it can be had."""
    found = loop_for("driver", "float64")
    assert isinstance(found, Driver)
    return found
