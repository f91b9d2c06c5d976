"""The assembler: text form to Program. The grammar stands in `isa.text`.

Two passes: the lines are sorted into one section per Program (with its header, labels and
instructions) and the tables of the file (signature rows, array data); then each section is built,
nested ones first. Whatever is wrong with a text is an AssembleError that carries the line.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from .. import dtypes
from ..errors import AssembleError, BcvmError, Where
from . import literals, opcodes
from .constants import MAX_DEPTH
from .operands import Names, parse_name, parse_names, parse_operands, split
from .program import HostBlock, HostSite, Instruction, Program, SourceLoc
from .signature import LAYOUTS, MEMORY, PYTHON_SCALARS, OperandClass, Signature, SignatureTable
from .signature import table as process_table

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_N = r"([0-9]{1,9})"
_PROGRAM = re.compile(rf"({_QUOTED}|[^\W\d][\w.]*?)((?:\.[0-9]{{1,6}})*)\((.*)\)\Z")
_FILE = re.compile(rf"({_QUOTED}) line {_N}\Z")
_SIG = re.compile(r"(0x[0-9a-fA-F]{1,4})\s*=\s*(.*)\Z")
_SIG_ROW = re.compile(rf"({_QUOTED}|[^\W\d][\w.]*)\((.*)\)\Z")
_CONST = re.compile(r"k([0-9]{1,6})\s*=\s*(.*)\Z")
_HOST = re.compile(rf"h([0-9]{{1,6}})( expr| stmt)? reads\(([^()]*)\) writes\(([^()]*)\) line {_N}(?:, column {_N})?:\Z")
_SITE = re.compile(rf"h([0-9]{{1,6}}) {_N}:{_N}-{_N}:{_N} (\S+) {_N}(?: targets\(([^()]*)\))?\Z")
_DATA = re.compile(r"sha256:([0-9a-f]{32})\Z")
_LABEL = re.compile(r"label\s+([^\W\d]\w*)\s*:\Z")
_CODE = re.compile(r"(?:[0-9]+\s+)?([A-Za-z_]\w*)(?:\s+(.*))?\Z", re.DOTALL)
_LOC = re.compile(rf"\s*{_N}:{_N}(?:-{_N}?:{_N}?)?(?:\s.*)?\Z")
_INDENT = "    "


def assemble(text: str, *, filename: str | None = None, signatures: SignatureTable = process_table) -> Program:
    """The Program written as `text`; its signature rows are interned in `signatures`.

    Raises AssembleError, which carries the line (and `filename`, which is used for nothing else).
    """
    file = _File(filename, signatures)
    lines = _Lines(text)
    for number, line in lines:
        with file.at(number):
            _read_line(file, line, number, lines)
    with file.at(1):
        if not file.sections:
            raise AssembleError("no .program line", fix="begin with '.program NAME(param, ...)'")
    for number, (at, row) in file.rows.items():
        with file.at(at):
            file.ids[number] = signatures.intern(row)
    return file.build(())


class _Lines:
    """The lines of a text, with a way to take the indented block that follows."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.next = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        while self.next < len(self.lines):
            self.next += 1
            yield self.next, self.lines[self.next - 1]

    def block(self) -> list[str]:
        """Lines indented by 4 spaces, without them; empty lines count when more of the block follows."""
        end = at = self.next
        while at < len(self.lines) and (self.lines[at].startswith(_INDENT) or not self.lines[at].strip()):
            at += 1
            if self.lines[at - 1].startswith(_INDENT):
                end = at
        taken = [line[len(_INDENT) :] for line in self.lines[self.next : end]]
        self.next = end
        return taken


@dataclass(slots=True)
class _Section:
    """One Program under construction."""

    name: str
    params: tuple[str, ...]
    line: int
    kind: str = "function"
    filename: str = "<bcvm>"
    first_line: int = 1
    local_names: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    consts: dict[int, tuple[int, str]] = field(default_factory=dict)  # number -> line, text
    hosts: dict[int, HostBlock] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    code: list[tuple[int, str, str, SourceLoc | None]] = field(default_factory=list)  # line, opcode, operands, place
    children: int = 0


