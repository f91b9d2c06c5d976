"""Constants in the text form.

::

    None  True  False  ...  7  -0.5  1e+30  nan  -inf  1+2j  "text"  bytes "00ff"
    (1, 2)  (1,)  [1, 2]  {"axis": 1}  frozenset(1, 2)  slice(None, None, 2)
    float32 2.0                 a NumPy scalar (its dtype's name first)
    dtype float32               a dtype
    type float32  type float    a scalar type of NumPy, of Python
    float32[2, 3] sha256:<32 hex digits>          an array, by content hash (the bytes stand in a .data block)
    float bits 7ff8000000000001                   any scalar whose shortest form would lose bits

Large integers are written in hexadecimal. Strings are JSON strings.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import AssembleError, EncodeError
from .constants import MAX_DEPTH, Array, array_bytes, array_from, identical, type_called, type_name

ArrayData = dict[str, bytes]  # content hash -> bytes

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<hash>sha256:[0-9a-f]{32})|(?P<word>[\w.+%*<>-]+)|(?P<mark>[()\[\]{},:]))""", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(?:\d|\.\d|inf|nan)")
_INTEGER = re.compile(r"[+-]?(?:0x[0-9a-f]+|\d+)")
_PLAIN = {"None": None, "True": True, "False": False, "...": Ellipsis}
_SCALARS = {"float": np.dtype(np.float64), "complex": np.dtype(np.complex128)}


def content_hash(array: Array) -> str:
    """The first 32 hex digits of the SHA-256 of an array's elements (C order, little-endian)."""
    return sha256(array_bytes(array)).hexdigest()[:32]


def show(value: Any, data: ArrayData | None = None, depth: int = 0) -> str:
    """The text of a constant; array contents are added to `data`. Raises EncodeError."""
    if depth > MAX_DEPTH:
        raise EncodeError(f"a constant is nested more than {MAX_DEPTH} deep")
    if value is None or value is Ellipsis or isinstance(value, bool):
        return "..." if value is Ellipsis else str(value)
    kind = type(value)
    if kind is int:
        return str(value) if -(1 << 64) < value < 1 << 64 else hex(value)
    if kind in (float, complex):
        return _show_scalar(kind.__name__, value, repr(value).strip("()"), "")
    if kind is str:
        return json.dumps(value)
    if kind is bytes:
        return f'bytes "{value.hex()}"'
    if isinstance(value, np.ndarray | np.generic | np.dtype):
        return _show_numpy(value, data)
    if isinstance(value, type) and type_name(value):
        return f"type {type_name(value)}"
    return _show_container(value, data, depth + 1)


def _show_container(value: Any, data: ArrayData | None, depth: int) -> str:
    def inner(items: Any) -> str:
        return ", ".join(show(item, data, depth) for item in items)

    kind = type(value)
    if kind is tuple:
        return f"({inner(value)}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{inner(value)}]"
    if kind is dict:
        return "{" + ", ".join(f"{show(k, data, depth)}: {show(v, data, depth)}" for k, v in value.items()) + "}"
    if kind is frozenset:
        return "frozenset(" + ", ".join(sorted(show(item, data, depth) for item in value)) + ")"
    if kind is slice:
        return f"slice({inner((value.start, value.stop, value.step))})"
    raise EncodeError(f"a {kind.__qualname__} can be no constant of a program", fix="load it as a variable (LOAD_VAR)")


def _show_scalar(kind: str, value: Any, text: str, prefix: str) -> str:
    """`prefix` + `text` when that reads back to the same bits, else the bits."""
    try:
        if identical(_scalar(kind, text), value):
            return prefix + text
    except ValueError:
        pass
    return f"{kind} bits {np.asarray(value).tobytes().hex() if sys.byteorder == 'little' else array_bytes(np.asarray(value)).hex()}"


def _show_numpy(value: Any, data: ArrayData | None) -> str:
    name = dtypes.name_of(value if isinstance(value, np.dtype) else value.dtype)
    if name is None or (isinstance(value, np.ndarray) and type(value) is not np.ndarray):
        raise EncodeError(f"a {type(value).__qualname__} of {value!r:.60} can be no constant of a program")
    if isinstance(value, np.dtype):
        return f"dtype {name}"
    if isinstance(value, np.ndarray):
        key = content_hash(value)
        if data is not None:
            data[key] = array_bytes(value)
        return f"{name}{list(value.shape)} sha256:{key}"
    return _show_scalar(name, value, str(value).strip("()"), f"{name} ")


def _scalar(kind: str, text: str) -> Any:
    """A scalar of a Python or NumPy type from its number. Raises ValueError."""
    if kind == "float":
        return float(text)
    if kind == "complex":
        return complex(text)
    row = dtypes.BY_NAME[kind]
    make: Callable[[Any], Any] = row.numpy.type
    if row.kind == "bool":
        if text not in ("True", "False"):
            raise ValueError(f"{text!r} is no bool")
        return make(text == "True")
    if row.kind in ("int", "uint"):
        number = int(text)
        if not np.iinfo(row.numpy).min <= number <= np.iinfo(row.numpy).max:
            raise ValueError(f"{text} does not fit {kind}")
        return make(number)
    with np.errstate(all="ignore"):
        return make(complex(text) if row.kind == "complex" else float(text))


