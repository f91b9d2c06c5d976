"""A family of stencils as bytes: what the compiler made, in the form the splicer wants, without a compiler.

Hole kinds: CTX and KON are offsets the splicer fills in, DATA is a place in the family's read-only
constants, NEXT is the end of the stencil, AGAIN a label. All are 32 bits wide; the last three are
relative to the end of the hole's field.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import Final

CTX, KON, DATA, NEXT, AGAIN = range(5)
_FORMAT: Final = 1

Hole = tuple[int, int, int]  # offset in the code, kind, addend


class BlobError(Exception):
    """An object file holds something that stencils may not have, or stored bytes are of another format."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Stencils by name as (code, holes), and the constants they share. `lanes`: elements per step."""

    level: str
    width: int
    lanes: int
    stencils: dict[str, tuple[bytes, tuple[Hole, ...]]]
    data: bytes

    def dump(self) -> bytes:
        """Bytes for the disk (whoever stores them adds a checksum)."""
        return marshal.dumps((_FORMAT, self.level, self.width, self.lanes, self.stencils, self.data))


def load(body: bytes) -> Blob:
    """The blob of `dump`. Raises BlobError."""
    try:
        version, level, width, lanes, stencils, data = marshal.loads(body)
    except (ValueError, EOFError, TypeError) as error:
        raise BlobError(f"malformed blob: {error}") from error
    if version != _FORMAT:
        raise BlobError(f"a blob of format {version}")
    return Blob(level, width, lanes, stencils, data)
