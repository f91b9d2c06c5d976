"""The machine code of products over one element type."""

from __future__ import annotations

import ctypes
from importlib import resources
from typing import Any, Final

from ..loops import MAKERS, Loop
from ..stencils.native import compile_functions
from ..stencils.target import host
from .tiles import ELEMENTS, Form, form, module, tile_name

OP: Final = "product"
_SOURCES: Final = ("job", "multiply", "panels", "amx_memory", "amx_split", "amx")


class ProductLoop(Loop):
    """`multiply(job, places, count)` without the interpreter's lock, `at_once` with it; `pack(job)`: all of b for many products to come.

    `tiles`: the functions that jobs name.
    """

    __slots__ = ("form", "entry", "pieces", "multiply", "at_once", "mode", "tiles", "copied", "pack", "added")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.entry = self.pieces = 0  # the addresses of `multiply` and of what works off pieces of several products
        self.multiply: Any = None
        self.at_once: Any = None
        self.pack: Any = None
        self.mode: Any = None
        self.tiles: Any = None
        self.copied = self.added = 0
        target = host()
        self.form: Form | None = None if target is None else form(target, dtype)

    @classmethod
    def takes(cls, _op: str, dtype: str) -> bool:
        return dtype in ELEMENTS

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if self.form is None:
            self.failed = "there are no products in code for this processor or system"
            return False
        return super().load()

    def _ir(self) -> str:
        assert self.form is not None
        sources = [resources.files(__package__).joinpath(f"{name}_code.py").read_text(encoding="utf-8") for name in _SOURCES]
        return compile_functions(sources, ("multiply", "pieces", "pack", "status")) + "\n" + module(self.form)

    def _symbols(self) -> list[str]:
        assert self.form is not None
        return ["multiply", "pieces", "pack", "status", "turned", "copied", "added", *map(tile_name, range(1, self.form.rows + 1))]

    def _take(self, found: dict[str, int]) -> None:
        assert self.form is not None
        functions = [found["turned"], *(found[tile_name(rows)] for rows in range(1, self.form.rows + 1))]
        self.tiles = (ctypes.c_uint64 * len(functions))(*functions)
        self.copied, self.added = found["copied"], found["added"]
        self.entry, self.pieces = found["multiply"], found["pieces"]
        arguments = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.multiply = ctypes.CFUNCTYPE(*arguments)(found["multiply"])
        self.at_once = ctypes.PYFUNCTYPE(*arguments)(found["multiply"])
        self.pack = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(found["pack"])
        self.mode = ctypes.PYFUNCTYPE(ctypes.c_int64)(found["status"])


MAKERS[OP] = ProductLoop
