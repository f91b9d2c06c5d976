"""From the object file of a module of stencils to a blob: code of each function, with relocations as holes."""

from __future__ import annotations

import bisect
import struct
from typing import Final

from ..loader import Section, read_sections, text_at
from .blob import AGAIN, CTX, DATA, KON, NEXT, Blob, BlobError, Hole

_SYMTAB, _RELA, _ALLOC, _EXEC = 2, 4, 2, 4
_PC32, _PLT32, _ABS32, _ABS32S = 2, 4, 10, 11
_OUTSIDE: Final = {"CTX": CTX, "KON": KON, "next": NEXT, "again": AGAIN}
_JUMP: Final = 0xE9

Symbol = tuple[str, int, int, int, int]  # name, kind, section, value, size


def blob_from(object_file: bytes, level: str, width: int, lanes: int) -> Blob:
    """Take a compiled module apart. Raises BlobError when it needs what the splicer doesn't do."""
    sections = read_sections(object_file)
    symbols = _symbols(object_file, sections)
    data, places = _constants(object_file, sections)
    texts = [k for k, s in enumerate(sections) if s.flags & _EXEC and s.size]
    if len(texts) != 1:
        raise BlobError(f"{len(texts)} sections of code")
    text = sections[texts[0]]
    code = object_file[text.offset : text.offset + text.size]
    holes = _holes(object_file, sections, texts[0], symbols, places)
    starts = [hole[0] for hole in holes]
    stencils = {}
    for name, kind, home, value, size in symbols:
        if kind & 15 == 2 and home == texts[0]:
            mine = holes[bisect.bisect_left(starts, value) : bisect.bisect_left(starts, value + size)]
            stencils[name] = _trimmed(code[value : value + size], [(at - value, k, addend) for at, k, addend in mine])
    return Blob(level, width, lanes, stencils, data)


def _symbols(data: bytes, sections: list[Section]) -> list[Symbol]:
    table = next(s for s in sections if s.kind == _SYMTAB)
    names = sections[table.link].offset
    out = []
    for at in range(table.offset, table.offset + table.size, 24):
        name, info, _, home, value, size = struct.unpack_from("<IBBHQQ", data, at)
        out.append((text_at(data, names + name), info, home, value, size))
    return out


def _constants(data: bytes, sections: list[Section]) -> tuple[bytes, dict[int, int]]:
    """Read-only sections laid end to end, and where each begins."""
    image, places = bytearray(), {}
    for k, section in enumerate(sections):
        if section.flags & _ALLOC and not section.flags & _EXEC and section.size and section.kind == 1:
            image.extend(b"\0" * (-len(image) % max(1, section.align)))
            places[k] = len(image)
            image += data[section.offset : section.offset + section.size]
    return bytes(image), places


def _holes(data: bytes, sections: list[Section], text: int, symbols: list[Symbol], places: dict[int, int]) -> list[Hole]:
    """All holes of the code, by offset. Addends are relative to the end of the field where the hole is."""
    out: list[Hole] = []
    for section in sections:
        if section.kind != _RELA or section.info != text:
            if section.kind == _RELA and section.info in places:
                raise BlobError("constants with relocations")
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            where, info, addend = struct.unpack_from("<QQq", data, at)
            name, _, home, value, _ = symbols[info >> 32]
            out.append(_hole(where, info & 0xFFFFFFFF, addend, name, home, value, places))
    return sorted(out)


def _hole(where: int, how: int, addend: int, name: str, home: int, value: int, places: dict[int, int]) -> Hole:
    kind = _OUTSIDE.get(name)
    if kind in (CTX, KON) and how in (_ABS32, _ABS32S):
        return where, kind, addend
    if kind in (NEXT, AGAIN) and how in (_PC32, _PLT32) and addend == -4:
        return where, kind, 0
    if home in places and how == _PC32:
        return where, DATA, places[home] + value + addend + 4
    raise BlobError(f"relocation {how} against {name or home}")


def _trimmed(code: bytes, holes: list[Hole]) -> tuple[bytes, tuple[Hole, ...]]:
    """Without the jump at the end that would lead to the next byte."""
    if holes and holes[-1][1] == NEXT and holes[-1][0] == len(code) - 4 and code[-5] == _JUMP:
        return code[:-5], tuple(holes[:-1])
    return code, tuple(holes)