class _File:
    """What the lines of one text gave so far."""

    def __init__(self, filename: str | None, signatures: SignatureTable) -> None:
        self.filename = filename
        self.signatures = signatures
        self.sections: dict[tuple[int, ...], _Section] = {}
        self.root = ""
        self.current: _Section | None = None
        self.rows: dict[int, tuple[int, Signature]] = {}  # number in the text -> line, row
        self.ids: dict[int, int] = {}
        self.data: literals.ArrayData = {}

    @contextmanager
    def at(self, line: int) -> Iterator[None]:
        """Give errors of the block their line."""
        try:
            yield
        except BcvmError as error:
            raise AssembleError(error.what, where=Where(filename=self.filename, line=line), fix=error.fix) from None
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:
            where = Where(filename=self.filename, line=line)
            raise AssembleError(f"cannot be read: {error}", where=where, fix="see the grammar in bcvm_core.isa.text") from None

    @property
    def section(self) -> _Section:
        if self.current is None:
            raise AssembleError("this line stands before the first .program line", fix="begin with '.program NAME(param, ...)'")
        return self.current

    def build(self, path: tuple[int, ...]) -> Program:
        section = self.sections[path]
        names = Names(section.labels, self.ids)
        consts: list[Any] = []
        for number, (line, text) in sorted(section.consts.items()):
            with self.at(line):
                if number != len(consts):
                    raise AssembleError(f"k{number} follows k{len(consts) - 1}", fix="number constants k0, k1, ... without gaps")
                consts.append(literals.Parser(text, self.data).whole())
        with self.at(section.line):
            if sorted(section.hosts) != list(range(len(section.hosts))):
                raise AssembleError("host blocks are numbered with gaps", fix="number them h0, h1, ...")
        instructions = []
        for line, opcode, operands, loc in section.code:
            with self.at(line):
                row = opcodes.BY_NAME.get(opcode)
                if row is None:
                    raise AssembleError(f"there is no opcode {opcode!r}", fix=_near(opcode, opcodes.BY_NAME))
                instructions.append(Instruction(opcode, parse_operands(row, operands, names), loc))
        return Program(
            name=section.name,
            params=section.params,
            instructions=tuple(instructions),
            kind=section.kind,
            dims=section.dims,
            consts=tuple(consts),
            hosts=tuple(section.hosts[number] for number in range(len(section.hosts))),
            nested=tuple(self.build((*path, number)) for number in range(section.children)),
            local_names=section.local_names,
            filename=section.filename,
            first_line=section.first_line,
        )


def _near(word: str, known: Any) -> str:
    import difflib

    near = difflib.get_close_matches(word.upper() if word.upper() in known else word, known, n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(known))}"


def _uncomment(line: str) -> tuple[str, str | None]:
    """A line without its comment, and the comment."""
    at = quoted = 0
    while at < len(line):
        char = line[at]
        if char == '"':
            quoted ^= 1
        elif char == "\\" and quoted:
            at += 1
        elif char == ";" and not quoted:
            return line[:at].strip(), line[at + 1 :]
        at += 1
    return line.strip(), None


def _read_line(file: _File, line: str, number: int, lines: _Lines) -> None:
    text, comment = _uncomment(line)
    if not text:
        return
    if text.startswith("."):
        word, _, rest = text.partition(" ")
        directive = _DIRECTIVES.get(word)
        if directive is None:
            raise AssembleError(f"there is no directive {word!r}", fix=_near(word, _DIRECTIVES))
        directive(file, rest.strip(), number, lines)
    elif label := _LABEL.match(text):
        if label[1] in file.section.labels:
            raise AssembleError(f"label {label[1]} stands twice", fix="give each place its own label")
        file.section.labels[label[1]] = len(file.section.code)
    else:
        code = _CODE.match(text)
        if code is None:
            raise AssembleError(f"{text[:60]!r} is no instruction", fix="write 'OPCODE operand, operand, ...'")
        file.section.code.append((number, code[1], (code[2] or "").strip(), _place(comment)))


def _place(comment: str | None) -> SourceLoc | None:
    match = _LOC.match(comment) if comment is not None else None
    if match is None:
        return None
    line, column, end_line, end_column = (None if part is None else int(part) for part in match.groups())
    assert line is not None and column is not None
    return SourceLoc(line, column, end_line, end_column)


def _matched(pattern: re.Pattern[str], text: str, usage: str) -> re.Match[str]:
    match = pattern.match(text)
    if match is None:
        raise AssembleError(f"cannot read {text[:60]!r}", fix=f"write {usage}")
    return match


def _program(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_PROGRAM, text, "'.program NAME(param, ...)'")
    path = tuple(int(part) for part in match[2].split(".")[1:])
    if not file.sections:
        if path:
            raise AssembleError(f"nested program {text[:60]!r} comes first", fix="begin with the outer one")
        file.root = parse_name(match[1])
    elif parse_name(match[1]) != file.root or not path or path in file.sections:
        fix = f"a file has one outer program; nested ones are called {file.root}.0, {file.root}.1, ..."
        raise AssembleError(f"program {text[:60]!r} does not belong here", fix=fix)
    if path:
        if len(path) > MAX_DEPTH:
            raise AssembleError(f"programs are nested more than {MAX_DEPTH} deep")
        parent = file.sections.get(path[:-1])
        if parent is None or parent.children != path[-1]:
            raise AssembleError(f"nested program {text[:60]!r} is out of order", fix="number nested programs from 0, outer ones first")
        parent.children += 1
    name = f"{file.sections[path[:-1]].name}.{path[-1]}" if path else file.root
    file.current = file.sections[path] = _Section(name, parse_names(match[3]), line)


