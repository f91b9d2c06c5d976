"""The published deviations: BCVM gives what the table says, and MindSpore really does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, numpy_type, tensor

from bcvm_core.mindspore.deviations import TABLE, Deviation, as_markdown

pytestmark = pytest.mark.mindspore
SCOPE = {"t": lambda values, dtype="float32": tensor(values, numpy_type(dtype)), "inf": math.inf, "nan": math.nan}
IN_PLACE = {"in-place methods", "index_add of the older form"}


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a, float), np.asarray(b, float), equal_nan=True))


@pytest.mark.parametrize("row", [r for r in TABLE if r.what not in IN_PLACE], ids=lambda r: r.what)
def test_row(row: Deviation) -> None:
    expected = eval(row.ours, SCOPE)
    assert same(array(by_site(row.example, **SCOPE)), expected)
    if row.mindspore == "RuntimeError":
        with pytest.raises(RuntimeError):
            array(by_mindspore(row.example, **SCOPE))
    elif row.mindspore is not None:
        theirs = array(by_mindspore(row.example, **SCOPE))
        assert same(theirs, eval(row.mindspore, SCOPE)) and not same(theirs, expected), f"MindSpore gives {theirs} now: correct the table"


METHODS = ("x.add_(3)", "x.sub_(y)", "x.mul_(y)", "x.div_(2)", "x.exp_()", "x.clamp_(0, 1)", "x.zero_()", "x.fill_(2.5)")


@pytest.mark.parametrize("text", METHODS)
def test_in_place_methods_write(text: str) -> None:
    names = {"x": tensor([1.5, -2.0]), "y": tensor([2.0, 4.0])}
    x = names["x"]
    values, y = array(x).copy(), array(names["y"])
    wanted = {
        "x.add_(3)": values + 3, "x.sub_(y)": values - y, "x.mul_(y)": values * y, "x.div_(2)": values / 2, "x.exp_()": np.exp(values),
        "x.clamp_(0, 1)": np.clip(values, 0, 1), "x.zero_()": values * 0, "x.fill_(2.5)": values * 0 + 2.5,
    }[text]  # fmt: skip
    result = by_site(text, **names)
    assert result is x
    np.testing.assert_allclose(array(x), wanted, rtol=1e-6)


def test_index_add_leaves_the_tensor_alone() -> None:
    text = "x.index_add(i, y, 0)"
    for run, kept in ((by_site, True), (by_mindspore, False)):
        x = tensor([1.0, 2.0])
        result = run(text, x=x, i=tensor([0, 0], np.int32), y=tensor([5.0, 6.0]))
        assert array(result).tolist() == [12, 2] and (array(x).tolist() == [1, 2]) is kept


def test_empty_reductions_do_not_show_memory() -> None:
    for _ in range(3):
        e = tensor(np.zeros((0, 3)))
        assert np.isnan(array(by_site("e.mean(0)", e=e))).all()
        assert array(by_site("e.sum()", e=e)) == 0 and np.isnan(array(by_site("e.std()", e=e)))


def test_one_bad_row_does_not_spoil_its_neighbours() -> None:
    x = np.full((4, 5), -math.inf)
    x[1::2] = [0, 1, 2, 3, 4]
    result = array(by_site("ops.softmax(x)", x=tensor(x)))
    good = np.exp(x[1] - 4) / np.exp(x[1] - 4).sum()
    np.testing.assert_allclose(result[1::2], [good, good], rtol=1e-6)
    assert np.isnan(result[::2]).all()


def test_documentation_lists_every_row() -> None:
    text = as_markdown()
    assert all(row.example in text for row in TABLE) and len(text.splitlines()) == len(TABLE) + 2
