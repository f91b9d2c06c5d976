"""`mindspore.numpy` by BCVM's call sites: the same types, shapes and numbers as MindSpore's own functions."""

from __future__ import annotations

import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, tensor, type_name

pytestmark = pytest.mark.mindspore

CALLS = """
ms.numpy.roll(x, 1) | ms.numpy.roll(x, -7) | ms.numpy.roll(x, 2, 1) | ms.numpy.roll(a=x, shift=-1, axis=0) | ms.numpy.roll(v, 4)
ms.numpy.roll(x, (1, -2), (0, 1)) | ms.numpy.roll(x, 1, (0, -1)) | ms.numpy.roll(x, 5, -2) | ms.numpy.roll(i, 2, -1) | ms.numpy.roll(h, 1)
ms.numpy.roll(b, 1, 0) | ms.numpy.roll(x.T, 1, 0) | ms.numpy.roll(d, (1, 1), (0, 0))
"""


@pytest.mark.parametrize("text", [call.strip() for line in CALLS.strip().splitlines() for call in line.split("|")])
def test_same_as_mindspore(text: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 0.5
    kinds = {"x": np.float32, "h": np.float16, "d": np.float64, "i": np.int32, "b": np.bool_}
    names = {name: tensor(x, kind) for name, kind in kinds.items()} | {"v": tensor([np.nan, np.inf, -0.0])}
    ours, theirs = by_site(text, **names), by_mindspore(text, **names)
    assert type_name(ours) == type_name(theirs)
    np.testing.assert_array_equal(array(ours), array(theirs))
