"""Puts an ELF object of ours into memory and gives the addresses of its functions.

It knows what position-independent x86-64 code with constants needs and refuses the rest:
undefined symbols, writable data, other relocations. Memory is written first and then made
executable, never both at once.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from typing import Final, NamedTuple

SUPPORTED: Final = sys.platform == "linux" and platform.machine() == "x86_64"

_ALLOC, _WRITE = 2, 1
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_PC32, _PLT32 = 2, 4
_mappings: list[mmap.mmap] = []  # code is never unmapped: kernels may be running


class LoadError(Exception):
    """The object is not of the kind this loader takes, or executable memory is barred."""


class Section(NamedTuple):
    """A section header, as in the ELF specification."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def read_sections(data: bytes) -> list[Section]:
    """The section headers of an object file. Raises LoadError."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (1, 62):
        raise LoadError("not a relocatable x86-64 object")
    table = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    return [Section._make(struct.unpack_from("<IIQQQQIIQQ", data, table + i * size)) for i in range(count)]


def text_at(data: bytes, at: int) -> str:
    """The zero-terminated text at an offset."""
    return data[at : data.index(b"\0", at)].decode()


def _place(data: bytes, sections: list[Section]) -> tuple[dict[int, int], bytearray]:
    """Offsets of the sections that are loaded, and the image without relocations."""
    places: dict[int, int] = {}
    image = bytearray()
    for i, section in enumerate(sections):
        if not section.flags & _ALLOC or not section.size:
            continue
        if section.flags & _WRITE or section.kind == _NOBITS:
            raise LoadError("the object has writable data")
        image.extend(b"\0" * (-len(image) % max(1, section.align)))
        places[i] = len(image)
        image += data[section.offset : section.offset + section.size]
    return places, image


def _relocate(data: bytes, sections: list[Section], places: dict[int, int], image: bytearray, symbols: list[tuple[int, int]]) -> None:
    for section in sections:
        if section.kind != _RELA or section.info not in places:
            continue
        base = places[section.info]
        for at in range(section.offset, section.offset + section.size, 24):
            where, info, addend = struct.unpack_from("<QQq", data, at)
            home, value = symbols[info >> 32]
            if info & 0xFFFFFFFF not in (_PC32, _PLT32) or home not in places:
                raise LoadError(f"relocation {info & 0xFFFFFFFF} against section {home}")
            struct.pack_into("<i", image, base + where, places[home] + value + addend - (base + where))


def assembled(data: bytes) -> tuple[bytes, dict[str, int]]:
    """An object as it is to lie in memory, wherever that is, and the offsets of its functions. Raises LoadError."""
    try:
        sections = read_sections(data)
        table = next(s for s in sections if s.kind == _SYMTAB)
        names = sections[table.link].offset
        raw = [struct.unpack_from("<IBBHQQ", data, table.offset + i) for i in range(0, table.size, 24)]
        places, image = _place(data, sections)
        _relocate(data, sections, places, image, [(entry[3], entry[4]) for entry in raw])
        found = {text_at(data, names + e[0]): places[e[3]] + e[4] for e in raw if e[1] & 15 == 2 and e[3] in places}
    except (struct.error, StopIteration, IndexError, ValueError) as error:
        raise LoadError(f"malformed object: {error}") from error
    return bytes(image), found


def load(data: bytes) -> dict[str, int]:
    """Addresses of the functions of an object, by name. Raises LoadError."""
    image, found = assembled(data)
    base = _executable(image)
    return {name: base + offset for name, offset in found.items()}


def _executable(image: bytes) -> int:
    size = -(-len(image) // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise LoadError(f"no memory for code: {error}") from error
    mapping[: len(image)] = image
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise LoadError(f"executable memory is barred (errno {ctypes.get_errno()})")
    _mappings.append(mapping)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(mapping))  # at exit, objects that call into it may go after this module
    return address


def obstacle() -> str:
    """Why generated code can't run in this process, "" when it can. (Where this loader is not used LLVM's does its work: not asked.)"""
    if not SUPPORTED:
        return ""
    try:
        _executable(b"\xc3")
    except LoadError as error:
        return str(error)
    return ""
