"""Line numbers as typed.

IPython joins a continued ``!`` or ``%`` line into one, drops blank lines at the top of a cell, and
hands the body of ``%%time`` on without its first line; every error below is then reported some
lines too high. Here the lines that vanish are made up for by blank ones.
"""

from __future__ import annotations

from typing import Any

from IPython.core.inputtransformer2 import TransformerManager, leading_empty_lines

# Cell magics that run their body as a cell: their bodies begin with line 2.
_BODY_IS_PYTHON = frozenset({"%%time", "%%capture"})


class TypedLines(TransformerManager):
    """IPython's transformers, with as many lines coming out as went in."""

    def transform_cell(self, cell: str) -> str:
        """Transform a cell's text; blank lines at its top stay, and so does the line of ``%%time`` in its body."""
        lines = cell.splitlines(keepends=True)
        blank = next((i for i, line in enumerate(lines) if line.strip()), 0)
        first = lines[blank] if lines else ""
        dropped = blank if leading_empty_lines in self.cleanup_transforms else 0  # the debugger takes that transform out
        if first.startswith("%%") and first.split(maxsplit=1)[0] != "%%bcvm":  # which is a line in a cell like any other
            if first.split(maxsplit=1)[0] in _BODY_IS_PYTHON and lines[blank + 1 :]:
                cell = "".join([first, "\n" * (blank + 1), *lines[blank + 1 :]])
            return super().transform_cell(cell)
        return "\n" * dropped + super().transform_cell(cell)

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        """Apply the first escape in the text (``!``, ``%``, ``?``) without losing a line."""
        changed, after = super().do_one_token_transform(lines)  # type: ignore[no-untyped-call]
        missing = len(lines) - len(after)
        if changed and missing > 0:
            at = next((i for i, (a, b) in enumerate(zip(lines, after, strict=False)) if a != b), len(after) - 1)
            after = [*after[: at + 1], *["\n"] * missing, *after[at + 1 :]]
        return changed, after


def keep_lines(shell: Any) -> None:
    """Make an IPython shell count lines as they are typed."""
    shell.input_transformer_manager.__class__ = TypedLines
