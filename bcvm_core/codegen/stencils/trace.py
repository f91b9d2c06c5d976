"""How an op is made of primitives: its definition in the op table is run once on tensors that write down what is done to them.

So nothing is described twice. What a definition does that cannot be written down (it looks at
elements, calls other functions) makes the op not fusable for these types; it then runs by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ...dtypes import BY_NAME
from ...errors import BcvmError, Decline
from ...ops import registry
from ...ops.algorithms import ALGORITHMS
from .graph import NotFusable
from .ir import SIZE
from .loops import Literal, Number, Operand, Recorder, Ref, Step, Temp, Tensor, Value, dtype_name
from .primitives import table

_LIMIT: Final = 4096  # expansions kept


class Fill(NamedTuple):
    """A constant operand of a step: number `operand` of the op, or (-1) `bits`; converted to `dtype`.

    `position`: among the step's operands in registers, there as a value of `type`; -1: it is read from the constants.
    """

    operand: int
    bits: int
    dtype: str
    position: int
    type: str


class Ready(NamedTuple):
    """A step in the form that lowering wants: operands in registers by place (the op's operands first, then steps)."""

    primitive: str
    places: tuple[int, ...]
    fills: tuple[Fill, ...]
    width: int  # bytes of the widest type that the primitive handles


@dataclass(frozen=True, slots=True)
class Expansion:
    """An op for operands of certain types: steps in order, the place of its result, and the result's type."""

    steps: tuple[Ready, ...]
    result: int
    dtype: str
    refusal: str = ""  # why the op is not fusable for these types; then there is nothing else


class _State(threading.local):
    recorder: Recorder | None = None


_state = _State()


class _Traced(np.ndarray[Any, Any]):
    """An array that stands for any array of its type. `at`: where its value is in the recording."""

    at: Tensor | None = None

    def __array_finalize__(self, _source: Any) -> None:
        self.at = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method != "__call__" or (out is not None and any(o is not None for o in out)):
            raise NotFusable(f"{ufunc.__name__}.{method} is not elementwise")
        dtype = kwargs.pop("dtype", None)
        kwargs.pop("casting", None)
        if kwargs or ufunc.nout != 1:
            raise NotFusable(f"{ufunc.__name__} with {', '.join(kwargs) or 'several results'}")
        return _record_ufunc(ufunc, inputs, dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3 and not kwargs:
            return _record_where(*args)
        if function is np.broadcast_arrays and not kwargs:
            return args
        if function is np.round and self.dtype.kind == "f" and args[1:] in ((), (0,)) and not any(v is not None for v in kwargs.values()):
            return _record_ufunc(np.rint, (self,), None)
        if function is np.clip:
            return super().__array_function__(function, types, args, kwargs)
        raise NotFusable(f"numpy.{function.__name__} has no stencil")

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:  # type: ignore[override]
        """A cast to write down."""
        if order not in "KA" or not subok:
            raise NotFusable("astype to another layout")
        target, rule = np.dtype(dtype), cast(Any, casting)
        if not np.can_cast(self.dtype, target, rule):
            raise NotFusable(f"{self.dtype} does not cast to {target} under the rule {casting!r}")
        return _stand_in(_recorder().cast(_tensor_of(self), dtype_name(target)))

    def apply_algorithm(self, name: str) -> Any:
        """What `ops.evaluate` does with arguments of this kind."""
        dtype = _algorithm_type(self.dtype)
        return _stand_in(_recorder().algorithm(name, _tensor_of(self), dtype))

    def __getitem__(self, key: Any) -> Any:
        if key == ():
            return self
        raise NotFusable("a definition that picks elements")

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise NotFusable("a definition that looks at elements")

    __setitem__ = __bool__ = __float__ = __int__ = __iter__ = tolist = item = view = copy = _refuse


def _recorder() -> Recorder:
    assert _state.recorder is not None
    return _state.recorder


def _stand_in(value: Tensor) -> _Traced:
    """An array for a value of the recording."""
    array = np.ndarray.__new__(_Traced, (2,), BY_NAME[value.dtype].numpy)
    array.at = value
    return array


def _tensor_of(x: Any) -> Tensor:
    if x.at is None:
        raise NotFusable("a definition whose steps cannot be followed")
    found: Tensor = x.at
    return found


def _value_of(x: Any) -> Value:
    if isinstance(x, _Traced):
        return _tensor_of(x)
    if isinstance(x, np.ndarray) and x.ndim:
        raise NotFusable("a definition whose steps cannot be followed")
    return Number(x[()] if isinstance(x, np.ndarray) else x, _numbers().get(id(x), -1))


def _numbers() -> dict[int, int]:
    found: dict[int, int] = getattr(_state, "numbers", {})
    return found


def _plain(x: Any) -> Any:
    """An operand as NumPy's type rules see it."""
    return np.ones((2,), x.dtype) if isinstance(x, _Traced) else x


def _record_ufunc(ufunc: Any, inputs: tuple[Any, ...], dtype: Any) -> _Traced:
    plain = [_plain(x) for x in inputs]
    with np.errstate(all="ignore"):
        result = ufunc(*plain, dtype=dtype) if dtype is not None else ufunc(*plain)
    loop = _loop_type(ufunc, plain, dtype, result.dtype)
    return _stand_in(_recorder().ufunc(ufunc.__name__, dtype_name(loop), tuple(map(_value_of, inputs)), dtype_name(result.dtype)))


def _loop_type(ufunc: Any, plain: list[Any], dtype: Any, result: Any) -> Any:
    """The one type in which a ufunc's loop takes these operands. Raises NotFusable when there is not one."""
    if dtype is not None:
        return np.dtype(dtype)
    common = np.result_type(*plain)
    resolved = ufunc.resolve_dtypes((common,) * ufunc.nin + (None,))
    if len(set(resolved[:-1])) != 1 or resolved[-1] != result:
        raise NotFusable(f"{ufunc.__name__} of {', '.join(str(np.asarray(x).dtype) for x in plain)} mixes types")
    arrays = [x.dtype for x in plain if isinstance(x, np.ndarray)]
    if len(arrays) == ufunc.nin and len(set(ufunc.resolve_dtypes((*arrays, None))[:-1])) != 1:
        raise NotFusable(f"{ufunc.__name__} of {', '.join(map(str, arrays))} mixes types")
    return resolved[0]


def _record_where(condition: Any, x: Any, y: Any) -> _Traced:
    result = np.where(_plain(condition), _plain(x), _plain(y)).dtype
    return _stand_in(_recorder().where(_value_of(condition), _value_of(x), _value_of(y), dtype_name(result)))


def _algorithm_type(dtype: Any) -> str:
    from ...ops.evaluate import float_type

    return dtype_name(float_type(np.dtype(dtype)))


# -- expansions ----------------------------------------------------------------------------------

_expansions: dict[Any, Expansion] = {}
Described = tuple[Any, ...]


def describe_number(value: Any, by_value: bool) -> Any:
    """What of a constant operand decides how an op is made of primitives."""
    kind = type(value)
    if kind is float and -65000.0 < value < 65000.0:  # what fits the smallest type
        return (float, value.hex()) if by_value else float
    if kind is int and 0 <= value < 128:  # what fits the smallest types, signed or not
        return (int, value) if by_value else int
    signed = np.min_scalar_type(-1 - value) if kind is int and value >= 0 else None  # 200 fits uint8, but takes int16 beside int8
    return (kind, np.min_scalar_type(value), signed, value != value, repr(value) if by_value else None)


@cache
def by_value(op: str) -> bool:
    """Whether an op's definition may look at its numbers (NumPy's own functions look at types only)."""
    return not isinstance(registry.row(op).definition, np.ufunc)


def _attribute_key(attrs: tuple[tuple[str, Any], ...]) -> Any:
    """Attributes told apart as Python's `==` does not: 0, 0.0, -0.0 and False."""
    return tuple([(name, type(value), repr(value) if isinstance(value, float) else value) for name, value in attrs])


def expansion(op: str, known: tuple[Any, ...], operands: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...]) -> Expansion:
    """The steps of `op`. `known`: names of dtypes, and `describe_number` of those `operands` that are `graph.Const`. Raises NotFusable."""
    key = (op, known, _attribute_key(attrs) if attrs else ())
    try:
        found = _expansions.get(key)
    except TypeError as error:
        raise NotFusable(f"{op} with an attribute that is not plain data") from error
    if found is None:
        if len(_expansions) >= _LIMIT:
            _expansions.clear()
        described = tuple([x if type(x) is str else operand for x, operand in zip(known, operands, strict=True)])
        found = _expansions[key] = _expand(op, described, dict(attrs))
    if found.refusal:
        raise NotFusable(found.refusal)
    return found


def _expand(op: str, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Expansion:
    recorder = Recorder()
    _state.recorder = recorder
    arguments: list[Any] = []
    numbers: dict[int, int] = {}
    for index, x in enumerate(operands):
        if type(x) is str:
            arguments.append(_stand_in(Tensor(Operand(index), x)))
        else:
            value = _own(x.value)
            numbers[id(value)] = index
            arguments.append(value)
    _state.numbers = numbers
    try:
        result = _definition(op, not attrs)(*arguments, **attrs)
        if not isinstance(result, _Traced):
            raise NotFusable(f"{op} gives {type(result).__name__}")
        value = _tensor_of(result)
        constants = {index for index, x in enumerate(operands) if type(x) is not str}
        steps = tuple(_ready(step, len(operands), constants) for step in recorder.steps)
        return Expansion(steps, _place(value.ref, len(operands), constants), value.dtype)
    except NotFusable as error:
        return Expansion((), 0, "", f"{op}: {error}")
    except (TypeError, ValueError, OverflowError, AttributeError, BcvmError, Decline) as error:
        return Expansion((), 0, "", f"{op}: {type(error).__name__}: {error}")
    finally:
        _state.recorder = None


def _place(ref: Ref, count: int, constants: set[int]) -> int:
    """Where a value is among the op's operands and the results of its steps. Raises NotFusable for a constant."""
    if isinstance(ref, Temp):
        return count + ref.index
    if isinstance(ref, Operand) and ref.index not in constants:
        return ref.index
    raise NotFusable("a result that is a constant")


def _ready(step: Step, count: int, constants: set[int]) -> Ready:
    primitive = table()[step.primitive]
    places: list[int] = []
    fills: list[Fill] = []
    for k, ref in enumerate(step.operands):
        if isinstance(ref, Literal) or (isinstance(ref, Operand) and ref.index in constants):
            operand, bits = (ref.index, 0) if isinstance(ref, Operand) else (-1, ref.bits)
            in_register = k != primitive.const
            fills.append(Fill(operand, bits, step.dtype, len(places) if in_register else -1, f"i{8 * SIZE[primitive.operands[k]]}"))
            if in_register:
                places.append(-1)
        else:
            places.append(_place(ref, count, constants))
    width = max(SIZE[t] for t in (*primitive.operands, primitive.result))
    return Ready(step.primitive, tuple(places), tuple(fills), width)


def _own(value: Any) -> Any:
    """A number as an object that nothing else holds, so that its identity tells where it came from."""
    if isinstance(value, bool):
        return value
    if type(value) is float:
        return float.fromhex(value.hex())
    return value


def _definition(op: str, plain: bool) -> Callable[..., Any]:
    if op in ALGORITHMS and plain:
        return lambda x: x.apply_algorithm(op)
    row = registry.row(op)
    if row.fuse != "elementwise" or row.shape_rule != "elementwise" or row.writes:
        raise NotFusable("not elementwise")
    definition: Callable[..., Any] = row.definition
    return definition
