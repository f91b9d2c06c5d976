"""Pieces of the binary form: the tables that the programs of a file share, and one row per operand kind.

Numbers are varints. Names, constants and signature rows are stored once per file and referred to
by number; what an instruction's bytes are follows from its row of the opcode table and `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import dtypes
from ..errors import EncodeError
from .constants import Reader, Writer, read_value, write_value
from .hints import MAX_RANK, Aligned, Dim, ShapeHint
from .opcodes import Kind
from .program import Arg
from .signature import LAYOUTS, MEMORY, PYTHON_SCALARS, OperandClass, Signature, SignatureTable


class Out(Writer):
    """A writer with the tables that all programs of the file share."""

    def __init__(self, signatures: SignatureTable) -> None:
        super().__init__()
        self.signatures = signatures
        self.names: dict[str, int] = {}
        self.consts: dict[bytes, int] = {}
        self.rows: dict[int, int] = {}

    def name(self, text: str) -> None:
        if type(text) is not str:
            raise EncodeError(f"{text!r} is no text")
        self.uint(self.names.setdefault(text, len(self.names)))

    def name_list(self, texts: Sequence[str]) -> None:
        self.uint(len(texts))
        for text in texts:
            self.name(text)


class In(Reader):
    """A reader with the tables of the file."""

    names: list[str]
    consts: list[Any]
    rows: list[Signature]

    def __init__(self, data: bytes, signatures: SignatureTable) -> None:
        super().__init__(data)
        self.signatures = signatures

    def name(self) -> str:
        return str(self.pick(self.names, "name"))

    def name_list(self) -> tuple[str, ...]:
        return tuple(self.name() for _ in range(self.count()))


@dataclass(frozen=True, slots=True)
class Form:
    """How one kind of operand is written and read."""

    write: Callable[[Out, Any], None]
    read: Callable[[In], Any]


# --- tables


def tables(out: Out) -> bytes:
    rows = [out.signatures.row(number) for number in out.rows]
    for row in rows:  # may add names
        out.names.setdefault(row.op, len(out.names))
    head = Writer()
    head.uint(len(out.names))
    for text in out.names:
        head.blob(text.encode("utf-8", "surrogatepass"))
    head.uint(len(out.consts))
    for raw in out.consts:
        head.data += raw
    head.uint(len(rows))
    for row in rows:
        head.uint(out.names[row.op])
        head.uint(len(row.operands))
        for operand in row.operands:
            _write_class(head, operand)
    return bytes(head.data)


def _write_class(out: Writer, operand: OperandClass) -> None:
    row = dtypes.BY_NAME.get(operand.dtype)
    out.byte(row.code if row is not None else 0x80 + PYTHON_SCALARS.index(operand.dtype))
    out.byte(LAYOUTS.index(operand.layout) << 4 | MEMORY.index(operand.memory))


def _read_class(source: Reader) -> OperandClass:
    code, place = source.byte(), source.byte()
    if code in dtypes.BY_CODE:
        dtype = dtypes.BY_CODE[code].name
    elif 0 <= code - 0x80 < len(PYTHON_SCALARS):
        dtype = PYTHON_SCALARS[code - 0x80]
    else:
        raise source.fail(f"there is no dtype {code}")
    if place >> 4 >= len(LAYOUTS) or place & 15 >= len(MEMORY):
        raise source.fail(f"there is no layout and memory {place}")
    return OperandClass(dtype, LAYOUTS[place >> 4], MEMORY[place & 15])


def read_tables(source: In) -> None:
    source.names = [source.blob().decode("utf-8", "surrogatepass") for _ in range(source.count())]
    source.consts = [read_value(source) for _ in range(source.count())]
    source.rows = []
    for _ in range(source.count(2)):
        op = source.name()
        source.rows.append(Signature(op, tuple(_read_class(source) for _ in range(source.count(2)))))


# --- operands


def _write_index(out: Out, value: int) -> None:
    out.uint(value)


def _read_index(source: In) -> int:
    return source.uint()


def _write_optional(out: Out, value: int | None) -> None:
    if value is None:
        out.byte(0)
    elif value < 0:
        raise EncodeError(f"{value!r} is no register")
    else:
        out.uint(value + 1)


def _read_optional(source: In) -> int | None:
    word = source.uint()
    return word - 1 if word else None


def _write_signature(out: Out, number: int) -> None:
    if type(number) is not int:
        raise EncodeError(f"{number!r} is no signature")
    if number:
        out.signatures.row(number)
    out.uint(out.rows.setdefault(number, len(out.rows) + 1) if number else 0)


def _read_signature(source: In) -> int:
    """Only rows that an instruction uses take a place in the process's table."""
    number = source.uint()
    if number > len(source.rows):
        raise source.fail(f"there is no signature {number}")
    return source.signatures.intern(source.rows[number - 1]) if number else 0


