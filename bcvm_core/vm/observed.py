"""What parameters have been so far: hints inferred from the first values, generalised when other shapes arrive."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..devices import base
from ..errors import Decline
from ..frontend.annotations import TensorSpec
from ..isa.hints import ShapeHint, generalise, infer


class Observed:
    """The parameters of one function as `TensorSpec`s, by name. Listings without example values use them."""

    def __init__(self) -> None:
        self.specs: dict[str, TensorSpec] = {}
        self._latest: dict[str, tuple[Any, ...]] = {}  # (element type, contiguous, shape) of the latest array

    def see(self, name: str, value: Any) -> None:
        """Take in one value of a parameter; values that are no tensors say nothing."""
        known = self.specs.get(name)
        if type(value) is np.ndarray:
            before, latest = self._latest.get(name), (value.dtype, value.flags.c_contiguous, value.shape)
            self._latest[name] = latest
            if known is not None and before is not None and self._says_nothing(known.hint, before, latest):
                return  # as at nearly every call
        spec = _spec_of(value)
        if spec is None:
            return
        if known is not None:
            spec = TensorSpec(spec.dtype, self._widened(name, known.hint, value.shape), layout=spec.layout)
        self.specs[name] = spec

    @staticmethod
    def _says_nothing(known: ShapeHint, before: tuple[Any, ...], latest: tuple[Any, ...]) -> bool:
        return before[:2] == latest[:2] and (before[2] == latest[2] or known.match(latest[2], {}) is None)

    def _widened(self, name: str, hint: ShapeHint, shape: tuple[int, ...]) -> ShapeHint:
        if hint.match(shape, {}) is None:
            return hint
        taken = {symbol for other, spec in self.specs.items() if other != name for symbol in spec.hint.names}
        return generalise(hint, shape, taken)


def _spec_of(value: Any) -> TensorSpec | None:
    if type(value) is np.ndarray:
        name = dtypes.name_of(value.dtype)
        layout = "contiguous" if value.flags.c_contiguous else "strided"
        return None if name is None else TensorSpec(name, infer(value.shape), layout=layout)
    if isinstance(value, np.generic) or not base.is_tensor(value):
        return None
    try:
        found = base.classify(value)
    except Decline:
        return None
    return TensorSpec(found.dtype, infer(value.shape), layout=found.layout)
