"""The binary form of programs.

::

    "BCVM"  version byte  CRC-32 of the rest (4 bytes, little-endian)
    names        strings, each once
    constants    values, each once (see `isa.constants`)
    signatures   the rows that the programs use: op, then dtype, layout and memory of each operand
    programs     a count, then each: header, code, source map, nested programs

How names, constants, rows and operands are written stands in `isa.binary`. Signature ids are local to the file: they are mapped to
the process's table when a file is read. The reader trusts nothing: a malformed file is a
DecodeError, allocations are bounded by the file's size, nothing in a file is ever executed here.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from ..errors import BcvmError, DecodeError, EncodeError, SignatureError
from . import opcodes
from .binary import FORMS, In, Out, read_tables, tables
from .constants import MAX_DEPTH, encoded
from .program import HostBlock, HostSite, Instruction, Program, SourceLoc
from .signature import SignatureTable
from .signature import table as process_table

MAGIC = b"BCVM"
VERSION = 1
PROGRAM_KINDS = ("function", "cell", "region", "generator", "coroutine", "async_generator")
HOST_KINDS = ("stmt", "expr")
_FIX = "encode it again from its source"


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
    out = Out(signatures)
    out.uint(len(programs))
    try:
        for program in programs:
            _write_program(out, program, 0)
        body = tables(out) + bytes(out.data)
    except SignatureError as error:
        raise EncodeError(error.what, fix=error.fix) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"the program holds an operand of a wrong kind: {error}", fix="run the verifier on it") from None
    return MAGIC + bytes([VERSION]) + zlib.crc32(body).to_bytes(4, "little") + body


def decode_all(data: bytes, *, signatures: SignatureTable = process_table) -> tuple[Program, ...]:
    """The programs of `encode_all`'s bytes. Raises DecodeError, never anything else."""
    body = _checked_body(data)
    try:
        source = In(body, signatures)
        read_tables(source)
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


# --- programs


def _write_program(out: Out, program: Program, depth: int) -> None:
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


def _read_program(source: In, depth: int) -> Program:
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


def _write_instruction(out: Out, instruction: Instruction) -> None:
    row = opcodes.BY_NAME.get(instruction.opcode)
    if row is None:
        raise EncodeError(f"there is no opcode {instruction.opcode!r}")
    out.byte(row.code)
    for (_, kind), value in zip(row.operands, instruction.operands, strict=True):
        FORMS[kind].write(out, value)


def _read_instruction(source: In) -> tuple[str, tuple[Any, ...]]:
    code = source.byte()
    row = opcodes.BY_CODE.get(code)
    if row is None:
        raise source.fail(f"there is no opcode 0x{code:02X}")
    return row.name, tuple(FORMS[kind].read(source) for _, kind in row.operands)


def _write_host(out: Out, host: HostBlock) -> None:
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


def _read_host(source: In) -> HostBlock:
    kind = source.byte()
    if kind >= len(HOST_KINDS):
        raise source.fail(f"there is no host block kind {kind}")
    text, reads, writes = source.name(), source.name_list(), source.name_list()
    line, column = source.uint(), source.uint()
    sites = tuple(_read_site(source) for _ in range(source.count()))
    return HostBlock(HOST_KINDS[kind], text, reads, writes, line, column, sites)


def _read_site(source: In) -> HostSite:
    line, column, end_line, end_column = (source.uint() for _ in range(4))
    return HostSite(line, column, end_line, end_column, source.name(), source.uint(), source.name_list())


# --- source map: per instruction a flag byte (place? end line? end column?), then differences to the place before


def _write_source_map(out: Out, program: Program) -> None:
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


def _read_source_map(source: In, count: int) -> list[SourceLoc | None]:
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