class Parser:
    """Reads constants from one line; `line` is the number that errors carry."""

    def __init__(self, text: str, data: ArrayData) -> None:
        self.text = text
        self.data = data
        self.at = 0

    def whole(self) -> Any:
        """The one constant that the text holds. Raises AssembleError."""
        value = self.value(0)
        if self.text[self.at :].strip():
            raise self.fail(f"unexpected {self.text[self.at :].strip()[:30]!r} after the constant")
        return value

    def fail(self, what: str) -> AssembleError:
        return AssembleError(what, fix='constants are written as 2.0, "text", (1, 2), float32 2.0, dtype float32, ...')

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match[0].strip() if match else ""

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self.fail(f"cannot read {self.text[self.at : self.at + 30].strip()!r} as a constant")
        self.at = match.end()
        return match[0].strip()

    def expect(self, mark: str) -> None:
        if self.peek() != mark:
            raise self.fail(f"{mark!r} expected before {self.text[self.at : self.at + 20].strip()!r}")
        self.next()

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self.fail(f"a constant is nested more than {MAX_DEPTH} deep")
        token = self.next()
        if token in _PLAIN:
            return _PLAIN[token]
        if token[0] == '"':
            return self.string(token)
        if token in _OPENERS:
            return _OPENERS[token](self, depth + 1)
        if token in dtypes.BY_NAME or token in _SCALARS:
            return self.typed(token)
        if _NUMBER.match(token):
            return self.number(token)
        raise self.fail(f"{token!r} is no constant")

    def string(self, token: str) -> str:
        try:
            text = json.loads(token)
        except ValueError:
            raise self.fail(f"{token[:40]} is no JSON string") from None
        return str(text)

    def number(self, token: str) -> int | float | complex:
        converters = (lambda text: int(text, 0),) if _INTEGER.fullmatch(token) else (float, complex)
        for convert in converters:
            try:
                return convert(token)
            except ValueError:
                continue
        raise self.fail(f"{token[:40]!r} is no number")

    def items(self, close: str, depth: int) -> tuple[list[Any], bool]:
        """Values up to `close`, and whether a comma ended the list."""
        found: list[Any] = []
        comma = False
        while self.peek() != close:
            if found and not comma:
                raise self.fail(f"',' or {close!r} expected")
            found.append(self.value(depth))
            comma = self.peek() == ","
            if comma:
                self.next()
        self.next()
        return found, comma

    def parenthesised(self, depth: int) -> Any:
        found, comma = self.items(")", depth)
        return found[0] if len(found) == 1 and not comma else tuple(found)

    def mapping(self, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        while self.peek() != "}":
            key = self.value(depth)
            self.expect(":")
            try:
                result[key] = self.value(depth)
            except TypeError:
                raise self.fail("a dict key that can't be hashed") from None
            if self.peek() != "}":
                self.expect(",")
        self.next()
        return result

    def called(self, depth: int) -> list[Any]:
        self.expect("(")
        return self.items(")", depth)[0]

    def a_frozenset(self, depth: int) -> frozenset[Any]:
        try:
            return frozenset(self.called(depth))
        except TypeError:
            raise self.fail("a set member that can't be hashed") from None

    def a_slice(self, depth: int) -> slice:
        parts = self.called(depth)
        if len(parts) != 3:
            raise self.fail("slice(start, stop, step) takes three values")
        return slice(*parts)

    def some_bytes(self, depth: int) -> bytes:
        try:
            return bytes.fromhex(self.string(self.next()))
        except ValueError:
            raise self.fail("bytes are written as hex digits in quotes") from None

    def a_dtype(self, depth: int) -> np.dtype[Any]:
        row = dtypes.BY_NAME.get(self.next())
        if row is None:
            raise self.fail("no such dtype")
        return row.numpy

    def a_type(self, depth: int) -> type:
        name = self.next()
        try:
            return type_called(name)
        except KeyError:
            raise self.fail(f"{name!r} is no scalar type") from None

    def typed(self, name: str) -> Any:
        """What follows a dtype's name: `[dims] sha256:...`, `bits hex` or a number."""
        if self.peek() == "[" and name in dtypes.BY_NAME:
            return self.array(name)
        token = self.next()
        try:
            if token == "bits":
                row_type = _SCALARS.get(name) or dtypes.BY_NAME[name].numpy
                row = dtypes.BY_NUMPY[row_type]
                scalar = array_from(bytes.fromhex(self.next()), row, ())[()]
                return scalar.item() if name in _SCALARS else scalar
            return _scalar(name, token)
        except (ValueError, OverflowError) as error:
            raise self.fail(f"{name} {token[:40]}: {error}") from None

    def array(self, name: str) -> Array:
        self.next()
        shape, _ = self.items("]", MAX_DEPTH)
        key = self.next().removeprefix("sha256:")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise self.fail("an array's shape is a list of sizes")
        if key not in self.data:
            raise AssembleError(f"no .data block holds sha256:{key}", fix="disassemble with the data of the arrays (data=True)")
        try:
            return array_from(self.data[key], dtypes.BY_NAME[name], tuple(shape))
        except (ValueError, OverflowError) as error:
            raise self.fail(str(error)) from None


_OPENERS: dict[str, Callable[[Parser, int], Any]] = {
    "(": Parser.parenthesised,
    "[": lambda parser, depth: parser.items("]", depth)[0],
    "{": Parser.mapping,
    "frozenset": Parser.a_frozenset,
    "slice": Parser.a_slice,
    "bytes": Parser.some_bytes,
    "dtype": Parser.a_dtype,
    "type": Parser.a_type,
}
