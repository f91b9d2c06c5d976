"""Machine code as text, by capstone where it is installed, else its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MISSING: Final = "bytes only: pip install 'bcvm[disasm]' shows instructions"
_ROW: Final = 8  # bytes a line, where they are not told apart


class Decoded(NamedTuple):
    """An instruction of some code: where, its bytes, its text; without capstone a few bytes and no text."""

    at: int
    code: bytes
    text: str


def obstacle() -> str:
    """Why bytes are not told apart; "" where they are."""
    return MISSING if _capstone() is None else ""


def _capstone() -> Any:
    try:
        import capstone
    except ImportError:
        return None
    return capstone


def decode(code: bytes, at: int = 0) -> list[Decoded]:
    """The instructions of x86-64 code that lies at `at`, all bytes of it: those that are no instruction known here stand as bytes."""
    capstone = _capstone()
    if capstone is None:
        return [Decoded(at + k, code[k : k + _ROW], "") for k in range(0, len(code), _ROW)]
    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.skipdata = True
    return [Decoded(i.address, bytes(i.bytes), f"{i.mnemonic} {i.op_str}".strip()) for i in machine.disasm(code, at)]


def function(code: bytes) -> list[Decoded]:
    """The instructions of the function that `code` begins with: up to the return that no jump before it leads beyond."""
    return list(_until_return(decode(code)))


def open_ended(code: bytes) -> bool:
    """Whether the function that `code` begins with goes on beyond it."""
    *_, last = function(code)
    return not last.text.startswith("ret")


def _until_return(decoded: list[Decoded]) -> Iterator[Decoded]:
    farthest = 0
    for each in decoded:
        yield each
        name, _, operand = each.text.partition(" ")
        if name.startswith("j") and operand.startswith("0x"):
            farthest = max(farthest, int(operand, 16))
        if name.startswith("ret") and each.at >= farthest:
            return
