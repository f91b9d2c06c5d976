"""Shape hints: written form, what they accept, how they are learnt, how they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core.errors import HintError
from bcvm_core.isa.hints import ANY, Aligned, ShapeHint, contradiction, generalise, infer, of_dims, renamed, short_names, specialise

dims = st.one_of(st.none(), st.integers(0, 9), st.sampled_from(["B", "C", "s0", "Größe"]), st.builds(Aligned, st.integers(2, 64)))
hints = st.builds(ShapeHint, st.lists(dims, max_size=5).map(tuple), st.booleans())
shapes = st.lists(st.integers(0, 9), max_size=5).map(tuple)


def hint(text: str) -> ShapeHint:
    return ShapeHint.parse(text)


@given(hints)
def test_the_written_form_comes_back(one: ShapeHint) -> None:
    assert ShapeHint.parse(str(one)) == one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", ShapeHint(())),
        ("[...]", ANY),
        (" [ B ,*, 64 ] ", ShapeHint(("B", None, 64))),
        ("[..., *%16]", ShapeHint((Aligned(16),), True)),
        ("[* % 8]", ShapeHint((Aligned(8),))),
        ("[*%1]", ShapeHint((None,))),
        ("[1, D]", ShapeHint((1, "D"))),
    ],
)
def test_what_is_read(text: str, expected: ShapeHint) -> None:
    assert ShapeHint.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B",
        "[B",
        "[B,]",
        "[,]",
        "[B C]",
        "[-1]",
        "[B, ...]",
        "[*%0]",
        "[*%x]",
        "[1.5]",
        "[²]",
        "[9" + "9" * 30 + "]",
        "[" + "*," * 64 + "*]",
    ],
)
def test_malformed_hints_say_what_to_do(text: str) -> None:
    with pytest.raises(HintError) as caught:
        ShapeHint.parse(text)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        ("[B, *, C]", (2, 3, 4), None),
        ("[B, *, C]", (2, 3), "rank 2 against [B, *, C]"),
        ("[B, B]", (2, 3), "dim 1 is 3 but B = 2 in [B, B]"),
        ("[B, 64]", (2, 32), "dim 1 is 32, not 64 as in [B, 64]"),
        ("[1, D]", (1, 7), None),
        ("[1, D]", (4, 7), "dim 0 is 4, not 1 as in [1, D]"),
        ("[..., 64]", (64,), None),
        ("[..., 64]", (5, 4, 64), None),
        ("[..., 64]", (5, 4, 63), "dim 2 is 63, not 64 as in [..., 64]"),
        ("[..., 64]", (), "rank 0 against [..., 64]"),
        ("[...]", (), None),
        ("[]", (), None),
        ("[]", (1,), "rank 1 against []"),
        ("[*%16]", (32,), None),
        ("[*%16]", (0,), None),
        ("[*%16]", (33,), "dim 0 is 33, no multiple of 16 as in [*%16]"),
    ],
)
def test_match(text: str, shape: tuple[int, ...], reason: str | None) -> None:
    assert hint(text).match(shape, {}) == reason


def test_names_agree_within_a_run_and_failures_bind_nothing() -> None:
    bound: dict[str, int] = {}
    assert hint("[B, C]").match((2, 3), bound) is None
    assert bound == {"B": 2, "C": 3}
    assert hint("[N, B]").match((7, 4), bound) == "dim 1 is 4 but B = 2 in [N, B]"
    assert hint("[N, B]").match((7, 2), bound) is None
    assert bound == {"B": 2, "C": 3, "N": 7}


@pytest.mark.parametrize(
    ("before", "shape", "after"),
    [
        ("[8, 3]", (8, 3), "[8, 3]"),
        ("[8, 3]", (4, 3), "[s0, 3]"),
        ("[8, 8, 3]", (4, 5, 3), "[s0, s1, 3]"),
        ("[s0, 3]", (9, 4), "[s0, s1]"),
        ("[B, B]", (4, 5), "[B, s0]"),
        ("[8, 3]", (8, 3, 1), "[...]"),
        ("[..., 3]", (8, 8, 4), "[..., s0]"),
        ("[..., 3]", (), "[...]"),
        ("[*%16]", (24,), "[*%8]"),
        ("[*%16]", (7,), "[*]"),
        ("[1, D]", (2, 4), "[s0, D]"),
        ("[*, 4]", (2, 4), "[*, 4]"),
    ],
)
def test_generalise(before: str, shape: tuple[int, ...], after: str) -> None:
    assert str(generalise(hint(before), shape)) == after


def test_symbols_of_other_hints_are_not_taken_again() -> None:
    assert str(generalise(infer((8, 3)), (4, 2), taken={"s0", "s2"})) == "[s1, s3]"


@given(shapes, shapes, shapes)
def test_a_generalised_hint_accepts_what_it_saw(first: tuple[int, ...], second: tuple[int, ...], third: tuple[int, ...]) -> None:
    """Never forgets an old shape: each generalisation accepts all shapes so far."""
    learnt = generalise(generalise(infer(first), second), third)
    for shape in (first, second, third):
        assert learnt.match(shape, {}) is None


@given(hints, shapes)
def test_generalising_settles(one: ShapeHint, shape: tuple[int, ...]) -> None:
    learnt = generalise(one, shape)
    assert learnt.match(shape, {}) is None
    assert generalise(learnt, shape) == learnt
    if one.match(shape, {}) is None:
        assert learnt == one


@given(hints, hints, shapes)
def test_a_contradiction_is_never_wrong(one: ShapeHint, two: ShapeHint, shape: tuple[int, ...]) -> None:
    if one.match(shape, {}) is None and two.match(shape, {}) is None:
        assert contradiction(one, two) is None


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ("[2]", "[3]", True),
        ("[2]", "[B]", False),
        ("[2]", "[2, 3]", True),
        ("[..., 2]", "[3, 2]", False),
        ("[..., 1, 2]", "[2]", True),
        ("[17]", "[*%16]", True),
    ],
)
def test_contradictions(one: str, two: str, apart: bool) -> None:
    assert (contradiction(hint(one), hint(two)) is not None) is apart


def test_specialise() -> None:
    assert specialise(hint("[..., B, *, 64, *%16]"), {"B": 3}, 20) == ShapeHint((3, 20, 64, 32))


def test_names_are_shortened_where_that_is_unique() -> None:
    names = short_names(["Batch", "Channel", "Cols", "s0", "s1"])
    assert names == {"Batch": "B", "Channel": "Channel", "Cols": "Cols", "s0": "s0", "s1": "s1"}
    assert str(renamed(hint("[Batch, *, Channel, Other]"), names)) == "[B, *, Channel, Other]"
    assert short_names(["B", "Batch"]) == {"B": "B", "Batch": "Batch"}


def test_dims_of_annotations() -> None:
    assert of_dims((..., "*", "B", 4)) == ShapeHint((None, "B", 4), True)
    for wrong in (True, 1.5, None, -1):
        with pytest.raises(HintError):
            of_dims((wrong,))
