"""The compiled code around kernels: `entry` and `site`, which Python calls, and `drive`, which walks over strided operands."""

from __future__ import annotations

import ctypes
from importlib import resources
from typing import Any

from ..loops import MAKERS, Loop, loop_for


class Driver(Loop):
    """Addresses of the three functions of `entry_code.py`; 0 until they are there."""

    __slots__ = ("entry", "site", "drive_address", "drive")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.entry = 0
        self.site = 0
        self.drive_address = 0
        self.drive: Any = None  # drive(address of a job), without the interpreter's lock

    def _ir(self) -> str:
        from .native import compile_functions

        source = resources.files(__package__).joinpath("entry_code.py").read_text(encoding="utf-8")
        return compile_functions(source, ("entry", "site", "drive"))

    def _symbols(self) -> list[str]:
        return ["entry", "site", "drive"]

    def _take(self, found: dict[str, int]) -> None:
        self.entry, self.site, self.drive_address = found["entry"], found["site"], found["drive"]
        self.drive = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.drive_address)


MAKERS["driver"] = Driver


def driver() -> Driver:
    """The process's driver, on its way if it can be had."""
    found = loop_for("driver", "float64")
    assert isinstance(found, Driver)
    return found