def _write_args(out: Out, args: tuple[Arg, ...]) -> None:
    out.uint(len(args))
    for arg in args:
        out.uint(arg.index << 2 | bool(arg.is_const) << 1 | (arg.name is not None))
        if arg.name is not None:
            out.name(arg.name)


def _read_args(source: In) -> tuple[Arg, ...]:
    args = []
    for _ in range(source.count()):
        word = source.uint()
        args.append(Arg(bool(word & 2), word >> 2, source.name() if word & 1 else None))
    return tuple(args)


def _write_hint(out: Out, hint: ShapeHint) -> None:
    """Rank and `...`, then per dim: kind in the low two bits (fixed, named, free, aligned) and its number."""
    out.uint(len(hint.dims) << 1 | hint.any_leading)
    for dim in hint.dims:
        if isinstance(dim, str):
            out.uint(out.names.setdefault(dim, len(out.names)) << 2 | 1)
        elif isinstance(dim, Aligned):
            out.uint(dim.multiple << 2 | 3)
        else:
            out.uint(2 if dim is None else dim << 2)


def _read_hint(source: In) -> ShapeHint:
    word = source.uint()
    if word >> 1 > MAX_RANK:
        raise source.fail(f"a hint of {word >> 1} dims")
    return ShapeHint(tuple(_read_dim(source) for _ in range(word >> 1)), bool(word & 1))


def _read_dim(source: In) -> Dim:
    word = source.uint()
    number, kind = word >> 2, word & 3
    if kind == 1:
        if number >= len(source.names):
            raise source.fail(f"there is no name {number}")
        return source.names[number]
    if kind == 3:
        if number < 2:
            raise source.fail(f"alignment {number}")
        return Aligned(number)
    return None if kind == 2 else number


def _write_list(write: Callable[[Out, Any], None]) -> Callable[[Out, Any], None]:
    def write_all(out: Out, values: tuple[Any, ...]) -> None:
        out.uint(len(values))
        for value in values:
            write(out, value)

    return write_all


def _read_list(read: Callable[[In], Any]) -> Callable[[In], Any]:
    return lambda source: tuple(read(source) for _ in range(source.count()))


_INDEX = Form(_write_index, _read_index)
_OPTIONAL = Form(_write_optional, _read_optional)
_NAME = Form(Out.name, In.name)

FORMS: dict[Kind, Form] = {
    Kind.DEST: _INDEX,
    Kind.OPT_DEST: _OPTIONAL,
    Kind.DESTS: Form(_write_list(_write_index), _read_list(_read_index)),
    Kind.REG: _INDEX,
    Kind.OPT_REG: _OPTIONAL,
    Kind.VAR: _NAME,
    Kind.HINT: Form(_write_hint, _read_hint),
    Kind.OP: _NAME,
    Kind.SIG: Form(_write_signature, _read_signature),
    Kind.ARGS: Form(_write_args, _read_args),
    Kind.CONST: _INDEX,
    Kind.SCALAR: Form(write_value, read_value),
    Kind.LABEL: _INDEX,
    Kind.POLICY: _INDEX,
    Kind.HOST: _INDEX,
    Kind.DEVICE: _NAME,
    Kind.DEVICES: Form(Out.name_list, In.name_list),
}
