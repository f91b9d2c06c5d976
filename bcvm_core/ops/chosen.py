"""`where=` and `initial=` of the reductions that follow the tree.

An element that `where` leaves out counts as the neutral one; the tree, and so the order of the
operations, stays what it is without `where`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Decline
from ._rows import UNSET

_Array = np.ndarray[Any, Any]


def given(**values: Any) -> dict[str, Any]:
    """Those of the parameters that were passed."""
    return {name: value for name, value in values.items() if value is not UNSET}


def mask_of(where: Any, array: _Array) -> _Array | None:
    """`where` as a mask over `array`; None for all elements. Raises Decline for one that NumPy refuses or stretches `array` by."""
    if where is UNSET or where is True:
        return None
    mask = np.asarray(where)
    if mask.dtype != np.bool_ or mask.ndim > array.ndim:
        raise Decline("a `where` that is no mask over the array")
    try:
        return np.broadcast_to(mask, array.shape)
    except ValueError:
        raise Decline("a `where` that does not fit the array") from None


def keep(values: _Array, mask: _Array | None, neutral: int) -> _Array:
    """`values` with `neutral` where the mask is False."""
    return values if mask is None else np.where(mask, values, values.dtype.type(neutral))


def start_of(initial: Any, dtype: np.dtype[Any]) -> Any:
    """`initial` in the type of the totals; None for none. Raises Decline for what NumPy refuses or warns about."""
    if initial is UNSET:
        return None
    if not isinstance(initial, bool | int | float | np.number | np.bool_) or isinstance(initial, np.complexfloating):
        raise Decline("an initial value of this type is NumPy's")
    with np.errstate(all="ignore"):
        start = dtype.type(initial)
    if np.isinf(start) and not np.isinf(initial):
        raise Decline("NumPy warns about this initial value")
    return start


def counts(mask: _Array, axes: tuple[int, ...]) -> _Array:
    """How many elements the mask keeps, for every element of the result."""
    return np.asarray(np.sum(mask, axis=axes, dtype=np.intp))
