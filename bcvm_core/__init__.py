"""BCVM: a bytecode virtual machine for tensor programs whose shapes and branches change at every step.

``import bcvm_core as bcvm``; decorate a function with ``@bcvm.jit``, use ``bcvm.ops`` for what
NumPy does not spell, annotate shapes with ``bcvm.Tensor["B", "*", "C"]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import cache, mindspore, ops  # `mindspore` opens when a program meets MindSpore; it imports nothing of it
from .clamp import clamp_batch_size
from .config import override
from .errors import BcvmError
from .explaining import explain
from .frontend.annotations import Tensor, TensorSpec
from .jit import jit, nojit, program_of
from .lower import lower
from .modes import BYTECODE_VM, disable, enable, enabled, follow_environment, set_mode, stats
from .readiness import ready
from .tiers import select as _select  # noqa: F401 (eager ops go through the kernel pool)
from .version import __version__
from .warmup import warmup

if TYPE_CHECKING:
    from .budget import sla
    from .caching import cache_info
    from .machinecode import machine_code
    from .profiler import profile
    from .workload import record

__all__ = [
    "BYTECODE_VM", "BcvmError", "Tensor", "TensorSpec", "__version__", "cache", "cache_info", "clamp_batch_size", "disable", "enable",
    "enabled", "explain", "jit", "lower", "machine_code", "mindspore", "nojit", "ops", "override", "profile", "program_of", "ready",
    "record", "set_mode", "sla", "stats", "warmup",
]  # fmt: skip

_WHEN_ASKED = {
    "cache_info": "caching",
    "machine_code": "machinecode",
    "profile": "profiler",
    "record": "workload",
    "sla": "budget",
}  # doors that are opened at first use


def __getattr__(name: str) -> Any:
    module = _WHEN_ASKED.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)


follow_environment()
