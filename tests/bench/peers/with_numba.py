"""numba's njit on the NumPy text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import sources
import worker


class Numba(worker.Peer):
    name = "numba"
    words = sources.in_module("np", number="np.float32({0})", relu="{m}.maximum({0}, {m}.float32(0))",
                              sigmoid="{m}.float32(1) / ({m}.float32(1) + {m}.exp(-({0})))")  # fmt: skip

    def versions(self) -> str:
        return f"numba {numba.__version__}"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return numba.njit(function)  # type: ignore[no-any-return]


worker.serve(Numba())
