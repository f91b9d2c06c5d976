"""The binary form of programs.

::

    "BCVM"  version byte  CRC-32 of the rest (4 bytes, little-endian)
    names        strings, each once
    constants    values, each once (see `isa.constants`)
    signatures   the rows that the programs use: op, then dtype, layout and memory of each operand
    programs     a count, then each: header, code, source map, nested programs

Numbers are varints. What an instruction's bytes are follows from its row of the opcode table and
from `FORMS`, one row per operand kind. Signature ids are local to the file: they are mapped to
the process's table when a file is read. The reader trusts nothing: a malformed file is a
DecodeError, allocations are bounded by the file's size, nothing in a file is ever executed here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import dtypes
from ..errors import BcvmError, DecodeError, EncodeError
from . import opcodes
from .constants import MAX_DEPTH, Reader, Writer, encoded, read_value, write_value
from .hints import MAX_RANK, Aligned, Dim, ShapeHint
from .opcodes import Kind
from .program import Arg, HostBlock, HostSite, Instruction, Program, SourceLoc
from .signature import LAYOUTS, MEMORY, PYTHON_SCALARS, OperandClass, Signature, SignatureTable
from .signature import table as process_table

MAGIC = b"BCVM"
VERSION = 1
PROGRAM_KINDS = ("function", "cell", "region", "generator", "coroutine", "async_generator")
HOST_KINDS = ("stmt", "expr")
_FIX = "encode it again from its source"


class _Out(Writer):
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


class _In(Reader):
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
class _Form:
    """How one kind of operand is written and read."""

    write: Callable[[_Out, Any], None]
    read: Callable[[_In], Any]


def encode(program: Program, *, signatures: SignatureTable = process_table) -> bytes:
    """The binary form. Raises EncodeError for what it cannot carry (operands of wrong kinds, odd constants)."""
    return encode_all((program,), signatures=signatures)


def decode(data: bytes, *, signatures: SignatureTable = process_table) -> Program:
    """The program of `encode`'s bytes. Raises DecodeError, never anything else."""
    programs = decode_all(data, signatures=signatures)
    if len(programs) != 1:
        raise DecodeError(f"the file holds {len(programs)} programs, not one", fix="read it with decode_all")
    return programs[0]


def encode_all(programs: Sequence[Program], *, signatures: SignatureTable = process_table) -> bytes:
    """Several programs in one file; names, constants and signature rows are stored once."""
    out = _Out(signatures)
    out.uint(len(programs))
    try:
        for program in programs:
            _write_program(out, program, 0)
        body = _tables(out) + bytes(out.data)
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"the program holds an operand of a wrong kind: {error}", fix="run the verifier on it") from None
    return MAGIC + bytes([VERSION]) + zlib.crc32(body).to_bytes(4, "little") + body


def decode_all(data: bytes, *, signatures: SignatureTable = process_table) -> tuple[Program, ...]:
    """The programs of `encode_all`'s bytes. Raises DecodeError, never anything else."""
    body = _checked_body(data)
    try:
        source = _In(body, signatures)
        _read_tables(source)
        programs = tuple(_read_program(source, 0) for _ in range(source.count()))
        if source.at != len(body):
            raise source.fail("bytes are left after the last program")
        return programs
    except DecodeError:
        raise
    except (BcvmError, ValueError, TypeError, LookupError, OverflowError, RecursionError, MemoryError) as error:
        raise DecodeError(f"the file makes no sense: {error}", fix=_FIX) from None


def constant_bytes(program: Program) -> dict[bytes, int]:
    """The encoded constants of a program and those nested in it, with the bytes each takes."""
    found = {encoded(value): len(encoded(value)) for value in program.consts}
    for nested in program.nested:
        found.update(constant_bytes(nested))
    return found


def _checked_body(data: bytes) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise DecodeError(f"bytes expected, not {type(data).__name__}")
    data = bytes(data)
    if data[:4] != MAGIC:
        raise DecodeError("this is no binary BCVM program", fix="text programs are read with `bcvm asm`")
    if len(data) < 9 or data[4] != VERSION:
        raise DecodeError(f"format version {data[4] if len(data) > 4 else '?'}; this release reads version {VERSION}", fix=_FIX)
    body = data[9:]
    if zlib.crc32(body) != int.from_bytes(data[5:9], "little"):
        raise DecodeError("the checksum does not match: the file is damaged", fix=_FIX)
    return body


# --- tables


def _tables(out: _Out) -> bytes:
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


