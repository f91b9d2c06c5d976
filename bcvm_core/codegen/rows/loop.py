"""The machine code of one row kernel over one element type, made once per machine."""

from __future__ import annotations

from ..loops import MAKERS, Loop, loop_for
from ..stencils.target import Target, host
from . import column_recipes, recipes
from .code import module
from .column_recipes import COLUMNS
from .recipes import PAIRS, RECIPES
from .types import COUNTED

_PREFIX = "row_"
_TRUTH = (f"{_PREFIX}any", f"{_PREFIX}all")


class RowLoop(Loop):
    """`rows` and `columns` are addresses of functions (outer, n, inner, x, result, arguments); 0 where there is none."""

    __slots__ = ("rows", "columns")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.rows = self.columns = 0

    @classmethod
    def takes(cls, op: str, dtype: str) -> bool:
        """Whether a recipe is for an element type."""
        return (op != f"{_PREFIX}total" or dtype in COUNTED) and (op not in _TRUTH or dtype == "bool")

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if host() is None:
            self.failed = "there are no row kernels for this processor or system"
            return False
        return super().load()

    def _ir(self) -> str:
        target = host()
        assert target is not None
        return text(target, self.op.removeprefix(_PREFIX), self.dtype)

    def _symbols(self) -> list[str]:
        return [self.op] if self.op.removeprefix(_PREFIX) in (*RECIPES, *PAIRS) else [f"{self.op}_columns"]

    def _take(self, found: dict[str, int]) -> None:
        self.rows = found.get(self.op, 0)
        self.columns = found.get(f"{self.op}_columns", 0)


def text(target: Target, name: str, dtype: str) -> str:
    """The module of a recipe: its form for rows, and the one for columns if it has one."""
    made = [recipes.kernel(target, name, dtype)] if name in RECIPES or name in PAIRS else []
    if column_recipes.takes(name, dtype):
        made.append(column_recipes.kernel(target, name, dtype))
    return module(made)


MAKERS.update({f"{_PREFIX}{name}": RowLoop for name in {**RECIPES, **PAIRS, **COLUMNS}})


def row_loop(name: str, dtype: str) -> RowLoop:
    """The loop of a recipe, on its way to machine code if it can be."""
    loop = loop_for(f"{_PREFIX}{name}", dtype)
    assert isinstance(loop, RowLoop)
    return loop
