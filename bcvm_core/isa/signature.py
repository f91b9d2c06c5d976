"""Signatures: 16-bit names for (op, operand classes), independent of any shape and any Program."""

from __future__ import annotations

from dataclasses import dataclass

from .. import locks
from ..errors import SignatureError

LAYOUTS = ("contiguous", "strided", "broadcast", "scalar", "NCHW", "NHWC")
MEMORY = ("host", "device", "shared")
PYTHON_SCALARS = ("pybool", "pyint", "pyfloat", "pycomplex", "pyobject")


@dataclass(frozen=True, slots=True)
class OperandClass:
    """dtype name (or a Python scalar's class), layout and memory type of one operand."""

    dtype: str
    layout: str
    memory: str = "host"

    def __str__(self) -> str:
        return f"{self.dtype}:{self.layout}:{self.memory}"


@dataclass(frozen=True, slots=True)
class Signature:
    """An op with the classes of its tensor operands."""

    op: str
    operands: tuple[OperandClass, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.operands))})"


class SignatureTable:
    """Interns signatures; ids start at 1, 0 means "resolved when bound"."""

    def __init__(self) -> None:
        self._rows: list[Signature | None] = [None]
        self._ids: dict[Signature, int] = {}
        self._lock = locks.lock()

    def intern(self, signature: Signature) -> int:
        """The id of `signature`; the same signature always gets the same id in a process.

        Raises SignatureError when 65,535 are taken.
        """
        found = self._ids.get(signature)
        if found is not None:
            return found
        with self._lock:
            if signature in self._ids:
                return self._ids[signature]
            if len(self._rows) > 0xFFFF:
                raise SignatureError("the signature table is full (65,535 rows)", fix="restart the process")
            self._rows.append(signature)
            self._ids[signature] = len(self._rows) - 1
            return len(self._rows) - 1

    def row(self, signature_id: int) -> Signature:
        """The row of an id. Raises SignatureError for 0 and for ids that were never given out."""
        if 0 < signature_id < len(self._rows):
            row = self._rows[signature_id]
            assert row is not None
            return row
        raise SignatureError(f"signature 0x{signature_id:04X} does not exist")

    def __len__(self) -> int:
        return len(self._rows) - 1


table = SignatureTable()
