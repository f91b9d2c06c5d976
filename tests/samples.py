"""Sample calls of every op: one list that feeds tests over ops, kernels and tiers.

`samples(op)` gives (operands, attrs) by the registry's calling convention; every op has some, and
`tests/tiers/test_corruption.py` asserts that they tell a kernel from one that is wrong in a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from bcvm_core import dtypes
from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo

Sample = tuple[tuple[Any, ...], dict[str, Any]]

FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
DTYPES = (*FLOATS, np.int32, np.uint8, np.bool_, np.complex64)
EVERY_DTYPE = tuple(row.numpy for row in dtypes.TABLE)


def tensor(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0, low: float = 0.05, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Positive numbers without zeros, the same every time."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return rng.random(shape) > 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 9, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    return values.astype(np.float64).astype(dtype)


def _matrix(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return tensor((3, 4), dtype, 1)


def _images(seed: int = 2) -> np.ndarray[Any, Any]:
    return tensor((2, 4, 5, 6), np.float32, seed)


def _key() -> Any:
    return 7


def _call(*operands: Any, **attrs: Any) -> Sample:
    return operands, attrs


_INDEX = np.array([2, 0, 1])

_SPECIAL: dict[str, Callable[[], list[Sample]]] = {
    "astype": lambda: [_call(_matrix(), dtype=np.float64), _call(_matrix(), dtype=np.int32)],
    "cast": lambda: [_call(_matrix(), dtype=np.float16)],
    "where": lambda: [_call(_matrix() > 1, _matrix(), 2.0), _call(_matrix() > 1, _matrix(), -_matrix())],
    "clip": lambda: [_call(_matrix(), a_min=0.5, a_max=1.0)],
    "clip_method": lambda: [_call(_matrix(), min=0.5, max=1.0)],
    "arccosh": lambda: [_call(_matrix() + 1)],
    "arctanh": lambda: [_call(_matrix() / 3)],
    "arcsin": lambda: [_call(_matrix() / 3)],
    "arccos": lambda: [_call(_matrix() / 3)],
    "matmul": lambda: [_call(_matrix(), _matrix().T), _call(_matrix(np.int32), _matrix(np.int32).T)],
    "dot": lambda: [_call(_matrix(), _matrix().T)],
    "vdot": lambda: [_call(_matrix(), _matrix())],
    "inner": lambda: [_call(_matrix(), _matrix())],
    "outer": lambda: [_call(_matrix()[0], _matrix()[1])],
    "kron": lambda: [_call(_matrix(), _matrix())],
    "tensordot": lambda: [_call(_matrix(), _matrix().T, axes=1)],
    "einsum": lambda: [_call(["ij,kj->ik", _matrix(), _matrix()])],
    "bmm": lambda: [_call(tensor((2, 3, 4)), tensor((2, 4, 5)))],
    "linear": lambda: [_call(_matrix(), tensor((5, 4))), _call(_matrix(), tensor((5, 4)), bias=tensor((5,)))],
    "conv2d": lambda: [
        _call(_images(), tensor((3, 4, 3, 3)), padding=1),
        _call(_images(), tensor((3, 4, 1, 1)), bias=tensor((3,))),
        _call(_images(), tensor((4, 1, 3, 3)), groups=4),
        _call(tensor((2, 5, 6, 4)), tensor((3, 4, 3, 3)), layout="NHWC"),
    ],
    "conv1d": lambda: [_call(tensor((2, 4, 9)), tensor((3, 4, 3)))],
    "max_pool2d": lambda: [_call(_images(), kernel_size=2)],
    "avg_pool2d": lambda: [_call(_images(), kernel_size=2)],
    "adaptive_avg_pool2d": lambda: [_call(_images(), output_size=(2, 3))],
    "getitem": lambda: [_call(_matrix(), 1), _call(_matrix(), (slice(None), slice(0, 3, 2))), _call(_matrix(), _INDEX)],
    "setitem": lambda: [_call(_matrix(), 1, 5.0), _call(_matrix(), (slice(None), 2), tensor((3,)))],
    "fill": lambda: [_call(_matrix(), value=2.5)],
    "take": lambda: [_call(_matrix(), _INDEX), _call(_matrix(), _INDEX, axis=1)],
    "take_along_axis": lambda: [_call(_matrix(), np.argsort(_matrix(), axis=1), axis=1)],
    "gather": lambda: [_call(_matrix(), np.argsort(_matrix(), axis=1), axis=1)],
    "reshape": lambda: [_call(_matrix(), shape=(2, 6)), _call(_matrix(), shape=-1)],
    "transpose": lambda: [_call(_matrix()), _call(_images(), axes=(0, 2, 3, 1))],
    "permute": lambda: [_call(_images(), dims=(0, 2, 3, 1))],
    "swapaxes": lambda: [_call(_images(), axis1=1, axis2=2)],
    "moveaxis": lambda: [_call(_images(), source=1, destination=-1)],
    "squeeze": lambda: [_call(tensor((3, 1, 4)))],
    "expand_dims": lambda: [_call(_matrix(), axis=1)],
    "broadcast_to": lambda: [_call(_matrix(), shape=(2, 3, 4))],
    "view": lambda: [_call(_matrix(), dtype=np.int32), _call(_matrix())],
    "split": lambda: [_call(_matrix(), indices_or_sections=2, axis=1)],
    "array_split": lambda: [_call(_matrix(), indices_or_sections=3, axis=1)],
    "tile": lambda: [_call(_matrix(), reps=(2, 1))],
    "repeat": lambda: [_call(_matrix(), repeats=2, axis=0)],
    "roll": lambda: [_call(_matrix(), shift=1, axis=1)],
    "pad": lambda: [_call(_matrix(), pad_width=1, mode="constant")],
    "searchsorted": lambda: [_call(np.arange(5.0), np.array([0.5, 3.0]))],
    "item": lambda: [_call(_matrix()[:1, :1])],
    "int": lambda: [_call(np.array(3)), _call(2.5)],
    "float": lambda: [_call(np.array(3.5)), _call(2)],
    "bool": lambda: [_call(np.array(True))],
    "min_of": lambda: [_call([np.float32(2), np.float32(1)])],
    "max_of": lambda: [_call([np.float32(2), np.float32(1)])],
    "zeros": lambda: [_call(shape=(2, 3)), _call(shape=4, dtype=np.int32)],
    "ones": lambda: [_call(shape=(2, 3))],
    "empty": lambda: [_call(shape=(2, 3))],
    "full": lambda: [_call(shape=(2, 3), fill_value=1.5)],
    "full_like": lambda: [_call(_matrix(), fill_value=1.5)],
    "linspace": lambda: [_call(start=0.5, stop=2.0, num=5)],
    "eye": lambda: [_call(N=3)],
    "identity": lambda: [_call(n=3)],
    "array": lambda: [_call(object=[1.5, 2])],
    "asarray": lambda: [_call(object=[1.5, 2])],
    "arange": lambda: [_call(args=(1, 9, 2))],
    "range": lambda: [_call(args=(1, 9, 2))],
    "slice": lambda: [_call(start=1, stop=9)],
    "one_hot": lambda: [_call(_INDEX, depth=4)],
    "layer_norm": lambda: [
        _call(_matrix(), normalized_shape=(4,)),
        _call(_matrix(), normalized_shape=4, weight=tensor((4,)), bias=tensor((4,), seed=5)),
    ],
    "rms_norm": lambda: [_call(_matrix(), normalized_shape=(4,))],
    "group_norm": lambda: [_call(_images(), num_groups=2)],
    "batch_norm": lambda: [_call(_images(), running_mean=tensor((4,)), running_var=tensor((4,), seed=3))],
    "attention": lambda: [_call(tensor((2, 3, 4)), tensor((2, 5, 4), seed=3), tensor((2, 5, 6), seed=4))],
    "embedding": lambda: [_call(_INDEX, tensor((5, 4)))],
    "interpolate": lambda: [_call(_images(), size=(7, 3)), _call(_images(), size=(10, 12), mode="bilinear")],
    "cross_entropy": lambda: [_call(_matrix(), np.array([1, 3, 0]))],
    "binary_cross_entropy": lambda: [_call(_matrix() / 3, _matrix() / 3)],
    "normal": lambda: [_call(shape=(2, 3), key=_key())],
    "uniform": lambda: [_call(shape=(2, 3), key=_key())],
    "dropout": lambda: [_call(tensor((8, 9)), p=0.5, training=True, key=_key())],
}

_DATA_FREE = ("empty", "empty_like")
"""Ops whose elements mean nothing."""


def _generic(op: OpInfo) -> Iterator[Sample]:
    """Calls of ops whose operands are all of one kind, over the element types that they take."""
    if op.params and op.params[0].role == "tensors":
        for dtype in (np.float32, np.int32):
            yield ([tensor((3, 4), dtype, 1), tensor((3, 4), dtype, 2)],), {}
        return
    count = len(op.operands)
    for dtype in DTYPES if op.exact else EVERY_DTYPE:
        operands = tuple(tensor((3, 4), dtype, seed + 1) for seed in range(count))
        yield operands, {}
        if op.shape_rule == "reduce":
            yield operands, {"axis": 1}


def _works(op: OpInfo, sample: Sample) -> bool:
    try:
        with np.errstate(all="ignore"):
            op.definition(*copied(sample[0]), **sample[1])
    except Exception:
        return False
    return True


def copied(value: Any) -> Any:
    """A copy of operands: writes to it leave the original alone."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    return type(value)([copied(v) for v in value]) if type(value) in (tuple, list) else value


def samples(op: OpInfo | str) -> list[Sample]:
    """Calls of an op that succeed. Never empty for an op of the table."""
    op = registry.row(op) if isinstance(op, str) else op
    made = _SPECIAL[op.name]() if op.name in _SPECIAL else list(_generic(op))
    return [sample for sample in made if _works(op, sample)]


_PYTHON: dict[str, tuple[Any, ...]] = {"getitem": ([5, 6], 1), "setitem": ([5, 6], 1, 7)}


def python_samples(op: OpInfo | str) -> list[tuple[Any, ...]]:
    """Operands that are no tensors, for which Python's operator runs the op; none where it always raises (`2 @ 3`)."""
    op = registry.row(op) if isinstance(op, str) else op
    if op.scalar is None or op.name == "matmul":
        return []
    return [_PYTHON.get(op.name, (5, 3)[: len(op.operands)])]


def has_data(op: OpInfo | str) -> bool:
    """Whether the elements of an op's result mean something."""
    return (op if isinstance(op, str) else op.name) not in _DATA_FREE
