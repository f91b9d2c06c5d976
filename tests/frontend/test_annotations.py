"""Annotations: the forms of `Tensor[...]`, how they are found on functions, and what is said when one is wrong."""

# ruff: noqa: UP037  (dims are text in text annotations)

from __future__ import annotations

import functools
import typing

import numpy as np
import pytest

from bcvm_core.errors import HintError
from bcvm_core.frontend.annotations import Tensor, TensorAnnotation, TensorSpec, annotations_of, hints_of
from bcvm_core.isa.hints import ANY, Aligned, ShapeHint

if typing.TYPE_CHECKING:
    from somewhere import Secret

Image = Tensor["B", 3, "H", "W"]


class Net:
    def forward(self, x: Tensor["Batch", "*", "Channel"], w: Tensor[64, "Channel"], n: int = 1) -> Tensor["Batch"]: ...


def test_hints_of_a_method_written_as_text() -> None:
    expected = {"x": ShapeHint(("Batch", None, "Channel")), "w": ShapeHint((64, "Channel"))}
    assert hints_of(Net.forward) == expected
    assert hints_of(Net().forward) == expected


def test_all_forms() -> None:
    def f(
        a: Tensor["...", 64],
        b: Tensor[..., 64],
        c: Tensor[()],
        d: Tensor["*%16"],
        e: Image,
        g: Tensor["B"].dtype("float32"),
        h: Tensor["B"] | None,
        i: typing.Optional[Tensor["B"]],  # noqa: UP045
        j: typing.Annotated[np.ndarray, Tensor["B"]],
        k: None | Tensor["B"],
        *rest: Tensor["R"],
        **more: Tensor["M"],
    ) -> None: ...

    found = hints_of(f)
    assert found["a"] == found["b"] == ShapeHint((64,), True)
    assert found["c"] == ShapeHint(())
    assert found["d"] == ShapeHint((Aligned(16),))
    assert "e" not in found  # text without brackets is not evaluated
    assert [found[name] for name in "ghijk"] == [ShapeHint(("B",))] * 5
    assert annotations_of(f)["g"].dtype_name == "float32"
    assert found["rest"] == ShapeHint(("R",)) and found["more"] == ShapeHint(("M",))


def test_objects_as_annotations() -> None:
    def f(x, y): ...  # type: ignore[no-untyped-def]

    f.__annotations__ = {"x": Image, "y": Image | None}
    assert hints_of(f) == {"x": ShapeHint(("B", 3, "H", "W")), "y": ShapeHint(("B", 3, "H", "W"))}


def test_names_the_function_captured() -> None:
    size = 7

    def f(x: Tensor[size, "B"]) -> int:
        return size

    assert hints_of(f) == {"x": ShapeHint((7, "B"))}


def test_wrapped_functions_and_partials() -> None:
    @functools.wraps(Net.forward)
    def wrapper(*args: object, **kwargs: object) -> None: ...

    assert hints_of(wrapper) == hints_of(Net.forward)
    assert list(hints_of(functools.partial(Net.forward, None))) == ["x", "w"]


def test_what_is_no_hint_is_left_alone() -> None:
    def f(a: Secret[int], b: "Tensor", c: list[int], d: no.such["thing"], e: Tensor["A"] | Tensor["B"], f=1): ...  # type: ignore[no-untyped-def]

    assert hints_of(f) == {}
    assert hints_of(len) == {} or isinstance(hints_of(len), dict)
    assert hints_of(42) == {}  # type: ignore[arg-type]


def test_a_malformed_annotation_names_function_and_parameter() -> None:
    def f(x: Tensor["a b"]) -> None: ...

    with pytest.raises(HintError, match=r"f, parameter x: 'a b' is no dim") as caught:
        hints_of(f)
    assert caught.value.where is not None and caught.value.where.filename == __file__
    assert caught.value.fix


@pytest.mark.parametrize("dims", [True, 1.5, -1, ("B", ...), "", None])
def test_malformed_dims(dims: object) -> None:
    with pytest.raises(HintError):
        Tensor[dims]


def test_there_are_no_tensors() -> None:
    for make in (Tensor, Tensor["B"]):
        with pytest.raises(HintError, match="annotations only") as caught:
            make(np.ones(3))
        assert "np.array" in caught.value.fix


def test_annotations_show_what_was_written() -> None:
    assert repr(Tensor["B", "*", 64]) == "Tensor[B, *, 64]"
    assert repr(Tensor[()].dtype(np.float16)) == "Tensor[].dtype('float16')"
    assert Tensor["B"] == TensorAnnotation(ShapeHint(("B",)))
    with pytest.raises(HintError, match="no element type"):
        Tensor["B"].dtype("text")


def test_specs() -> None:
    assert TensorSpec("float32").hint == ANY
    assert TensorSpec("float32", ("B", 4)).hint == TensorSpec("float32", ShapeHint(("B", 4))).hint
    assert TensorSpec(np.int8, [1]).dtype == "int8"  # type: ignore[arg-type]
    assert hash(TensorSpec("float32", ["B"])) == hash(TensorSpec("float32", ("B",)))
    for wrong in ({"dtype": "text"}, {"dims": ["a b"]}, {"device": "gpu"}, {"layout": "sparse"}):
        with pytest.raises(HintError):
            TensorSpec(**{"dtype": "float32", **wrong})  # type: ignore[arg-type]
