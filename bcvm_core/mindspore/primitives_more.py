"""More primitive classes, and why the others stay with MindSpore."""

from __future__ import annotations

TABLE = """
"""