def _read_tables(source: _In) -> None:
    source.names = [source.blob().decode("utf-8", "surrogatepass") for _ in range(source.count())]
    source.consts = [read_value(source) for _ in range(source.count())]
    source.rows = []
    for _ in range(source.count(2)):
        op = source.name()
        source.rows.append(Signature(op, tuple(_read_class(source) for _ in range(source.count(2)))))


# --- operands


def _write_index(out: _Out, value: int) -> None:
    out.uint(value)


def _read_index(source: _In) -> int:
    return source.uint()


def _write_optional(out: _Out, value: int | None) -> None:
    out.uint(0 if value is None else value + 1)


def _read_optional(source: _In) -> int | None:
    word = source.uint()
    return word - 1 if word else None


def _write_signature(out: _Out, number: int) -> None:
    if type(number) is not int:
        raise EncodeError(f"{number!r} is no signature")
    if number:
        out.signatures.row(number)
    out.uint(out.rows.setdefault(number, len(out.rows) + 1) if number else 0)


def _read_signature(source: _In) -> int:
    """Only rows that an instruction uses take a place in the process's table."""
    number = source.uint()
    if number > len(source.rows):
        raise source.fail(f"there is no signature {number}")
    return source.signatures.intern(source.rows[number - 1]) if number else 0


def _write_args(out: _Out, args: tuple[Arg, ...]) -> None:
    out.uint(len(args))
    for arg in args:
        out.uint(arg.index << 2 | bool(arg.is_const) << 1 | (arg.name is not None))
        if arg.name is not None:
            out.name(arg.name)


def _read_args(source: _In) -> tuple[Arg, ...]:
    args = []
    for _ in range(source.count()):
        word = source.uint()
        args.append(Arg(bool(word & 2), word >> 2, source.name() if word & 1 else None))
    return tuple(args)


def _write_hint(out: _Out, hint: ShapeHint) -> None:
    """Rank and `...`, then per dim: kind in the low two bits (fixed, named, free, aligned) and its number."""
    out.uint(len(hint.dims) << 1 | hint.any_leading)
    for dim in hint.dims:
        if isinstance(dim, str):
            out.uint(out.names.setdefault(dim, len(out.names)) << 2 | 1)
        elif isinstance(dim, Aligned):
            out.uint(dim.multiple << 2 | 3)
        else:
            out.uint(2 if dim is None else dim << 2)


def _read_hint(source: _In) -> ShapeHint:
    word = source.uint()
    if word >> 1 > MAX_RANK:
        raise source.fail(f"a hint of {word >> 1} dims")
    return ShapeHint(tuple(_read_dim(source) for _ in range(word >> 1)), bool(word & 1))


def _read_dim(source: _In) -> Dim:
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


def _write_list(write: Callable[[_Out, Any], None]) -> Callable[[_Out, Any], None]:
    def write_all(out: _Out, values: tuple[Any, ...]) -> None:
        out.uint(len(values))
        for value in values:
            write(out, value)

    return write_all


def _read_list(read: Callable[[_In], Any]) -> Callable[[_In], Any]:
    return lambda source: tuple(read(source) for _ in range(source.count()))


_INDEX = _Form(_write_index, _read_index)
_OPTIONAL = _Form(_write_optional, _read_optional)
_NAME = _Form(_Out.name, _In.name)

FORMS: dict[Kind, _Form] = {
    Kind.DEST: _INDEX,
    Kind.OPT_DEST: _OPTIONAL,
    Kind.DESTS: _Form(_write_list(_write_index), _read_list(_read_index)),
    Kind.REG: _INDEX,
    Kind.OPT_REG: _OPTIONAL,
    Kind.VAR: _NAME,
    Kind.HINT: _Form(_write_hint, _read_hint),
    Kind.OP: _NAME,
    Kind.SIG: _Form(_write_signature, _read_signature),
    Kind.ARGS: _Form(_write_args, _read_args),
    Kind.CONST: _INDEX,
    Kind.SCALAR: _Form(write_value, read_value),
    Kind.LABEL: _INDEX,
    Kind.POLICY: _INDEX,
    Kind.HOST: _INDEX,
    Kind.DEVICE: _NAME,
    Kind.DEVICES: _Form(_Out.name_list, _In.name_list),
}


# --- programs