def _name(file: _File, text: str, line: int, lines: _Lines) -> None:
    file.section.name = parse_name(text)


def _kind(file: _File, text: str, line: int, lines: _Lines) -> None:
    file.section.kind = parse_name(text)


def _file(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_FILE, text, "'.file \"PATH\" line N'")
    file.section.filename, file.section.first_line = parse_name(match[1]), int(match[2])


def _locals(file: _File, text: str, line: int, lines: _Lines) -> None:
    file.section.local_names = parse_names(text)


def _dims(file: _File, text: str, line: int, lines: _Lines) -> None:
    file.section.dims = parse_names(text)


def _operand_class(text: str) -> OperandClass:
    parts = text.split(":")
    if len(parts) == 3:
        dtype, layout, memory = parts
        if (dtype in dtypes.BY_NAME or dtype in PYTHON_SCALARS) and layout in LAYOUTS and memory in MEMORY:
            return OperandClass(dtype, layout, memory)
    fix = f"write dtype:layout:memory with layout {', '.join(LAYOUTS)} and memory {', '.join(MEMORY)}"
    raise AssembleError(f"{text[:60]!r} is no operand class", fix=fix)


def _sig(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_SIG, text, "'.sig 0x0001 = op(dtype:layout:memory, ...)'")
    row = _matched(_SIG_ROW, match[2], "'.sig 0x0001 = op(dtype:layout:memory, ...)'")
    number = int(match[1], 16)
    signature = Signature(parse_name(row[1]), tuple(_operand_class(part) for part in split(row[2])))
    if number == 0:
        raise AssembleError("signature 0x0000 is reserved", fix="it means 'resolved when bound' and has no row")
    if file.rows.setdefault(number, (line, signature))[1] != signature:
        raise AssembleError(f"signature {match[1]} has two rows", fix="give each signature its own number")


def _const(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_CONST, text, "'.const k0 = VALUE'")
    number = int(match[1])
    if number in file.section.consts:
        raise AssembleError(f"k{number} stands twice", fix="number constants k0, k1, ...")
    file.section.consts[number] = line, match[2]


def _host(file: _File, text: str, line: int, lines: _Lines) -> None:
    source = "\n".join(lines.block())
    match = _matched(_HOST, text, "'.host h0 reads(a, b) writes(c) line 7:' and the source below, indented by 4 spaces")
    number = int(match[1])
    if number in file.section.hosts:
        raise AssembleError(f"h{number} stands twice", fix="number host blocks h0, h1, ...")
    kind = (match[2] or "stmt").strip()
    reads, writes = parse_names(match[3]), parse_names(match[4])
    file.section.hosts[number] = HostBlock(kind, source, reads, writes, int(match[5]), int(match[6] or 0))


def _site(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_SITE, text, "'.site h0 1:4-2:9 run 0 targets(a)'")
    number = int(match[1])
    host = file.section.hosts.get(number)
    if host is None:
        raise AssembleError(f"there is no h{number} above", fix="put .site lines after their .host block")
    line, column, end_line, end_column, program = (int(match[group]) for group in (2, 3, 4, 5, 7))
    site = HostSite(line, column, end_line, end_column, parse_name(match[6]), program, parse_names(match[8] or ""))
    file.section.hosts[number] = replace(host, sites=(*host.sites, site))


def _code(file: _File, text: str, line: int, lines: _Lines) -> None:
    if text:
        raise AssembleError(f"{text[:60]!r} after .code", fix="put instructions on lines of their own")


def _data(file: _File, text: str, line: int, lines: _Lines) -> None:
    match = _matched(_DATA, text, "'.data sha256:HASH' and base64 below, indented by 4 spaces")
    try:
        raw = b64decode("".join(part.strip() for part in lines.block()), validate=True)
    except ValueError:
        raise AssembleError("the data is no base64", fix="copy the .data block again") from None
    if sha256(raw).hexdigest()[:32] != match[1]:
        raise AssembleError("the data does not have the hash it is listed under", fix="copy the .data block again")
    file.data[match[1]] = raw


_DIRECTIVES: dict[str, Callable[[_File, str, int, _Lines], None]] = {
    ".program": _program, ".name": _name, ".kind": _kind, ".file": _file, ".locals": _locals, ".dims": _dims,
    ".sig": _sig, ".const": _const, ".host": _host, ".site": _site, ".code": _code, ".data": _data,
}  # fmt: skip
