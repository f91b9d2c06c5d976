"""Rows that look at tensors from Python: attributes, `item`, `len`, and conversions to Python values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from ._rows import X, attribute, builtin, method, moves_only, numpy
from .registry import OpInfo, Param, Spelling

_PLAIN = frozenset({bool, int, float, complex, str, tuple, list, dict, set, frozenset, range, bytes, type(None)})
_SEQUENCES = frozenset({str, tuple, list, dict, set, frozenset, range, bytes})


def _plain(value: Any) -> None:
    """Raises Decline for objects whose special methods are the user's own Python."""
    if type(value) not in _PLAIN and not isinstance(value, (np.ndarray, np.generic)):
        raise Decline("an object with methods of its own")


def _reader(name: str) -> Callable[[Any], Any]:
    read = operator.attrgetter(name)

    def definition(x: Any) -> Any:
        return read(x)

    definition.__name__ = definition.__qualname__ = name
    return definition


def _item(x: Any, *, args: Any = ()) -> Any:
    return x.item(*args)


def _tolist(x: Any) -> Any:
    return x.tolist()


def _len(x: Any) -> int:
    _plain(x)
    return len(x)


def _number(kind: type) -> Callable[[Any], Any]:
    def definition(x: Any) -> Any:
        if isinstance(x, (np.ndarray, np.generic)):
            if x.ndim or x.dtype.kind not in "biuf":
                raise Decline("NumPy may warn about this conversion")
        elif type(x) not in (bool, int, float, str):
            raise Decline("an object with methods of its own")
        return kind(x)

    definition.__name__ = definition.__qualname__ = kind.__name__
    return definition


def _bool(x: Any) -> bool:
    if isinstance(x, np.ndarray) and x.size == 0:
        raise Decline("NumPy warns about the truth of an empty array")
    _plain(x)
    return bool(x)


def _collect(kind: type) -> Callable[..., Any]:
    def definition(x: Any = (), /) -> Any:
        if type(x) not in _SEQUENCES and type(x) is not np.ndarray:
            raise Decline("an iterator is consumed once: Python does it")
        return kind(x)

    definition.__name__ = definition.__qualname__ = kind.__name__
    return definition


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def definition(args: Any) -> Any:
        for value in args if len(args) > 1 else args[0] if args and type(args[0]) in (tuple, list) else ():
            _plain(value)
        if len(args) == 1 and type(args[0]) not in _SEQUENCES and type(args[0]) is not np.ndarray:
            raise Decline("an iterator is consumed once: Python does it")
        return function(*args)

    definition.__name__ = definition.__qualname__ = function.__name__
    return definition


def _slice(*, start: Any, stop: Any, step: Any = None) -> slice:
    return slice(start, stop, step)


def _range(*, args: Any = ()) -> range:
    return range(*args)


def _row(name: str, definition: Callable[..., Any], doc: str, spellings: tuple[Spelling, ...], *extra: Param, **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"params": (X, *extra), "result": "python", **rest}
    return OpInfo(
        name=name,
        family="shape",
        definition=definition,
        doc=doc,
        spellings=spellings,
        shape_rule="other",
        dtype_rule="other",
        flops=moves_only,
        **fields,
    )


def _attribute(name: str, doc: str, result: str = "python", *more: Spelling) -> OpInfo:
    extra: dict[str, Any] = {"shape_rule": "view", "fuse": "view"} if result == "tensor" else {"shape_rule": "other"}
    return OpInfo(
        name=name if name != "T" else "transposed",
        family="shape",
        params=(X,),
        definition=_reader(name),
        doc=doc,
        spellings=(attribute(name), *more),
        dtype_rule="same" if result == "tensor" else "other",
        flops=moves_only,
        result=result,
        gradient="transpose(g)" if name == "T" else None,
        **extra,
    )


_VALUES = Param("args", "tensors")

ROWS: tuple[OpInfo, ...] = (
    _attribute("shape", "The lengths of all axes."),
    _attribute("ndim", "How many axes there are."),
    _attribute("size", "How many elements there are."),
    _attribute("dtype", "The element type."),
    _attribute("itemsize", "Bytes of one element."),
    _attribute("nbytes", "Bytes of all elements."),
    _attribute("strides", "Bytes from one element to the next along each axis."),
    _attribute("T", "All axes reversed, as a view.", "tensor"),
    _attribute("real", "The real parts, as a view.", "tensor"),
    _attribute("imag", "The imaginary parts; zeros for real tensors.", "tensor"),
    _row("shape_of", np.shape, "numpy.shape.", (numpy("shape", "a", a="x"),)),
    _row("ndim_of", np.ndim, "numpy.ndim.", (numpy("ndim", "a", a="x"),)),
    _row("size_of", np.size, "numpy.size.", (numpy("size", "a, axis=None", a="x"),), Param("axis", default=None)),
    _row("item", _item, "One element as a Python value.", method("item", "*args"), Param("args", default=())),
    _row("tolist", _tolist, "All elements as nested lists of Python values.", method("tolist")),
    _row("len", _len, "The builtin len: the length of axis 0.", (builtin("len", "obj, /", obj="x"),), pure_python=True),
    _row("int", _number(int), "The builtin int of a 0-d tensor or a Python value.", (builtin("int", "x, /"),), pure_python=True),
    _row("float", _number(float), "The builtin float of a 0-d tensor or a Python value.", (builtin("float", "x, /"),), pure_python=True),
    _row("bool", _bool, "The builtin bool: the truth of a value with one element.", (builtin("bool", "x, /"),), pure_python=True),
    _row("tuple", _collect(tuple), "The builtin tuple.", (builtin("tuple", "x, /"),), pure_python=True, result="any"),
    _row("list", _collect(list), "The builtin list.", (builtin("list", "x, /"),), pure_python=True, result="any"),
    _row("min_of", _extreme(min), "The builtin min.", (builtin("min", "*args"),), params=(_VALUES,), pure_python=True, result="any"),
    _row("max_of", _extreme(max), "The builtin max.", (builtin("max", "*args"),), params=(_VALUES,), pure_python=True, result="any"),
    _row(
        "slice",
        _slice,
        "An index with start, stop and step.",
        (builtin("slice", "start, stop, step=None, /"),),
        params=(Param("start"), Param("stop"), Param("step", default=None)),
        pure_python=True,
    ),
    _row("range", _range, "The builtin range.", (builtin("range", "*args"),), params=(Param("args", default=()),), pure_python=True),
)
