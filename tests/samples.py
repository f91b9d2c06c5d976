"""Sample calls of every op: one list that feeds tests over ops, kernels and tiers.

`samples(op)` gives (operands, attrs) by the registry's calling convention; every op has some, and
`tests/tiers/test_corruption.py` asserts that they tell a kernel from one that is wrong in a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo
from tests import samples_networks
from tests.sample_values import DTYPES, EVERY_DTYPE, FLOATS, INDEX, Sample, call, images, key, matrix, tensor

__all__ = ["copied", "has_data", "python_samples", "samples", "tensor"]


def _plain(name: str) -> list[Sample]:
    """What an op without an entry of its own would have."""
    return list(_generic(registry.row(name)))


_SPECIAL: dict[str, Callable[[], list[Sample]]] = {
    "rot90": lambda: [*_plain("rot90"), call(matrix(), k=3, axes=(1, 0))],
    "astype": lambda: [
        call(matrix(np.float64), dtype=np.float32),
        *(call(matrix(), dtype=t) for t in (np.float64, np.int32, np.float16, np.int64, np.bool_)),
    ],
    "cast": lambda: [call(matrix(), dtype=np.float16)],
    "where": lambda: [call(matrix() > 1, x, y) for x, y in ((matrix(), 2.0), (matrix(), -matrix()), (2.5, matrix()))],
    "clip": lambda: [call(matrix(), a_min=0.5, a_max=1.0)],
    "clip_method": lambda: [call(matrix(), min=0.5, max=1.0)],
    "arccosh": lambda: [call(matrix() + 1)],
    "arctanh": lambda: [call(matrix() / 3)],
    "arcsin": lambda: [call(matrix() / 3)],
    "arccos": lambda: [call(matrix() / 3)],
    "matmul": lambda: [call(matrix(), matrix().T), call(matrix(np.int32), matrix(np.int32).T)],
    "dot": lambda: [call(matrix(), matrix().T)],
    "vdot": lambda: [call(matrix(), matrix())],
    "inner": lambda: [call(matrix(), matrix())],
    "outer": lambda: [call(matrix()[0], matrix()[1])],
    "kron": lambda: [call(matrix(), matrix())],
    "tensordot": lambda: [call(matrix(), matrix().T, axes=1)],
    "einsum": lambda: [call(["ij,kj->ik", matrix(), matrix()])],
    "bmm": lambda: [call(tensor((2, 3, 4)), tensor((2, 4, 5)))],
    "linear": lambda: [call(matrix(), tensor((5, 4))), call(matrix(), tensor((5, 4)), bias=tensor((5,)))],
    "conv2d": lambda: [
        call(images(), tensor((3, 4, 3, 3)), padding=1),
        call(images(), tensor((3, 4, 1, 1)), bias=tensor((3,))),
        call(images(), tensor((4, 1, 3, 3)), groups=4),
        call(tensor((2, 5, 6, 4)), tensor((3, 4, 3, 3)), layout="NHWC"),
    ],
    "conv1d": lambda: [call(tensor((2, 4, 9)), tensor((3, 4, 3)))],
    "max_pool2d": lambda: [call(images(), kernel_size=2)],
    "avg_pool2d": lambda: [call(images(), kernel_size=2)],
    "adaptive_avg_pool2d": lambda: [call(images(), output_size=(2, 3))],
    "getitem": lambda: [call(matrix(), 1), call(matrix(), (slice(None), slice(0, 3, 2))), call(matrix(), INDEX)],
    "setitem": lambda: [call(matrix(), 1, 5.0), call(matrix(), (slice(None), 2), tensor((3,)))],
    "fill": lambda: [call(matrix(), value=2.5), call(matrix(), value=0)],
    "take": lambda: [call(matrix(), INDEX), call(matrix(), INDEX, axis=1)],
    "take_along_axis": lambda: [call(matrix(), np.argsort(matrix(), axis=1), axis=1)],
    "gather": lambda: [call(matrix(), np.argsort(matrix(), axis=1), axis=1)],
    "reshape": lambda: [call(matrix(), shape=(2, 6)), call(matrix(), shape=-1), call(matrix(), dims=(2, 6))],
    "transpose": lambda: [call(matrix()), call(images(), axes=(0, 2, 3, 1))],
    "permute": lambda: [call(images(), dims=(0, 2, 3, 1))],
    "swapaxes": lambda: [call(images(), axis1=1, axis2=2)],
    "moveaxis": lambda: [call(images(), source=1, destination=-1)],
    "squeeze": lambda: [call(tensor((3, 1, 4))), call(tensor((3, 1, 4)), axis=1)],
    "expand_dims": lambda: [call(matrix(), axis=1)],
    "broadcast_to": lambda: [call(matrix(), shape=(2, 3, 4))],
    "view": lambda: [call(matrix(), dtype=np.int32), call(matrix())],
    "cumsum": lambda: [*_plain("cumsum"), call(matrix(), axis=1)],
    "cumprod": lambda: [*_plain("cumprod"), call(matrix(), axis=0)],
    "flip": lambda: [*_plain("flip"), call(matrix(), axis=1), call(images(), axis=(0, 2))],
    "split": lambda: [call(matrix(), indices_or_sections=2, axis=1)],
    "array_split": lambda: [call(matrix(), indices_or_sections=3, axis=1)],
    "hsplit": lambda: [call(matrix(), indices_or_sections=2)],
    "vsplit": lambda: [call(matrix(), indices_or_sections=[1])],
    "dsplit": lambda: [call(images(), indices_or_sections=5)],
    "sort_in_place": lambda: [call(-matrix()), call(matrix(np.int32), axis=0)],
    "tile": lambda: [call(matrix(), reps=(2, 1))],
    "repeat": lambda: [call(matrix(), repeats=2, axis=0)],
    "roll": lambda: [call(matrix(), shift=1, axis=1)],
    "pad": lambda: [call(matrix(), pad_width=1, mode="constant")],
    "searchsorted": lambda: [call(np.arange(5.0), np.array([0.5, 3.0]))],
    "item": lambda: [call(matrix()[:1, :1])],
    "int": lambda: [call(np.array(3)), call(2.5)],
    "float": lambda: [call(np.array(3.5)), call(2)],
    "bool": lambda: [call(np.array(True))],
    "min_of": lambda: [call([np.float32(2), np.float32(1)])],
    "max_of": lambda: [call([np.float32(2), np.float32(1)])],
    "zeros": lambda: [call(shape=(2, 3)), call(shape=4, dtype=np.int32)],
    "ones": lambda: [call(shape=(2, 3))],
    "empty": lambda: [call(shape=(2, 3))],
    "full": lambda: [call(shape=(2, 3), fill_value=1.5)],
    "full_like": lambda: [call(matrix(), fill_value=1.5)],
    "linspace": lambda: [call(start=0.5, stop=2.0, num=5)],
    "eye": lambda: [call(N=3)],
    "identity": lambda: [call(n=3)],
    "array": lambda: [call(object=[1.5, 2])],
    "asarray": lambda: [call(object=[1.5, 2])],
    "arange": lambda: [call(args=(1, 9, 2))],
    "range": lambda: [call(args=(1, 9, 2))],
    "slice": lambda: [call(start=1, stop=9)],
    "one_hot": lambda: [call(INDEX, depth=4)],
    "layer_norm": lambda: [
        call(matrix(), normalized_shape=(4,)),
        *(call(matrix(t), normalized_shape=4, weight=tensor((4,), t), bias=tensor((4,), t, 5)) for t in FLOATS),
        *(call(matrix(t)) for t in FLOATS),
    ],
    "rms_norm": lambda: [call(matrix(), normalized_shape=(4,)), *(call(matrix(t), weight=tensor((4,), t)) for t in FLOATS)],
    "group_norm": lambda: [call(images().astype(t), num_groups=2) for t in FLOATS],
    "batch_norm": lambda: [
        call(images(), tensor((4,)), tensor((4,), seed=3)),
        call(images(), *(tensor((4,), seed=s) for s in (1, 2)), weight=tensor((4,)), bias=tensor((4,))),
    ],
    "attention": lambda: [call(tensor((2, 3, 4)), tensor((2, 5, 4), seed=3), tensor((2, 5, 6), seed=4))],
    "embedding": lambda: [call(INDEX, tensor((5, 4)))],
    "interpolate": lambda: [call(images(), size=(7, 3)), call(images(), size=(10, 12), mode="bilinear")],
    "cross_entropy": lambda: [call(matrix(dtype), np.array([1, 3, 0])) for dtype in FLOATS],
    "binary_cross_entropy": lambda: [call(matrix() / 3, matrix() / 3)],
    "normal": lambda: [call(shape=(2, 3), key=key())],
    "uniform": lambda: [call(shape=(2, 3), key=key())],
    "dropout": lambda: [call(tensor((8, 9)), p=0.5, training=True, key=key())],
}

_SPECIAL |= samples_networks.CALLS

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


def _relaid(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy with the strides of the original, also those that go backwards, leave gaps or are 0."""
    if not value.size:
        return value.copy(order="K")
    reach = [(n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)]
    memory = np.zeros(sum(map(abs, reach)) + value.itemsize, np.uint8)
    result = np.ndarray(value.shape, value.dtype, memory, -sum(r for r in reach if r < 0), value.strides)  # type: ignore[arg-type]
    result[...] = value
    result.flags.writeable = value.flags.writeable
    return result


def copied(value: Any) -> Any:
    """A copy of operands in the same layout: writes to it leave the original alone."""
    if isinstance(value, np.ndarray):
        return _relaid(value)
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
