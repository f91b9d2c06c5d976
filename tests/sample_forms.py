"""The samples in other element types and layouts, with special values, empty, of one element and without axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from bcvm_core.ops.registry import OpInfo
from tests.sample_values import Sample
from tests.samples import samples

Array = np.ndarray[Any, Any]
FLOATS: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
INTEGERS: dict[str, Any] = {"int32": np.int32, "uint8": np.uint8, "bool": np.bool_}
TYPES = {**FLOATS, **INTEGERS}


def mapped(sample: Sample, change: Callable[[Any], Any], scalars: bool = False) -> Sample:
    """The sample with every array changed, with `scalars` NumPy's scalars too; parameters that are arrays as well."""

    def one(value: Any) -> Any:
        if isinstance(value, np.ndarray) or (scalars and isinstance(value, np.generic)):
            return change(value)
        return type(value)([one(item) for item in value]) if type(value) in (tuple, list) else value

    operands, attrs = sample
    return tuple(one(value) for value in operands), {name: one(value) for name, value in attrs.items()}


def first(sample: Sample, change: Callable[[Array], Any]) -> Sample:
    """The sample with its first array changed, the others as they are."""
    done = False

    def once(value: Array) -> Any:
        nonlocal done
        changed, done = (value if done else change(value)), True
        return changed

    return mapped(sample, once)


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and (value.dtype.kind == "f" or value.dtype == ml_dtypes.bfloat16)


def has_floats(sample: Sample) -> bool:
    found = []
    mapped(sample, lambda value: found.append(is_float(value)))
    return any(found)


def in_type(sample: Sample, dtype: Any) -> Sample:
    """Floating-point arrays in another type; of integers the nearest ones."""
    with np.errstate(all="ignore"):
        return mapped(sample, lambda value: value.astype(dtype) if is_float(value) else value, scalars=True)


# --- layouts: the same elements ---------------------------------------------------------------------------


def _transposed(value: Array) -> Array:
    return np.asfortranarray(value)


def _backwards(value: Array) -> Array:
    key = (slice(None, None, -1),) * value.ndim
    return value[key].copy()[key]


def _stepped(value: Array) -> Array:
    wide = np.repeat(value, 3, axis=-1) if value.ndim else value
    return wide[..., 1::3] if value.ndim else value


def _inner(value: Array) -> Array:
    """A part of a larger array: rows are not next to one another."""
    wide = np.pad(value, [(1, 1)] * value.ndim) if value.ndim else value
    return wide[(slice(1, -1),) * value.ndim]


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "transposed": _transposed, "backwards": _backwards, "stepped": _stepped, "inner": _inner,
}  # fmt: skip


# --- other elements: what is compared is what the reference makes of the same sample --------------------------


def _stretched(value: Array) -> Array:
    return np.broadcast_to(value[:1], value.shape) if value.ndim and len(value) else value


SPECIAL = {
    "nan": np.nan, "inf": np.inf, "-inf": -np.inf, "-0.0": -0.0, "subnormal": 1e-41, "largest": 3e38,
}  # fmt: skip


def with_special(sample: Sample, number: float, place: int) -> Sample:
    """One element of the first floating-point array is `number`."""

    def put(value: Array) -> Array:
        changed = value.copy()
        if is_float(value) and value.size:
            with np.errstate(all="ignore"):
                changed.reshape(-1)[place % value.size] = number
        return changed

    return first(sample, put)


def stretched(sample: Sample) -> Sample:
    """The first array repeats its first entry with a stride of 0."""
    return first(sample, _stretched)


CUTS: dict[str, Callable[[Array], Array]] = {
    "one element": lambda value: value[(slice(1),) * value.ndim],
    "no element": lambda value: value[:0] if value.ndim else value,
    "no column": lambda value: value[..., :0] if value.ndim else value,
    "no axis": lambda value: value[(0,) * value.ndim] if value.ndim else value,
}


def cut(op: OpInfo, sample: Sample, how: str) -> Sample:
    """Smaller arrays: of all operands where they have one shape, else of the first alone."""
    alike = op.shape_rule in ("elementwise", "reduce") or op.name in ("add_all",)
    return (mapped if alike else first)(sample, CUTS[how])


_every: dict[str, list[Sample]] = {}


def every(op: OpInfo) -> list[Sample]:
    """The samples, without complex numbers; nobody may write to them."""
    if op.name not in _every:
        _every[op.name] = list(_real(op))
    return _every[op.name]


def _real(op: OpInfo) -> Iterator[Sample]:
    for sample in samples(op):
        found: list[bool] = []
        mapped(sample, lambda value, found=found: found.append(value.dtype.kind == "c"))  # type: ignore[misc]
        if not any(found):
            yield sample
