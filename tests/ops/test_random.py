"""Random ops: keys name streams, generators stay with Python."""

from __future__ import annotations

import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core.errors import Decline
from bcvm_core.ops import registry


def test_a_key_names_a_stream() -> None:
    a, b = ops.normal((1000,), 1), ops.normal((1000,), 1)
    assert a.dtype == np.float32 and a.tobytes() == b.tobytes()
    assert a.tobytes() != ops.normal((1000,), 2).tobytes() and ops.normal((3,), (1, 2)).tobytes() != ops.normal((3,), (2, 1)).tobytes()
    assert abs(a.mean()) < 0.2 and 0.9 < a.std() < 1.1
    u = ops.uniform((1000,), 3, 2.0, 5.0, np.float64)
    assert u.dtype == np.float64 and u.min() >= 2 and u.max() < 5 and abs(u.mean() - 3.5) < 0.2


def test_dropout() -> None:
    x = np.ones((100, 100), np.float32)
    y = ops.dropout(x, 0.25, key=5)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert 0.2 < (y == 0).mean() < 0.3 and y.tobytes() == ops.dropout(x, 0.25, key=5).tobytes()
    assert ops.dropout(x, 1.0, key=1).sum() == 0
    assert ops.dropout(x.astype(np.float16), key=1).dtype == np.float16
    with pytest.raises(ValueError):
        ops.dropout(x, 1.5)


def test_dropout_that_drops_nothing_is_its_operand() -> None:
    x = np.ones(3)
    assert ops.dropout(x, 0.0) is x and ops.dropout(x, 0.5, training=False) is x


def test_generators_are_left_to_python_and_advance_once() -> None:
    rng, twin = np.random.default_rng(7), np.random.default_rng(7)
    with pytest.raises(Decline):
        registry.row("normal").definition(shape=(3,), key=rng)
    assert ops.normal((3,), rng).tobytes() == twin.standard_normal(3).astype(np.float32).tobytes()
    assert ops.uniform((3,), rng, dtype=np.float64).tobytes() == twin.random(3).tobytes()
    kept = twin.random((4, 4)) >= 0.5
    assert (ops.dropout(np.ones((4, 4)), key=rng) != 0).tolist() == kept.tolist()
    assert ops.dropout(np.ones(100)).tobytes() != ops.dropout(np.ones(100)).tobytes()
