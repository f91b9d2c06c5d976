"""Primitive objects (`matmul = ops.MatMul(transpose_b=True)`): the row one stands for, as its attributes say.

A line of a table is ``row = Class(parameters); attributes | condition``, with the left part as in
`spellings`: the parameters are those of a call of the object. `attributes` gives canonical ones as
expressions over the object's own (``keepdims=keep_dims``), `condition` is an expression that must
hold; both may use the functions of `READERS`. Of several lines for a class the first whose
condition holds counts; where none does, MindSpore runs the object.

Attributes can change while a program runs. What was read is kept beside what it became and compared
at every look.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mindspore.ops import Primitive
from mindspore.ops.operations.manually_defined import ops_def

from ..errors import UnknownOpError
from ..ops import registry
from ..ops.registry import OpInfo, Spelling
from . import memory, spellings
from .primitive_lines import lines, parse

MODULES = ("mindspore.ops", "mindspore.ops.operations", "mindspore.ops.auto_generate", "mindspore.ops.operations._inner_ops")
"""Where classes are looked for; a name that means two classes stands for both."""

_MISSING = object()
_NOTHING: dict[str, Any] = {}
_TARGET = "primitive_target"


class Unreadable(Exception):
    """An attribute that no row expresses."""


# --- what expressions may call --------------------------------------------------------------------


@cache
def _code(text: str) -> int:
    return int(ops_def.handler.str_to_enum("Primitive", "attribute", text))


def _says(value: Any, word: str) -> bool:
    """Whether an attribute means a word; MindSpore keeps some as words, in either case, and some as numbers."""
    return value.lower() == word.lower() if isinstance(value, str) else bool(value == _code(word))


def _word(value: Any, *choices: str) -> str:
    """The one of `choices` that an attribute means."""
    for choice in choices:
        if _says(value, choice):
            return choice
    raise Unreadable(f"{value!r} is none of {choices}")


def _last(value: Any, count: int) -> tuple[int, ...]:
    """The last numbers of an attribute for all axes; those before must be 1."""
    found = (value,) * count if isinstance(value, int) else tuple(value)
    if len(found) < count or any(n != 1 for n in found[:-count]):
        raise Unreadable(f"{value!r}")
    return found[-count:]


def _padding(mode: Any, pad: Any, rank: int) -> Any:
    """A padding of convolutions as rows take it: "same", "valid", or pairs (numbers where both sides agree)."""
    word = _word(mode, "valid", "same", "pad")
    if word != "pad":
        return word
    numbers = (pad,) * (2 * rank) if isinstance(pad, int) else tuple(pad)
    pairs = tuple((numbers[2 * i], numbers[2 * i + 1]) for i in range(rank))
    return tuple(a for a, _ in pairs) if all(a == b for a, b in pairs) else pairs


def _sides(pads: Any, rank: int) -> tuple[int, ...]:
    """Paddings (before, after, before, ...) that are the same on both sides, one number for each axis."""
    found = _padding("pad", pads, rank)
    if not _symmetric(found):
        raise Unreadable(f"{pads!r}")
    return tuple(found)


def _tail(value: Any, count: int) -> tuple[int, ...]:
    """The last numbers of an attribute for all axes, whatever stands before."""
    return (value,) * count if isinstance(value, int) else tuple(value)[-count:]


def _all_or(axis: Any) -> Any:
    """An axis, or None where an empty tuple stands for all."""
    return None if axis in ((), []) else axis


def _dtype(value: Any) -> str:
    """The name of an element type, also where MindSpore keeps its number."""
    for mindspore, name in memory.NAMES.items():
        if value == (ops_def.handler.dtype_to_type_id("Primitive", "dtype", mindspore) if type(value) is int else mindspore):
            return name
    raise Unreadable(f"{value!r}")


def _symmetric(padding: Any) -> bool:
    """Whether both sides of every axis are padded alike."""
    return isinstance(padding, str) or all(isinstance(n, int) for n in padding)


READERS: dict[str, Callable[..., Any]] = {
    "word": _word, "says": _says, "last": _last, "padding": _padding, "all_or": _all_or, "dtype": _dtype,
    "symmetric": _symmetric, "sides": _sides, "tail": _tail,
    "tuple": tuple, "len": len, "type": type, "int": int, "float": float, "bool": bool, "str": str,
}  # fmt: skip


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """One line: a row, how a call of the object binds to it, and how its attributes are read."""

    op: OpInfo
    spelling: Spelling
    attributes: Mapping[str, types.CodeType]
    condition: types.CodeType | None
    reads: frozenset[str]

    def spelled(self, given: Mapping[str, Any]) -> Spelling | None:
        """The spelling for an object with these attributes; None where the line does not cover them."""
        scope = {"__builtins__": {}, **READERS, **given}
        try:
            if self.condition is not None and not eval(self.condition, scope):
                return None
            values = {name: eval(code, scope) for name, code in self.attributes.items()}
        except (Unreadable, NameError):
            return None
        if not all(map(_is_literal, values.values())):
            return None
        return replace(self.spelling, fixed={**self.spelling.fixed, **values}) if values else self.spelling


def _is_literal(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_literal, value))
    return value is None or type(value) in (bool, int, float, str)


def _names(*codes: types.CodeType) -> frozenset[str]:
    return frozenset(name for code in codes for name in code.co_names) - READERS.keys()


def _attributes(text: str) -> dict[str, types.CodeType]:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {word.arg: compile(ast.Expression(word.value), "<primitives>", "eval") for word in call.keywords if word.arg is not None}


def classes_called(name: str) -> list[type]:
    """The primitive classes of that name in this release of MindSpore."""
    found = [getattr(importlib.import_module(module), name, None) for module in MODULES]
    return list(dict.fromkeys(c for c in found if isinstance(c, type) and issubclass(c, Primitive)))


def parameters_of(kind: type) -> list[str] | None:
    """The names of the parameters of a call of an object; None where they have none and are given by position."""
    found = list(inspect.signature(kind.__call__).parameters.values())[1:]
    return None if any(p.kind is p.VAR_POSITIONAL for p in found) else [p.name for p in found]


def _form(text: str, kind: type) -> Form | None:
    """The form of a line for one class; None where BCVM has no such row."""
    line, attributes, condition = parse(text)
    try:
        op = registry.row(line.row)
    except UnknownOpError:
        return None
    entry = spellings.spelling(line, op, "mindspore.ops")
    if parameters_of(kind) is None and entry.signature:
        entry = replace(entry, signature=f"{entry.signature}, /")
    codes = _attributes(attributes)
    test = compile(condition, "<primitives>", "eval") if condition else None
    return Form(op, entry, codes, test, _names(*codes.values(), *((test,) if test else ())))


# --- objects --------------------------------------------------------------------------------------

Found = tuple[OpInfo, Spelling] | None


class _Known:
    """What an object was found to be, and the attributes that say so: (name, as the object says, as the kernel was told)."""

    __slots__ = ("found", "read", "reference", "tells")

    def __init__(self, reference: weakref.ref[Any], read: tuple[tuple[str, Any, Any], ...], tells: bool, found: Found) -> None:
        self.reference = reference
        self.read = read
        self.tells = tells
        self.found = found

    def holds(self, value: Any) -> bool:
        """Whether the attributes are the same objects still."""
        own = value.__dict__
        told = value.attrs if self.tells else _NOTHING
        for name, item, other in self.read:  # noqa: SIM110  # a loop is faster, and every call of an object comes here
            if own.get(name, _MISSING) is not item or told.get(name, _MISSING) is not other:
                return False
        return True


class Door:
    """The rows of the objects of one class."""

    def __init__(self, kind: type, texts: list[str]) -> None:
        self.kind = kind
        self._texts = texts
        self._tells = kind.__call__ is Primitive.__call__  # leaves attributes to the kernel; others pass what they say
        self._known: dict[int, _Known] = {}
        self._forms: list[Form] | None = None
        self._read: tuple[str, ...] | None = None

    @property
    def forms(self) -> list[Form]:
        """The lines of the class that BCVM has rows for."""
        if self._forms is None:
            self._forms = [form for form in (_form(text, self.kind) for text in self._texts) if form is not None]
        return self._forms

    @property
    def _names(self) -> tuple[str, ...]:
        if self._read is None:
            self._read = (*sorted(frozenset().union(*(form.reads for form in self.forms))), _TARGET)
        return self._read

    def __call__(self, value: Any) -> Found:
        """The row and spelling of an object, or None."""
        known = self._known.get(id(value))
        if known is not None and known.reference() is value and known.holds(value):
            return known.found
        own = value.__dict__
        given = {name: own[name] for name in self._names if name in own}
        found = self._find(value, given)
        if not any(type(item) is list for item in given.values()):  # whose contents may change
            told = value.attrs if self._tells else _NOTHING
            read = tuple((name, own.get(name, _MISSING), told.get(name, _MISSING)) for name in self._names)
            self._known[id(value)] = _Known(weakref.ref(value, self._forget(id(value))), read, self._tells, found)
        return found

    def _forget(self, key: int) -> Callable[[Any], None]:
        known = self._known

        def forget(reference: Any) -> None:
            if key in known and known[key].reference is reference:
                del known[key]

        return forget

    def _find(self, value: Any, given: Mapping[str, Any]) -> Found:
        if given.get(_TARGET, "CPU") != "CPU" or (self._tells and not _told(value, given)):
            return None
        given = {name: tuple(item) if type(item) is list else item for name, item in given.items()}
        for form in self.forms:
            spelling = form.spelled(given)
            if spelling is not None:
                return form.op, spelling
        return None


def _told(value: Any, given: Mapping[str, Any]) -> bool:
    """Whether MindSpore's kernel was told what the object says of itself (a plain assignment tells nothing)."""
    told = value.attrs
    return all(name not in told or told[name] is item or told[name] == item for name, item in given.items())


def doors() -> dict[type, Door]:
    """A door for every class that the tables name and this release of MindSpore has."""
    return {kind: Door(kind, texts) for name, texts in lines().items() for kind in classes_called(name)}


def register() -> None:
    """Let the registry ask about primitive objects."""
    registry.instance_doors.update(doors())
