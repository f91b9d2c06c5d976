"""Constants: the Python values a Program may hold, when two are the same, and their binary form.

One row per kind of value (`KINDS`). A value is its row's tag byte and what the row writes; the
reader trusts nothing: every count is checked against the bytes that are left.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import DecodeError, EncodeError

Array = np.ndarray[Any, np.dtype[Any]]
MAX_DEPTH = 32  # nesting of tuples, lists, dicts
SCALAR_TYPES: tuple[type, ...] = (bool, int, float, complex)
_TYPES: dict[type, str] = {row.numpy.type: row.name for row in dtypes.TABLE}


def identical(a: Any, b: Any) -> bool:
    """Same type and same bits, through containers and arrays: 1 is not True, nan is nan, 0.0 is not -0.0."""
    if a is b:
        return True
    if isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic):
        return (
            isinstance(a, np.ndarray) == isinstance(b, np.ndarray)
            and (a.dtype, a.shape) == (b.dtype, b.shape)
            and a.tobytes() == b.tobytes()
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, complex):
        return struct.pack("<2d", a.real, a.imag) == struct.pack("<2d", b.real, b.imag)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(identical, a.items(), b.items()))
    if isinstance(a, slice):
        return identical((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, frozenset):
        return a == b and encoded(a) == encoded(b)
    return bool(a == b)


class Writer:
    """Bytes under construction."""

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        self.data.append(value)

    def uint(self, value: int) -> None:
        """A varint: seven bits a byte, low bits first."""
        if type(value) is not int or not 0 <= value < 1 << 64:
            raise EncodeError(f"{value!r} is no unsigned 64-bit number")
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def sint(self, value: int) -> None:
        """A signed varint (zigzag)."""
        self.uint(value << 1 if value >= 0 else (-value << 1) - 1)

    def blob(self, value: bytes) -> None:
        self.uint(len(value))
        self.data += value


class Reader:
    """Bytes being read; every method raises DecodeError when they run out or make no sense."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fail(self, what: str) -> DecodeError:
        return DecodeError(f"{what} (byte {self.at})", fix="the file is damaged or no BCVM program: encode it again from its source")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size > len(self.data) - self.at:
            raise self.fail("the program ends in the middle")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def byte(self) -> int:
        return self.take(1)[0]

    def uint(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.fail("a number is too long")
        if value >> 64:
            raise self.fail("a number is too large")
        return value

    def sint(self) -> int:
        value = self.uint()
        return value >> 1 if not value & 1 else -(value + 1 >> 1)

    def blob(self) -> bytes:
        return self.take(self.uint())

    def count(self, each: int = 1) -> int:
        """A count of things that take at least `each` bytes: it can't exceed what is left."""
        value = self.uint()
        if value * each > len(self.data) - self.at:
            raise self.fail(f"a count of {value} is more than the rest holds")
        return value

    def pick(self, items: Any, what: str) -> Any:
        """The item whose index or key comes next."""
        index = self.uint()
        try:
            return items[index]
        except (IndexError, KeyError):
            raise self.fail(f"there is no {what} {index}") from None


Write = Callable[[Writer, Any, int], None]
Read = Callable[[Reader, int], Any]


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of value: `accepts(value)`, how it is written after its tag, how it is read."""

    tag: int
    name: str
    accepts: Callable[[Any], bool]
    write: Write
    read: Read


def write_value(out: Writer, value: Any, depth: int = 0) -> None:
    """Append `value`. Raises EncodeError when no row accepts it."""
    if depth > MAX_DEPTH:
        raise EncodeError(f"a constant is nested more than {MAX_DEPTH} deep")
    for row in KINDS:
        if row.accepts(value):
            out.byte(row.tag)
            row.write(out, value, depth + 1)
            return
    raise EncodeError(
        f"a {type(value).__qualname__} can be no constant of a program",
        fix="load it as a variable (LOAD_VAR), or use numbers, strings, tuples, lists, dicts, slices, dtypes or arrays",
    )


def read_value(source: Reader, depth: int = 0) -> Any:
    """The next value. Raises DecodeError."""
    if depth > MAX_DEPTH:
        raise source.fail(f"a constant is nested more than {MAX_DEPTH} deep")
    row = _BY_TAG.get(source.byte())
    if row is None:
        raise source.fail("a constant of unknown kind")
    return row.read(source, depth + 1)


def encoded(value: Any) -> bytes:
    """The binary form of one value; equal bytes mean identical values. Raises EncodeError."""
    out = Writer()
    write_value(out, value)
    return bytes(out.data)


def array_bytes(value: Array | np.generic) -> bytes:
    """Elements in C order, little-endian."""
    array = np.asarray(value)
    return (array if sys.byteorder == "little" else array.byteswap()).tobytes()


def array_from(raw: bytes, row: dtypes.DTypeRow, shape: tuple[int, ...]) -> Array:
    """A read-only array of `raw` as `array_bytes` gave it. Raises ValueError when sizes don't fit."""
    if len(shape) > 32 or prod(shape) * row.numpy.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are no {row.name} array of shape {list(shape)}")
    if row.kind == "bool" and raw.translate(None, b"\0\1"):
        raise ValueError("a bool array with bytes other than 0 and 1")
    flat = np.frombuffer(raw, row.numpy)
    array = (flat if sys.byteorder == "little" else flat.byteswap()).reshape(shape)
    array.flags.writeable = False
    return array


def _write_int(out: Writer, value: int, _: int) -> None:
    out.blob(value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True) if value else b"")


