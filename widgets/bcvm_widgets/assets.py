"""The views' ES module and style sheet, put together from their files: nothing is fetched, nothing is built."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = (
    "words.js", "pane.js", "legend.js", "finding.js", "views.js", "latencies.js", "roofline.js", "fusion.js", "codemap.js", "cachetable.js",
    "cache.js", "machine.js", "compare.js", "dashboard.js", "player.js", "dock.js", "start.js",
)  # fmt: skip
STYLES = ("dashboard.css", "views.css", "cache.css", "machine.css", "player.css")
_STATIC = Path(__file__).parent / "static"


def script() -> str:
    """One ES module, whose default export has `render`, as anywidget wants it."""
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)


def style() -> str:
    """One style sheet."""
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in STYLES)
