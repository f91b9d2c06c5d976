"""One call of oneDNN in the language of `native.py`: its memory objects get their addresses, the primitive runs.

A *job* is a block of words: what to call, then the memory objects, then as many addresses.
"""

from __future__ import annotations

from typing import Final

from .native import call, get_status, load64, set_status, stack

PRIMITIVE_SET: Final = 0  # the library's functions: set the address of a memory object,
PRIMITIVE_EXECUTE: Final = 8  # run a primitive
PRIMITIVE_HANDLE: Final = 16
PRIMITIVE_ARGUMENTS: Final = 24
PRIMITIVE_OBJECTS: Final = 32  # how many memory objects there are
PRIMITIVE_LIST: Final = 40
INVALID_FLAG: Final = 1  # among the processor's flags
SAID: Final = 4294967295


def primitive(job: int, stream: int) -> int:
    """What the library says, and above those 32 bits whether the flag "invalid" went up; the flag stays as it was."""
    scratch = stack(8)
    before = get_status(scratch)
    set_status(scratch, before & (-1 - INVALID_FLAG))
    count = load64(job + PRIMITIVE_OBJECTS)
    place = job + PRIMITIVE_LIST
    k = 0
    while k < count:
        call(load64(job + PRIMITIVE_SET), load64(place), load64(place + 8 * count))
        place = place + 8
        k = k + 1
    said = call(load64(job + PRIMITIVE_EXECUTE), load64(job + PRIMITIVE_HANDLE), stream, count, load64(job + PRIMITIVE_ARGUMENTS)) & SAID
    after = get_status(scratch)
    set_status(scratch, (after & (-1 - INVALID_FLAG)) | (before & INVALID_FLAG))
    return said | ((after & INVALID_FLAG) << 32)