def _write_program(out: _Out, program: Program, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise EncodeError(f"programs are nested more than {MAX_DEPTH} deep")
    out.name(program.name)
    out.byte(PROGRAM_KINDS.index(program.kind))
    out.name_list(program.params)
    out.name_list(program.dims)
    out.name_list(program.local_names)
    out.name(program.filename)
    out.uint(program.first_line)
    out.uint(len(program.consts))
    for value in program.consts:
        out.uint(out.consts.setdefault(encoded(value), len(out.consts)))
    out.uint(len(program.hosts))
    for host in program.hosts:
        _write_host(out, host)
    out.uint(len(program.instructions))
    for instruction in program.instructions:
        _write_instruction(out, instruction)
    _write_source_map(out, program)
    out.uint(len(program.nested))
    for nested in program.nested:
        _write_program(out, nested, depth + 1)


def _read_program(source: _In, depth: int) -> Program:
    if depth > MAX_DEPTH:
        raise source.fail(f"programs are nested more than {MAX_DEPTH} deep")
    name, kind = source.name(), source.byte()
    if kind >= len(PROGRAM_KINDS):
        raise source.fail(f"there is no program kind {kind}")
    params, dims, local_names = source.name_list(), source.name_list(), source.name_list()
    filename, first_line = source.name(), source.uint()
    consts = tuple(source.pick(source.consts, "constant") for _ in range(source.count()))
    hosts = tuple(_read_host(source) for _ in range(source.count()))
    code = [_read_instruction(source) for _ in range(source.count())]
    places = _read_source_map(source, len(code))
    instructions = tuple(Instruction(*pair, loc) for pair, loc in zip(code, places, strict=True))
    nested = tuple(_read_program(source, depth + 1) for _ in range(source.count()))
    return Program(name, params, instructions, PROGRAM_KINDS[kind], dims, consts, hosts, nested, local_names, filename, first_line)


def _write_instruction(out: _Out, instruction: Instruction) -> None:
    row = opcodes.BY_NAME.get(instruction.opcode)
    if row is None:
        raise EncodeError(f"there is no opcode {instruction.opcode!r}")
    out.byte(row.code)
    for (_, kind), value in zip(row.operands, instruction.operands, strict=True):
        FORMS[kind].write(out, value)


def _read_instruction(source: _In) -> tuple[str, tuple[Any, ...]]:
    code = source.byte()
    row = opcodes.BY_CODE.get(code)
    if row is None:
        raise source.fail(f"there is no opcode 0x{code:02X}")
    return row.name, tuple(FORMS[kind].read(source) for _, kind in row.operands)


def _write_host(out: _Out, host: HostBlock) -> None:
    out.byte(HOST_KINDS.index(host.kind))
    out.name(host.source)
    out.name_list(host.reads)
    out.name_list(host.writes)
    out.uint(host.line)
    out.uint(host.column)
    out.uint(len(host.sites))
    for site in host.sites:
        for number in (site.line, site.column, site.end_line, site.end_column):
            out.uint(number)
        out.name(site.form)
        out.uint(site.program)
        out.name_list(site.targets)


def _read_host(source: _In) -> HostBlock:
    kind = source.byte()
    if kind >= len(HOST_KINDS):
        raise source.fail(f"there is no host block kind {kind}")
    text, reads, writes = source.name(), source.name_list(), source.name_list()
    line, column = source.uint(), source.uint()
    sites = tuple(_read_site(source) for _ in range(source.count()))
    return HostBlock(HOST_KINDS[kind], text, reads, writes, line, column, sites)


def _read_site(source: _In) -> HostSite:
    line, column, end_line, end_column = (source.uint() for _ in range(4))
    return HostSite(line, column, end_line, end_column, source.name(), source.uint(), source.name_list())


# --- source map: per instruction a flag byte (place? end line? end column?), then differences to the place before


def _write_source_map(out: _Out, program: Program) -> None:
    """Nothing but a zero when no instruction has a place."""
    placed = any(i.loc is not None for i in program.instructions)
    out.byte(placed)
    line = 0
    for instruction in program.instructions if placed else ():
        loc = instruction.loc
        if loc is None:
            out.byte(0)
            continue
        out.byte(1 | (loc.end_line is not None) << 1 | (loc.end_column is not None) << 2)
        out.sint(loc.line - line)
        out.uint(loc.column)
        line = loc.line
        if loc.end_line is not None:
            out.sint(loc.end_line - line)
        if loc.end_column is not None:
            out.uint(loc.end_column)


def _read_source_map(source: _In, count: int) -> list[SourceLoc | None]:
    if not source.byte():
        return [None] * count
    places: list[SourceLoc | None] = []
    line = 0
    for _ in range(count):
        flags = source.byte()
        if flags == 0:
            places.append(None)
            continue
        line += source.sint()
        column = source.uint()
        end_line = line + source.sint() if flags & 2 else None
        places.append(SourceLoc(line, column, end_line, source.uint() if flags & 4 else None))
    return places
