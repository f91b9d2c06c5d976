"""The `mint` table: every public function is in it, runs as it says, and gives what NumPy gives in float64."""

from __future__ import annotations

import inspect
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import MODULES, array, by_mindspore, by_site, tensor
from mint_reference import reference

from bcvm_core.mindspore import mint_table
from bcvm_core.mindspore.mint_table import Entry

pytestmark = pytest.mark.mindspore
ENTRIES = mint_table.entries()
RUN = [entry for entry in ENTRIES if not entry.why]


def ids(entry: Entry) -> str:
    return f"{entry.module}.{entry.name}"


def operands() -> dict[str, Any]:
    return {name: tensor(value, value.dtype) for name, value in mint_table.operands().items()}


def public(module: Any) -> set[str]:
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return {n for n in names if callable(getattr(module, n, None)) and not inspect.isclass(getattr(module, n))}


def test_every_public_function_is_in_the_table() -> None:
    modules = {
        "mint": MODULES["mint"],
        "mint.nn.functional": MODULES["F"],
        "mint.linalg": MODULES["mint"].linalg,
        "mint.special": MODULES["mint"].special,
    }
    for name, module in modules.items():
        listed = {entry.name for entry in ENTRIES if entry.module == name}
        assert public(module) - listed == set(), f"functions of {name} that the table lacks"


def compare(ours: Any, theirs: Any) -> None:
    """Same structure, same shapes, the same numbers to float32's digits."""
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b)
        return
    assert np.shape(ours) == np.shape(theirs)
    if np.asarray(theirs).dtype.kind in "iub" and np.asarray(ours).dtype.kind in "iub":
        assert np.array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("entry", RUN, ids=ids)
def test_the_call_runs_and_is_right(entry: Entry) -> None:
    ours = array(by_site(entry.call, **operands()))
    wanted = reference(entry.module, entry.name, entry.call, mint_table.operands())
    if wanted is not ...:
        compare(ours, wanted)


def refuses(entry: Entry) -> bool:
    try:
        result = by_mindspore(entry.call, **operands())
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, ms.Tensor):
                part.asnumpy()
    except Exception:
        return True
    return False


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_what_mindspore_refuses(entry: Entry) -> None:
    assert refuses(entry) == entry.refused


KNOWN_TYPES = {"mint.real", "mint.imag"}


@pytest.mark.parametrize("entry", [e for e in RUN if not e.refused], ids=ids)
def test_types_are_those_that_mindspore_gives(entry: Entry) -> None:
    def kinds(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [kinds(part) for part in value]
        return (str(value.dtype), tuple(value.shape)) if isinstance(value, ms.Tensor) else value

    assert kinds(by_site(entry.call, **operands())) == kinds(by_mindspore(entry.call, **operands()))


def test_in_place_functions_write_to_their_operand() -> None:
    for call in ("F.relu_(x)", "F.elu_(x)", "F.hardtanh_(x)", "F.sigmoid_(x)", "F.threshold_(x, 0.1, 9.0)", "mint.addr_(x, r, v)"):
        given = operands()
        assert by_site(call, **given) is given["x"]
        assert not np.array_equal(array(given["x"]), mint_table.operands()["x"])


RANDOM = {
    "mint.rand(200, 5)": (0.5, 1 / 12**0.5), "mint.randn(200, 5)": (0.0, 1.0), "mint.normal(2.0, 3.0, (200, 5))": (2.0, 3.0),
    "mint.randint(0, 10, (200, 5))": (4.5, (99 / 12) ** 0.5), "mint.bernoulli(big * 0 + 0.25)": (0.25, 0.433),
    "F.dropout(big * 0 + 1, 0.5)": (1.0, 1.0), "mint.rand_like(big)": (0.5, 1 / 12**0.5), "mint.randn_like(big)": (0.0, 1.0),
    "mint.randint_like(big, 0, 10)": (4.5, (99 / 12) ** 0.5), "mint.randperm(1000)": (499.5, 288.7),
    "mint.multinomial(big[0] * 0 + 1, 1000, True)": (2.0, 2**0.5),
}  # fmt: skip


@pytest.mark.parametrize("call", RANDOM)
def test_random_functions_follow_mindspores_seed(call: str) -> None:
    big = tensor(np.zeros((200, 5)))
    ms.manual_seed(5)
    first, second = array(by_site(call, big=big)), array(by_site(call, big=big))
    state = ms.get_rng_state()
    third = array(by_site(call, big=big))
    ms.set_rng_state(state)
    assert np.array_equal(third, array(by_site(call, big=big))), "the state says what comes next"
    ms.manual_seed(5)
    assert np.array_equal(first, array(by_site(call, big=big))) and not np.array_equal(first, second)
    mean, deviation = RANDOM[call]
    assert abs(first.mean() - mean) < 5 * deviation / first.size**0.5 and abs(first.std() - deviation) < 0.1 * deviation


def test_the_documentation_counts() -> None:
    text = mint_table.as_markdown()
    assert text.startswith(f"{len(ENTRIES)} functions: {len(RUN)} run in BCVM")
    assert all(f"`{entry.module}.{entry.name}`" in text for entry in ENTRIES)


def test_tensors_are_made_and_drawn_inside_compiled_functions() -> None:
    import bcvm_core as bcvm

    @bcvm.jit(strict=True)
    def run(x: Any) -> Any:
        lower = MODULES["mint"].tril(mint.ones((4, 4)))
        values, index = mint.topk(x @ lower, 2, dim=1)
        noise = F.dropout(mint.randn(3, 2), 0.5)
        return values + mint.arange(2), index, noise, mint.zeros((3, 2))

    mint, F = MODULES["mint"], MODULES["F"]
    x = tensor(np.arange(12.0).reshape(3, 4))
    values, index, noise, zeros = run(x)
    product = np.arange(12.0).reshape(3, 4) @ np.tril(np.ones((4, 4)))
    assert np.allclose(array(values), -np.sort(-product, 1)[:, :2] + np.arange(2)) and index.dtype == ms.int64
    assert noise.shape == (3, 2) and not array(zeros).any() and run.stats().call_host == 0
