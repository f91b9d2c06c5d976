"""BCVM as a mode beside MindSpore's own: every `nn.Cell` that is called runs through the VM."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import TracebackType
from typing import Any, Final

from . import config
from . import mindspore as door
from .isa.program import Program
from .tiers.log import logger
from .vm.stats import Stats

BYTECODE_VM: Final = "BYTECODE_VM"
"""The mode for `set_mode`, beside `mindspore.GRAPH_MODE` and `mindspore.PYNATIVE_MODE`."""


class Enabled:
    """What `enable` returns. As a context manager it disables BCVM again at the end of the block."""

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        disable()

    def __repr__(self) -> str:
        return f"<BCVM {'enabled' if enabled() else 'disabled'}>"


def _cells() -> Any:
    door.install()
    return importlib.import_module(".mindspore.cells", __package__)


def enable() -> Enabled:
    """Run every `nn.Cell` that is called from now on through the VM, until `disable`.

    A Cell whose `construct` (and those of its parts) can be flattened runs as one straight-line Program; another runs as MindSpore
    runs it, with the tensor work of its `construct` done by the VM. Hooks, `to_float`, gradients, graph mode and `ms.jit` are
    left to MindSpore.
    Calls nest: each needs its `disable`, or use ``with bcvm.enable(): ...``. Raises MissingExtraError where MindSpore is not installed.
    """
    _cells().enable()
    return Enabled()


def disable() -> None:
    """Undo one `enable`; without one it does nothing."""
    if door.installed():
        _cells().disable()


def enabled() -> bool:
    """Whether Cells run through the VM now."""
    return door.installed() and bool(_cells().runner.everywhere)


def follow_environment() -> None:
    """MS_ENABLE_BYTECODE_VM=1: `enable` as soon as MindSpore is there, which is not imported for it. BCVM_DISABLE=1 has the last word."""
    if not (config.current.bytecode_vm and config.current.enabled):
        return
    found = sys.modules.get("mindspore")
    if found is None or getattr(getattr(found, "__spec__", None), "_initializing", False):
        sys.meta_path.insert(0, _EnablesMindSpore())
    else:
        enable()


class _EnablesMindSpore(MetaPathFinder):
    """Lets MindSpore be imported as ever, and enables BCVM then."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name != "mindspore":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_enable(module: Any) -> None:
                run(module)
                try:
                    enable()
                except Exception:  # importing MindSpore must not fail for it
                    logger.warning("MS_ENABLE_BYTECODE_VM=1, but BCVM cannot be enabled", exc_info=True)

            setattr(spec.loader, "exec_module", run_and_enable)  # noqa: B010 (this spec's own loader)
        return spec


def is_model(value: Any) -> bool:
    """Whether the value is an `nn.Cell`; MindSpore is not imported to find out."""
    nn = getattr(sys.modules.get("mindspore"), "nn", None)  # not there yet while MindSpore is being imported
    return nn is not None and isinstance(value, nn.Cell)


def choose(cell: Any) -> Any:
    """Run this one `nn.Cell` through the VM from now on, whatever the mode; it stays the object it is and is returned."""
    _cells().choose(cell)
    return cell


def program_of_model(cell: Any, args: Sequence[Any] = ()) -> Program:
    """The flat Program of a call `cell(*args)`, or of the latest call under BCVM. Raises LoweringError where there is none."""
    program: Program = _cells().program_of(cell, tuple(args))
    return program


def set_mode(mode: Any) -> None:
    """`BYTECODE_VM`, or one of MindSpore's modes (BCVM is disabled then). Raises ValueError for anything else."""
    import mindspore

    if mode not in (BYTECODE_VM, mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE):
        raise ValueError(f"no such mode: {mode!r}; modes are bcvm.BYTECODE_VM, mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE")
    while enabled():
        disable()
    if mode == BYTECODE_VM:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        enable()
    else:
        mindspore.set_context(mode=mode)


def stats() -> Stats:
    """What Cells ran since BCVM was enabled first: executions per op by CALL_OP and on the host."""
    counts: Stats = _cells().runner.counts() if door.installed() else Stats()
    return counts


def explain(cell: Any) -> str:
    """What became of a Cell under BCVM: its programs, or why it was left to MindSpore, and the same of its parts then."""
    text: str = _cells().explain(cell)
    return text
