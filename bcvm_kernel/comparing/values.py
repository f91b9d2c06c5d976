"""What a run has left, as plain leaves with a place each, and how two runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .state import is_model, is_tensor, is_torch, of_notebook

MAX_LEAVES = 10_000
# The largest difference allowed, as a share of the largest value of an array; other types must be equal.
TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
Leaves = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How the values of a run compare with those of the cell. `agree`: within the tolerances, `bits`: to the last bit."""

    agree: bool
    bits: bool
    text: str


def leaves(namespace: Mapping[str, Any], names: Iterable[str], result: Any) -> Leaves:
    """Copies of the values behind some names, and of the value that the last line showed: numbers, strings and arrays, by place."""
    out: Leaves = {}
    for place, value in (*((name, namespace[name]) for name in names if name in namespace), ("the result", result)):
        for where, leaf in _leaves(place, value, ()):
            if len(out) < MAX_LEAVES:
                out[where] = leaf
    return out


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """An array or tensor of any library as a NumPy array of its own; None for anything else."""
    if is_tensor(value):
        name = str(value.dtype)
        return np.array((value.float() if name.endswith("BFloat16") else value).asnumpy())
    if is_torch(value):
        return np.array(getattr(value, "tensor", value).detach().cpu())
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    return None


def _leaves(place: str, value: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    array = as_array(value)
    if array is not None and not array.dtype.hasobject:
        yield place, array
    elif isinstance(value, _PLAIN):
        yield place, value
    elif id(value) in above or len(above) > 20:
        return
    elif isinstance(value, list | tuple):
        if value and all(type(each) is float for each in value):
            yield place, np.array(value)
            return
        for n, each in enumerate(value):
            yield from _leaves(f"{place}[{n}]", each, (*above, id(value)))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(f"{place}[{key!r}]", each, (*above, id(value)))
    elif is_model(value):
        for name, each in value.parameters_and_names():
            yield f"{place}.{name}", as_array(each)
    elif of_notebook(value) and hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            yield from _leaves(f"{place}.{name}", each, (*above, id(value)))


def compare(reference: Leaves, other: Leaves) -> Verdict:
    """Hold one run against another."""
    places = list(dict.fromkeys((*reference, *other)))
    wrong: list[str] = []
    types: list[str] = []
    bits, largest = True, 0.0
    for place in places:
        if place not in reference or place not in other:
            wrong.append(f"{place} is there only {'with' if place in other else 'without'} it")
            continue
        one, two = reference[place], other[place]
        same, share, reason = _difference(one, two)
        bits = bits and same
        largest = max(largest, share)
        if reason:
            wrong.append(f"{place} {reason}")
        elif _type_of(one) != _type_of(two):
            types.append(f"{place} is {_type_of(two)} instead of {_type_of(one)}")
    if wrong:
        return Verdict(False, False, f"DIFFERS: {'; '.join(wrong[:3])}" + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""))
    if not places:
        return Verdict(True, False, "nothing to compare")
    told = "".join(f"; {text}" for text in types[:2]) + (f"; and {len(types) - 2} more" if len(types) > 2 else "")
    if bits and not types:
        return Verdict(True, True, "same bits")
    return Verdict(True, False, f"equal within {largest:.1g}{told}")


def _type_of(value: Any) -> str:
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__


def _difference(one: Any, two: Any) -> tuple[bool, float, str]:
    """(the same bits, the largest difference as a share of the largest value, why they don't agree or "")."""
    same = type(one) is type(two) and not isinstance(one, np.ndarray) and bool(one == two)
    numbers = all(isinstance(value, np.ndarray | int | float | complex) for value in (one, two))
    if not numbers or (isinstance(one, int) and isinstance(two, int)):
        return same, 0.0, "" if same else f"is {_short(two)} instead of {_short(one)}"
    a, b = np.asarray(one), np.asarray(two)
    if a.shape != b.shape:
        return False, 0.0, f"has shape {list(b.shape)} instead of {list(a.shape)}"
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return True, 0.0, ""
    limit = max(TOLERANCES.get(str(a.dtype), 0.0), TOLERANCES.get(str(b.dtype), 0.0))
    if not limit:
        equal = bool(np.array_equal(a, b))
        return equal and a.dtype == b.dtype, 0.0, "" if equal else "has other values"
    return False, *_share(a.astype(np.complex128), b.astype(np.complex128), limit)


def _share(a: Any, b: Any, limit: float) -> tuple[float, str]:
    for name, test in (("NaN", np.isnan), ("infinities", np.isinf)):
        if not np.array_equal(test(a), test(b)):
            return 0.0, f"has {name} in other places"
    finite = np.isfinite(a)
    if not np.array_equal(a[np.isinf(a)], b[np.isinf(b)]):
        return 0.0, "has infinities of another sign"
    if not finite.any():
        return 0.0, ""
    top = float(np.abs(a[finite]).max()) or 1.0
    share = float(np.abs(a[finite] - b[finite]).max()) / top
    return share, "" if share <= limit else f"is off by {share:.1g} of its largest value"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
