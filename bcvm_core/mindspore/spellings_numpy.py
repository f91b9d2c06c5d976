"""How `mindspore.numpy` spells what models take from it: functions that MindSpore composes of slices and joins in Python."""

from __future__ import annotations

NUMPY = """
roll = roll(x:a, shift, axis=None)
"""

TABLES = {"mindspore.numpy": NUMPY}
