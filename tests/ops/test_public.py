"""`bcvm.ops`: functions run eagerly, and leave to NumPy what the definitions decline."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core.ops import registry


def test_calls() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert ops.sum(x) == 15 and ops.sum(x, 0).tolist() == [3, 5, 7] and ops.sum(x, axis=1, keepdims=True).shape == (2, 1)
    assert ops.concatenate([x, x], axis=1).shape == (2, 6)
    assert ops.einsum("ij,kj->ik", x, x).tolist() == (x @ x.T).tolist()
    assert ops.arange(1, 7, 2).tolist() == [1, 3, 5] and ops.zeros((2,), dtype=np.int8).dtype == np.int8
    assert np.may_share_memory(ops.reshape(x, (3, 2)), x) and ops.transpose(x).shape == (3, 2)
    assert ops.exp(np.zeros(2)).tolist() == [1, 1] and ops.relu(np.array([-1.0, 2.0])).tolist() == [0, 2]
    assert ops.max(x, 1).tolist() == [2, 5] and ops.where(x > 2, x, 0).sum() == 12


def test_signatures_and_errors() -> None:
    assert str(inspect.signature(ops.mean)) == "(x, axis=None, dtype=None, keepdims=False, where=<no value>)"
    assert list(inspect.signature(ops.layer_norm).parameters) == ["x", "normalized_shape", "weight", "bias", "eps"]
    assert str(inspect.signature(ops.concatenate)) == "(arrays, axis=0, dtype=None, casting='same_kind')"
    assert ops.softmax.__module__ == "bcvm_core.ops"
    with pytest.raises(TypeError, match="softmax"):
        ops.softmax()
    with pytest.raises(TypeError, match="axes"):
        ops.softmax(np.ones(3), axes=1)


def test_defaults_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(registry, "executor", lambda op, operands, attrs: seen.append((op.name, operands, dict(attrs))))
    x = np.ones(3)
    ops.sum(x, keepdims=True)
    ops.linear(x, x, bias=x)
    ops.reshape(x, (1, 3))
    assert [s[0] for s in seen] == ["sum", "linear", "reshape"]
    assert seen[0][2] == {"keepdims": True} and len(seen[1][1]) == 2 and list(seen[1][2]) == ["bias"] and seen[2][2] == {"shape": (1, 3)}


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_a_definition_declines_numpy_does() -> None:
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(ops.mean(np.zeros(0)))
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        ops.var(np.zeros((1, 2)), axis=0, ddof=1)
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    assert ops.sum(masked) == 1.0
    assert ops.norm(np.eye(3), ord=2) == 1.0
