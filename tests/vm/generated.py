"""Random functions of tensor work, drawn by Hypothesis: ops x dtypes x shapes x strides x branches x in-place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

NAMES = ("x", "y", "a", "b", "c")
BINARY = ("+", "-", "*", "/", "//", "%")
COMPARE = ("<", "<=", ">", "==", "!=")
EXACT_CALLS = (
    "np.abs({0})", "np.sqrt(np.abs({0}))", "np.maximum({0}, {1})", "np.minimum({0}, 0)", "np.where({0} > {1}, {0}, 1)",
    "np.negative({0})", "np.floor({0})", "np.square({0})", "np.isnan({0})", "np.clip({0}, -1, 2)", "np.sign({0})",
)  # fmt: skip
EXACT_METHODS = (
    "{0}.max()", "{0}.min()", "{0}.T", "{0}[::-1]", "{0}[1:]", "{0}[..., :1]", "{0}.reshape(-1)", "{0}.astype(np.float32)",
    "{0}.argmax()", "{0}.ndim", "{0}.shape[0]", "{0}.any()", "{0}.copy()", "np.concatenate([{0}, {0}])", "np.stack([{0}, {0}])",
)  # fmt: skip
INEXACT = (
    "np.exp({0})", "np.tanh({0})", "np.log(np.abs({0}) + 1)", "np.sin({0})", "{0}.sum()", "{0}.mean()", "{0}.sum(0)", "np.exp2({0} * 0.1)",
)  # fmt: skip


@dataclass(frozen=True)
class Generated:
    """A function's source and arguments to call it with."""

    source: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{a.dtype}{a.shape}{a.strides}" if isinstance(a, np.ndarray) else repr(a) for a in self.arguments)
        return f"{self.source}\n# called with {shown}"


class _Writer:
    """Draws statements; keeps track of nothing: names may be unbound, shapes may not fit. Python decides."""

    def __init__(self, draw: Any, calls: tuple[str, ...]) -> None:
        self.draw = draw
        self.calls = calls
        self.lines: list[str] = []

    def choice(self, options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def expression(self, depth: int = 0) -> str:
        kind = self.draw(st.integers(0, 9))
        if depth > 2 or kind < 2:
            return str(self.choice(("x", "y", "a", "x", "y", "2", "0.5", "-1", "k") if depth else ("x", "y", "a")))
        if kind < 6:
            return f"({self.expression(depth + 1)} {self.choice(BINARY)} {self.expression(depth + 1)})"
        if kind < 9:
            return str(self.choice(self.calls)).format(f"({self.expression(depth + 1)})", f"({self.expression(depth + 1)})")
        return f"({self.expression(depth + 1)} {self.choice(COMPARE)} {self.expression(depth + 1)})"

    def block(self, indent: int, depth: int, in_loop: bool) -> None:
        pad = "    " * indent
        for _ in range(self.draw(st.integers(1, 4))):
            self.statement(pad, indent, depth, in_loop)

    def statement(self, pad: str, indent: int, depth: int, in_loop: bool) -> None:
        kind = self.draw(st.integers(0, 19))
        name = self.choice(NAMES)
        if kind < 9:
            self.lines.append(f"{pad}{name} = {self.expression()}")
        elif kind < 11:
            self.lines.append(f"{pad}{name} {self.choice(('+=', '-=', '*='))} {self.expression()}")
        elif kind == 11:
            self.lines.append(f"{pad}{name}[{self.choice(('0', '1:', '...', '::2'))}] {self.choice(('=', '+='))} {self.expression()}")
        elif kind == 12:
            self.lines.append(f"{pad}log.append((lambda q: q * 2 + {self.expression(1)})({name}))")
        elif kind == 13:
            self.lines.append(f"{pad}log.append([{self.expression(1)} * j for j in range(2)])")
        elif kind == 14:
            self.lines.append(f"{pad}return {self.expression()}, log")
        elif kind == 15 and in_loop:
            self.lines.append(f"{pad}if k % 2: {self.choice(('break', 'continue'))}")
        elif kind == 16 and depth < 2:
            self.lines.append(f"{pad}if {self.choice(('k > 1', f'np.all({name} > 0)', 'np.ndim(x) == 1'))}:")
            self.block(indent + 1, depth + 1, in_loop)
            if self.draw(st.booleans()):
                self.lines.append(f"{pad}else:")
                self.block(indent + 1, depth + 1, in_loop)
        elif kind == 17 and depth < 2:
            self.lines.append(f"{pad}for i{depth} in range(k):")
            self.block(indent + 1, depth + 1, True)
        elif kind == 18 and depth < 2:
            self.lines.append(f"{pad}try:")
            self.block(indent + 1, depth + 1, in_loop)
            self.lines.append(f"{pad}except (ValueError, IndexError, TypeError) as error:")
            self.lines.append(f"{pad}    log.append(type(error).__name__)")
        else:
            self.lines.append(f"{pad}{name} = {self.choice(('x', 'y'))}[{self.choice(('::-1', '...', '0:1'))}]")


_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
_DTYPES = st.sampled_from([np.dtype(n) for n in ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool")])
_SPECIAL = st.sampled_from([0.0, -0.0, 1.0, -1.5, 3.25, float("nan"), float("inf"), float("-inf"), 1e-40, 65504.0])


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    """An array of any dtype, shape (0 and 1 included) and stride pattern, special values included."""
    dtype = draw(_DTYPES)
    shape = draw(_SHAPES)
    if dtype.kind == "f":  # drawn wide and cast, so that special values become each type's own
        wide = draw(hnp.arrays(np.float64, shape, elements=_SPECIAL | st.floats(-8, 8, width=16)))
        with np.errstate(all="ignore"):
            return _laid_out(draw, wide.astype(dtype))
    elif dtype.kind == "b":
        elements: Any = st.booleans()
    else:
        elements = st.integers(0 if dtype.kind == "u" else -6, 9)
    return _laid_out(draw, draw(hnp.arrays(dtype, shape, elements=elements)))


def _laid_out(draw: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    layout = draw(st.integers(0, 4))
    if layout == 1:
        return np.asfortranarray(array)
    if layout == 2 and array.ndim:
        return array[::-1]
    if layout == 3 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return array


@st.composite
def functions(draw: Any, exact: bool = True) -> Generated:
    """A function `f(x, y, k)`; with `exact` only ops whose bits are NumPy's."""
    calls = EXACT_CALLS + EXACT_METHODS + (() if exact else INEXACT * 2)
    writer = _Writer(draw, calls)
    writer.block(1, 0, False)
    body = "\n".join(writer.lines)
    source = f"def f(x, y, k):\n    log = []\n    a = x * 1\n{body}\n    return {writer.expression()}, a, log\n"
    first = draw(arrays())
    second = first[::-1] if first.ndim and draw(st.booleans()) else draw(arrays())
    return Generated(source, (first, second, draw(st.integers(0, 3))))
