"""Every error BCVM raises on purpose: one class per kind, each with a place and a way out.

The message is built once, as ``<what>`` [`` (at <where>)``] [``: <fix>``]; tests and
front ends read the parts from the attributes instead of parsing the text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a program or a source text; every part is optional."""

    pc: int | None = None
    filename: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.pc is not None:
            parts.append(f"pc {self.pc}")
        if self.filename is not None:
            parts.append(self.filename)
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.column is not None:
            parts.append(f"column {self.column}")
        return ", ".join(parts)


class BcvmError(Exception):
    """Base of all errors of this package.

    `what` says what is wrong, `where` the place (or None), `fix` what the reader can do.
    """

    def __init__(self, what: str, *, where: Where | None = None, fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        place = f" (at {where})" if where is not None and str(where) else ""
        super().__init__(f"{what}{place}" + (f"; {fix}" if fix else ""))


class HintError(BcvmError):
    """A shape hint is malformed, or a value violates the hint of a parameter."""


class SignatureError(BcvmError):
    """A signature is malformed, unknown, or the 16-bit table is full."""


class UnknownOpError(BcvmError):
    """An op name is not in the op table."""


class AssembleError(BcvmError):
    """The text form of a program does not parse."""


class EncodeError(BcvmError):
    """A program holds something that the text and binary forms cannot carry."""


class DecodeError(BcvmError):
    """The binary form of a program is malformed."""


class VerifyError(BcvmError):
    """A program is well-formed but breaks a rule of the verifier; `where.pc` names the instruction."""


class TrustError(BcvmError):
    """A program with CALL_HOST from elsewhere was run without being trusted."""


class LimitError(BcvmError):
    """A program ran past its step or memory limit."""


class LoweringError(BcvmError):
    """A function cannot be lowered at all (no source, stale source); it runs as plain Python."""


class StrictError(BcvmError):
    """Under ``strict=True`` a callable of the op table would have reached the host."""


class SelectionError(BcvmError):
    """A kernel-selection program breaks a rule of its verifier, or no kernel fits a signature."""


class PoolError(BcvmError):
    """A kernel pool entry is missing, or cannot be swapped."""


class MissingExtraError(BcvmError):
    """An optional part is not installed; `fix` gives the command that installs it."""


class Decline(Exception):
    """Internal: a kernel or region hands this one execution back to Python (a result, not a fault)."""
