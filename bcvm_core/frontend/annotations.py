"""Annotations: `Tensor[...]` for parameters, and `TensorSpec` for an argument without a value.

::

    def forward(self, x: Tensor["Batch", "*", "Channel"], w: Tensor[64, "Channel"]): ...

    Tensor["B", 64]                    a named dim, a fixed one
    Tensor["...", 64]                  any leading dims (also written Tensor[..., 64])
    Tensor["*%16"]                     a free dim that is a multiple of 16
    Tensor[()]                         a scalar
    Tensor["B", 64].dtype("float32")   with an element type
    Tensor["B"] | None                 optional: the hint holds when a tensor is given

`Tensor` exists for annotations alone; there are no instances of it.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from .. import dtypes
from ..errors import HintError, Where
from ..isa import hints
from ..isa.hints import ShapeHint
from ..isa.signature import LAYOUTS


@dataclass(frozen=True, slots=True)
class TensorAnnotation:
    """What `Tensor[...]` gives: a shape hint and perhaps the name of an element type."""

    hint: ShapeHint
    dtype_name: str | None = None

    def dtype(self, dtype: object) -> TensorAnnotation:
        """The same annotation with an element type: a name, a NumPy dtype or scalar type. Raises HintError."""
        return replace(self, dtype_name=_dtype_name(dtype))

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007  `X | Y` needs types on both sides

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        _refuse()

    def __repr__(self) -> str:
        dims = str(self.hint)
        return f"Tensor{dims}" + (f".dtype({self.dtype_name!r})" if self.dtype_name else "")


def _refuse() -> NoReturn:
    raise HintError("bcvm.Tensor is for annotations only", fix="pass NumPy arrays or MindSpore tensors; make one with np.array(...)")


class Tensor:
    """For annotations only: ``Tensor["Batch", "*", 64]``. The module's text lists the forms."""

    def __new__(cls, *args: object, **kwargs: object) -> Tensor:
        _refuse()

    def __class_getitem__(cls, dims: object) -> TensorAnnotation:
        return TensorAnnotation(hints.of_dims(dims if isinstance(dims, tuple) else (dims,)))


def _dtype_name(dtype: object) -> str:
    if isinstance(dtype, str) and dtype in dtypes.BY_NAME:
        return dtype
    try:
        name = dtypes.name_of(np.dtype(dtype))  # type: ignore[call-overload]
    except TypeError:
        name = None
    if name is None:
        raise HintError(f"{dtype!r} is no element type of tensors", fix=f"use one of {', '.join(dtypes.BY_NAME)}")
    return str(name)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An abstract argument: what a value will be like, for lowering and warming up without one.

    `dims` may be a ShapeHint or a sequence of dims as in `Tensor[...]`; it is kept as a ShapeHint.
    `layout` is one of `isa.signature.LAYOUTS`. Raises HintError for anything else.
    """

    dtype: str
    dims: ShapeHint | Sequence[object] = field(default=hints.ANY)
    device: str = "cpu:0"
    layout: str = "contiguous"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        if not isinstance(self.dims, ShapeHint):
            object.__setattr__(self, "dims", hints.of_dims(self.dims))
        if self.layout not in LAYOUTS:
            raise HintError(f"{self.layout!r} is no layout", fix=f"use one of {', '.join(LAYOUTS)}")
        kind, colon, number = self.device.partition(":")
        if not (kind.isidentifier() and colon and number.isdigit()):
            raise HintError(f"{self.device!r} is no device", fix='write "cpu:0" or "cuda:0"')

    @property
    def hint(self) -> ShapeHint:
        assert isinstance(self.dims, ShapeHint)
        return self.dims


def hints_of(function: Callable[..., Any]) -> dict[str, ShapeHint]:
    """Shape hints of the parameters that carry a `Tensor[...]` annotation."""
    return {name: found.hint for name, found in annotations_of(function).items()}


def annotations_of(function: Callable[..., Any]) -> dict[str, TensorAnnotation]:
    """`Tensor[...]` annotations by parameter, read through `inspect.signature`.

    Annotations that are text (``from __future__ import annotations``) are evaluated one by one in
    the function's own names; one that can't be (a name that exists for type checkers only) is no
    hint. A malformed `Tensor[...]` in text raises HintError with function and parameter.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    found = {}
    for name, parameter in parameters.items():
        try:
            annotation = _find(_evaluated(parameter.annotation, function))
        except HintError as error:
            raise _placed(error, function, name) from None
        if annotation is not None:
            found[name] = annotation
    return found


def _placed(error: HintError, function: Callable[..., Any], parameter: str) -> HintError:
    plain = _plain(function)
    code = getattr(plain, "__code__", None)
    where = Where(filename=code.co_filename, line=code.co_firstlineno) if code is not None else None
    name = getattr(plain, "__qualname__", repr(plain))
    return HintError(f"{name}, parameter {parameter}: {error.what}", where=where, fix=error.fix)


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """The annotation itself; text is evaluated, and is None when it can't be."""
    if not isinstance(annotation, str):
        return annotation
    if "[" not in annotation:
        return None  # no Tensor[...] in it: not worth evaluating
    plain = _plain(function)
    try:
        return eval(annotation, getattr(plain, "__globals__", {}), _closure(plain))  # what typing.get_type_hints does
    except HintError:
        raise
    except Exception:
        return None


def _plain(function: Any) -> Any:
    """The function behind decorators, methods and partials."""
    while isinstance(function, functools.partial):
        function = function.func
    unwrapped: Any = inspect.unwrap(function)
    return getattr(unwrapped, "__func__", unwrapped)


def _closure(function: Any) -> dict[str, Any]:
    """Names that the function captured: annotations may use them."""
    code = getattr(function, "__code__", None)
    cells: tuple[types.CellType, ...] = getattr(function, "__closure__", None) or ()
    names: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code is not None else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names


def _find(annotation: Any) -> TensorAnnotation | None:
    """The one TensorAnnotation in an annotation: itself, in a union (`| None`), or in `Annotated`."""
    candidates = [found for found in _parts(annotation) if isinstance(found, TensorAnnotation)]
    return candidates[0] if len(candidates) == 1 else None


def _parts(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _parts(part)
    elif origin is typing.Annotated:
        yield from _parts(typing.get_args(annotation)[0])
        yield from annotation.__metadata__
    else:
        yield annotation
