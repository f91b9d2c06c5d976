"""What a call site keys its memory with, and other questions about the operands of a call.

A key holds, per operand, the element type and layout bits of an array or the type of anything
else; two calls with equal keys have the same signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..devices import base
from ..errors import Decline
from ..isa.hints import ShapeHint, renamed, short_names
from ..isa.signature import OperandClass
from ..ops.registry import OpInfo

_ndarray = np.ndarray
_SPREADS_LIMIT = 4096
_spreads: dict[tuple[tuple[int, ...], ...], int] = {}
_REBINDING = frozenset((bool, int, float, complex))
_MAX_CLASSES = 16
_BUILTIN = frozenset((bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, type(None), type(Ellipsis)))

KeyMaker = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


def _spread(shapes: tuple[tuple[int, ...], ...]) -> int:
    """Which of the shapes broadcasting stretches: bit i for the i-th."""
    found = _spreads.get(shapes)
    if found is None:
        found = sum(stretched << i for i, stretched in enumerate(base.stretched(shapes)))
        if len(_spreads) >= _SPREADS_LIMIT:
            _spreads.clear()
        _spreads[shapes] = found
    return found


def _one(value: Any) -> Any:
    tp = type(value)
    if tp is _ndarray:
        return (value.dtype, value.flags.c_contiguous)
    return tp


def of_pair(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """The key of two arrays, as `_plain` makes it."""
    return (a.dtype, b.dtype, a.flags.c_contiguous, b.flags.c_contiguous)


def of_elementwise_pair(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """The key of two arrays, as `_elementwise` makes it."""
    first, second = a.shape, b.shape
    spread = 0 if first == second else _spread((first, second))
    return (a.dtype, b.dtype, a.flags.c_contiguous, b.flags.c_contiguous, spread)


def _plain(operands: tuple[Any, ...], _attrs: Mapping[str, Any]) -> Any:
    if len(operands) == 1:
        x = operands[0]
        return (x.dtype, x.flags.c_contiguous) if type(x) is _ndarray else _one(x)
    if len(operands) == 2:
        a, b = operands
        if type(a) is _ndarray and type(b) is _ndarray:
            return of_pair(a, b)
    return tuple([(value.dtype, value.flags.c_contiguous) if type(value) is _ndarray else type(value) for value in operands])


def _elementwise(operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    if len(operands) == 2:
        a, b = operands
        if type(a) is _ndarray:
            if type(b) is _ndarray:
                return of_elementwise_pair(a, b)
            return (a.dtype, type(b), a.flags.c_contiguous)
        if type(b) is _ndarray:
            return (type(a), b.dtype, b.flags.c_contiguous)
        return (type(a), type(b))
    if len(operands) == 1:
        return _plain(operands, attrs)
    if len(operands) == 3:
        a, b, c = operands
        if type(a) is _ndarray and type(b) is _ndarray and type(c) is _ndarray and a.shape == b.shape == c.shape:
            return (a.dtype, b.dtype, c.dtype, a.flags.c_contiguous, b.flags.c_contiguous, c.flags.c_contiguous)
    arrays = [value for value in operands if type(value) is _ndarray]
    parts = [(value.dtype, value.flags.c_contiguous) if type(value) is _ndarray else _one(value) for value in operands]
    shapes = tuple([value.shape for value in arrays])
    if shapes and shapes.count(shapes[0]) != len(shapes):
        parts.append(_spread(shapes))
    return tuple(parts)


def _sequences(operands: tuple[Any, ...], _attrs: Mapping[str, Any]) -> Any:
    return tuple([(type(value), *[_one(item) for item in value]) if type(value) in (list, tuple) else _one(value) for value in operands])


def _images(operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Ops on images are long; their layouts are looked at in full."""
    image = next((attrs[name] for name in base.IMAGE_ATTRS if isinstance(attrs.get(name), str)), "NCHW")
    return tuple(
        [
            (value.dtype, base.classify(value, image=image)) if type(value) is _ndarray and value.ndim == 4 else _one(value)
            for value in operands
        ]
    )


