"""Floating-point events of kernels; the code lives on the lowest floor since ops report events too."""

from __future__ import annotations

from ..fpstatus import DIVIDE, INVALID, KINDS, OVERFLOW, TEXT, UNDERFLOW, Recording, note, note_word, recording, report

__all__ = ["DIVIDE", "INVALID", "KINDS", "OVERFLOW", "TEXT", "UNDERFLOW", "Recording", "note", "note_word", "recording", "report"]