def _read_int(source: Reader, _: int) -> int:
    return int.from_bytes(source.blob(), "little", signed=True)


def _is_small_float(value: Any) -> bool:
    return type(value) is float and value.is_integer() and abs(value) < 1 << 20 and struct.pack("<d", value)[7:] != b"\x80"


def _items(kind: Callable[[list[Any]], Any]) -> tuple[Write, Read]:
    def write(out: Writer, value: Any, depth: int) -> None:
        out.uint(len(value))
        for item in value:
            write_value(out, item, depth)

    def read(source: Reader, depth: int) -> Any:
        return kind([read_value(source, depth) for _ in range(source.count())])

    return write, read


def _write_dict(out: Writer, value: dict[Any, Any], depth: int) -> None:
    out.uint(len(value))
    for pair in value.items():
        for item in pair:
            write_value(out, item, depth)


def _read_dict(source: Reader, depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for _ in range(source.count(2)):
        key = read_value(source, depth)
        try:
            result[key] = read_value(source, depth)
        except TypeError:
            raise source.fail("a dict key that can't be hashed") from None
    return result


def _write_frozenset(out: Writer, value: frozenset[Any], depth: int) -> None:
    """Members sorted by their bytes, so that equal sets give equal bytes."""
    out.uint(len(value))
    members = []
    for item in value:
        part = Writer()
        write_value(part, item, depth)
        members.append(bytes(part.data))
    out.data += b"".join(sorted(members))


def _hashable(items: list[Any]) -> frozenset[Any]:
    try:
        return frozenset(items)
    except TypeError:
        raise DecodeError("a set member that can't be hashed") from None


def _write_slice(out: Writer, value: slice, depth: int) -> None:
    for part in (value.start, value.stop, value.step):
        write_value(out, part, depth)


def _read_slice(source: Reader, depth: int) -> slice:
    return slice(read_value(source, depth), read_value(source, depth), read_value(source, depth))


def _code(dtype: np.dtype[Any]) -> int:
    return dtypes.BY_NUMPY[dtype].code


def _write_scalar(out: Writer, value: np.generic, _: int) -> None:
    out.byte(_code(value.dtype))
    out.data += array_bytes(value)


def _read_scalar(source: Reader, _: int) -> np.generic:
    row = source.pick(dtypes.BY_CODE, "dtype")
    return _checked_array(source, source.take(row.numpy.itemsize), row, ())[()]  # type: ignore[return-value]


def _write_array(out: Writer, value: Array, _: int) -> None:
    out.byte(_code(value.dtype))
    out.uint(value.ndim)
    for size in value.shape:
        out.uint(size)
    out.blob(array_bytes(value))


def _read_array(source: Reader, _: int) -> Array:
    row = source.pick(dtypes.BY_CODE, "dtype")
    shape = tuple(source.uint() for _ in range(source.count()))
    return _checked_array(source, source.blob(), row, shape)


def _checked_array(source: Reader, raw: bytes, row: dtypes.DTypeRow, shape: tuple[int, ...]) -> Array:
    try:
        return array_from(raw, row, shape)
    except (ValueError, OverflowError) as error:
        raise source.fail(str(error)) from None


def type_name(value: type) -> str | None:
    """The written name of a scalar type: "float" for Python's, "float32" for NumPy's; None for other types."""
    if value in SCALAR_TYPES:
        return value.__name__
    name = _TYPES.get(value)
    return "numpy.bool" if name == "bool" else name


def _is_type(value: Any) -> bool:
    return isinstance(value, type) and type_name(value) is not None


def type_called(name: str) -> type:
    """The scalar type of a name that `type_name` gave; Python's types win. Raises KeyError."""
    for python in SCALAR_TYPES:
        if python.__name__ == name:
            return python
    row = dtypes.BY_NAME.get(name.removeprefix("numpy."))
    if row is None:
        raise KeyError(name)
    return row.numpy.type


def _no_bytes(value: Any) -> tuple[Callable[[Any], bool], Write, Read]:
    return (lambda v: v is value), (lambda out, v, d: None), (lambda source, d: value)


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _in_table(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and dtypes.name_of(value.dtype) is not None  # type: ignore[attr-defined]


def _read_text(source: Reader, _: int) -> str:
    try:
        return source.blob().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise source.fail("text that is no UTF-8") from None


def _write_type(out: Writer, value: type, _: int) -> None:
    out.uint(SCALAR_TYPES.index(value) if value in SCALAR_TYPES else 16 + _code(np.dtype(value)))


def _read_type(source: Reader, _: int) -> type:
    number = source.uint()
    if number < len(SCALAR_TYPES):
        return SCALAR_TYPES[number]
    if number - 16 not in dtypes.BY_CODE:
        raise source.fail(f"there is no scalar type {number}")
    return dtypes.BY_CODE[number - 16].numpy.type


KINDS: tuple[KindRow, ...] = (
    KindRow(0, "none", *_no_bytes(None)),
    KindRow(1, "false", *_no_bytes(False)),
    KindRow(2, "true", *_no_bytes(True)),
    KindRow(3, "ellipsis", *_no_bytes(Ellipsis)),
    KindRow(4, "int", _is(int), _write_int, _read_int),
    KindRow(5, "round float", _is_small_float, lambda out, v, d: out.sint(int(v)), lambda source, d: float(source.sint())),
    KindRow(6, "float", _is(float), lambda out, v, d: out.data.extend(struct.pack("<d", v)),
            lambda source, d: struct.unpack("<d", source.take(8))[0]),
    KindRow(7, "complex", _is(complex), lambda out, v, d: out.data.extend(struct.pack("<2d", v.real, v.imag)),
            lambda source, d: complex(*struct.unpack("<2d", source.take(16)))),
    KindRow(8, "text", _is(str), lambda out, v, d: out.blob(v.encode("utf-8", "surrogatepass")), _read_text),
    KindRow(9, "bytes", _is(bytes), lambda out, v, d: out.blob(v), lambda source, d: source.blob()),
    KindRow(10, "tuple", _is(tuple), *_items(tuple)),
    KindRow(11, "list", _is(list), *_items(list)),
    KindRow(12, "dict", _is(dict), _write_dict, _read_dict),
    KindRow(13, "frozenset", _is(frozenset), _write_frozenset, _items(_hashable)[1]),
    KindRow(14, "slice", _is(slice), _write_slice, _read_slice),
    KindRow(15, "NumPy scalar", lambda v: _in_table(v, np.generic), _write_scalar, _read_scalar),
    KindRow(16, "array", lambda v: type(v) is np.ndarray and _in_table(v, np.ndarray), _write_array, _read_array),
    KindRow(17, "dtype", lambda v: isinstance(v, np.dtype) and dtypes.name_of(v) is not None,
            lambda out, v, d: out.byte(_code(v)), lambda source, d: source.pick(dtypes.BY_CODE, "dtype").numpy),
    KindRow(18, "type", _is_type, _write_type, _read_type),
)  # fmt: skip

_BY_TAG = {row.tag: row for row in KINDS}