def maker(op: OpInfo) -> KeyMaker:
    """The key function of an op."""
    if any(p.role == "tensors" for p in op.params):
        return _sequences
    if op.shape_rule == "conv":
        return _images
    several = sum(p.role == "tensor" for p in op.params) > 1
    return _elementwise if op.shape_rule == "elementwise" and several else _plain


def pair_maker(op: OpInfo) -> Callable[[Any, Any], Any] | None:
    """The key function of an op for two arrays, that the one of any operands agrees with; None where there is none."""
    made = maker(op)
    if made is _elementwise:
        return of_elementwise_pair
    return of_pair if made is _plain else None


def special_attrs(op: OpInfo) -> frozenset[str]:
    """Names whose presence among the attributes takes the longer way: `out`, optional tensors, whose tensor is to be made."""
    required = {p.name for p in op.operands}
    makes = {"dialect"} if op.shape_rule == "create" else set()
    return frozenset({"out"} | makes | {p.name for p in op.params if p.role != "attr" and p.name not in required})


# --- operands ----------------------------------------------------------------------------------


def flattener(op: OpInfo) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """A function that puts the items of sequence operands in a row; None when the op has no such operand."""
    if not any(p.role == "tensors" for p in op.params):
        return None
    return lambda operands: flatten(op, tuple(operands))


def flatten(op: OpInfo, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands with the items of sequences of tensors in place of the sequences."""
    roles = [p.role for p in op.operands]
    if "tensors" not in roles:
        return operands
    out: list[Any] = []
    for i, value in enumerate(operands):
        sequence = (roles[i] if i < len(roles) else "tensor") == "tensors" and isinstance(value, list | tuple)
        out.extend(value) if sequence else out.append(value)
    return tuple(out)


def shorten(classes: tuple[OperandClass, ...]) -> tuple[OperandClass, ...]:
    """Long lists of operands are named by their distinct classes, so that they don't fill the signature table."""
    return classes if len(classes) <= _MAX_CLASSES else tuple(dict.fromkeys(classes))


def is_native(tp: type) -> bool:
    """Whether a type can never have an adapter."""
    return tp is _ndarray or tp in _REBINDING or issubclass(tp, np.generic) or tp in (list, tuple, type(None), str)


def runs_no_user_code(tp: type) -> bool:
    """Whether Python's operators on values of a type run nothing of the user's: such a call can be replayed."""
    return tp in _BUILTIN or issubclass(tp, np.generic | np.dtype | type) or tp.__module__ == "mindspore._c_expression.typing"


def rebinds(tp: type) -> bool:
    """Whether `x op= y` with such an x makes a new value and rebinds the name."""
    return tp in _REBINDING or issubclass(tp, np.generic)


def refuse_sequences(op: OpInfo, flat: Sequence[Any]) -> None:
    """Raise Decline where Python's operator would not ask NumPy first: text (`"%s" % x`), a sequence with no array beside it."""
    if op.scalar is None or op.pure_python:
        return
    types = {type(value) for value in flat}
    if str in types:
        raise Decline("operators on text are Python's")
    if (list in types or tuple in types or range in types) and _ndarray not in types:
        raise Decline("a sequence without an array beside it is Python's")


# --- writing -----------------------------------------------------------------------------------


def writes_out(fn: Callable[..., Any], op: OpInfo) -> bool:
    """Whether a kernel may be handed `out=`: NumPy's own ufuncs check casting, shape and overlap before they write."""
    return isinstance(fn, np.ufunc) and op.exact


def shapes_text(flat: Sequence[Any]) -> str:
    """Shapes of the operands that have one: "[2, 3], [3]"."""
    return ", ".join(str(list(value.shape)) for value in flat if hasattr(value, "shape"))


def hint_text(hint: object, flat: Sequence[Any]) -> str:
    """The shape hint as log lines show it: short names, no blanks; `*` for each axis of the first tensor when there is none."""
    if isinstance(hint, ShapeHint):
        hint = renamed(hint, short_names(hint.names))
    if hint is not None:
        return str(hint).replace(" ", "")
    ndim = next((value.ndim for value in flat if hasattr(value, "ndim")), 0)
    return "[" + ",".join("*" * ndim) + "]"
