"""Data that candidates must get right before they are used: last steps of any length, special values against each other, any alignment."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..stencils import offsets as c
from ..stencils.ir import SIZE
from ..stencils.lower import Loaded, Lowered
from .backend import Job

_LENGTHS: Final = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 200, 777, 2100)
_GUARD: Final = 192
_FILL: Final = 0xA5
_SPECIALS: Final = {
    "f32": np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-40, 3.4e38, 88.7, -104.0, 0.5, 1e-8, 2.5], "<f4"),
    "f64": np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1e-310, 1.7e308, 709.7, -745.5, 0.5, 1e-17, 2.5], "<f8"
    ),
    "f16": np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 6e-8, 65504.0, 11.0, -17.0, 0.5, 1e-4, 2.5, 3.0], "<f2"),
}
_UNSIGNED: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def constants(lowered: Lowered) -> Any:
    """The kernel's constants in memory."""
    found = lowered.constants or (0,)
    return (ctypes.c_uint64 * len(found))(*found)


class Piece:
    """Operands of one call: input bytes, and outputs between guards. `shift`: how many elements the outputs are off the line."""

    def __init__(self, job: Job, count: int, shift: int) -> None:
        self.count = count
        memory = [_memory_of(job.lowered, k) for k in range(job.inputs)]
        self.inputs = [_values(name, k, 1 if job.repeated >> k & 1 else count) for k, name in enumerate(memory)]
        self.sizes = [SIZE[name] for name in memory] + [SIZE[name] for _, name in job.lowered.stores]
        self.outputs = [_Guarded(SIZE[name], count, shift) for _, name in job.lowered.stores]

    @property
    def pointers(self) -> list[int]:
        """Where the operands lie, inputs first."""
        return [x.__array_interface__["data"][0] for x in self.inputs] + [x.address for x in self.outputs]

    def intact(self) -> bool:
        """Whether nothing beside the outputs was written."""
        return all(x.intact() for x in self.outputs)

    def results(self) -> bytes:
        """What lies in the outputs."""
        return b"".join(x.content() for x in self.outputs)

    def clear(self) -> None:
        """Before another run."""
        for x in self.outputs:
            x.memory[:] = _FILL


class _Guarded:
    """An output in memory that is known on both sides."""

    def __init__(self, size: int, count: int, shift: int) -> None:
        self.memory = np.full(count * size + 2 * _GUARD + 64, _FILL, np.uint8)
        base = int(self.memory.__array_interface__["data"][0])
        self.at = _GUARD + (-(base + _GUARD)) % 64 + (shift * size) % 64
        self.bytes, self.address = count * size, base + self.at

    def intact(self) -> bool:
        return bool((self.memory[: self.at] == _FILL).all() and (self.memory[self.at + self.bytes :] == _FILL).all())

    def content(self) -> bytes:
        return self.memory[self.at : self.at + self.bytes].tobytes()


def pieces(job: Job) -> Iterator[Piece]:
    """All kinds of pieces."""
    for k, count in enumerate(_LENGTHS):
        yield Piece(job, count, 4 + 3 * k)
    yield Piece(job, _LENGTHS[-1], 0)


def context(piece: Piece) -> Any:
    """The context of a call by address."""
    block = ctypes.create_string_buffer(c.POINTERS + 8 * len(piece.pointers) + 64)
    struct.pack_into(f"<{len(piece.pointers)}q", block, c.POINTERS, *piece.pointers)
    return block


def _memory_of(lowered: Lowered, number: int) -> str:
    """How an input lies in memory; one that nobody loads any more is bytes."""
    return next((v.memory for v in lowered.values if type(v) is Loaded and v.input == number), "i8")


def _values(memory: str, which: int, count: int) -> Any:
    """Special values, each beside each of the other inputs', numbers of everyday sizes, and patterns of bits at random."""
    rng = np.random.default_rng(1000 + which)
    size = SIZE[memory]
    if memory == "b":
        return rng.integers(0, 2, count).astype(np.uint8)
    patterns = rng.integers(0, 256, (count, size), np.uint8).reshape(-1).view(_UNSIGNED[size]).copy()
    kinds = _SPECIALS.get(memory)
    if memory == "bf16":
        kinds = (_SPECIALS["f32"].view("<u4") >> 16).astype("<u2")
    if kinds is None:
        patterns[::2] = rng.integers(0, 7, len(patterns[::2])).astype(_UNSIGNED[size])
        return patterns
    every = np.arange(count)
    special = kinds[every // 16**which % 16 if which < 2 else rng.integers(0, 16, count)]
    everyday = rng.normal(0, 4, count)
    near = everyday.astype(kinds.dtype) if memory != "bf16" else (everyday.astype("<f4").view("<u4") >> 16).astype("<u2")
    third = rng.integers(0, 3, count) if count > 256 else every % 3
    unsigned = _UNSIGNED[size]
    chosen = np.where(third == 0, special.view(unsigned), np.where(third == 1, near.view(unsigned), patterns))
    return np.ascontiguousarray(chosen if count < 777 else np.where(every < 512, special.view(unsigned), chosen))
