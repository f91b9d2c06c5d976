"""How much smaller it is to encode a program once with hints than once per shape.

Both sides use `isa.encoding` and hold the constants once. Two ways to store the per-shape programs:

- *files*: one file per shape that leaves its constants to a common store (what a per-shape
  compiler's cache looks like);
- *bundle*: all in one file that shares constants, names and signature rows too: the strictest
  comparison, in which only code that really repeats is paid again.

With one shape there is nothing to save: a specialised program is a little smaller or larger than
the one with hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .encoding import constant_bytes, encode, encode_all
from .hints import ShapeHint, specialise
from .program import Program
from .signature import SignatureTable
from .signature import table as process_table

SHAPES = (1, 2, 8)


@dataclass(frozen=True, slots=True)
class Size:
    """Encoded sizes in bytes of one model at `shapes` shapes."""

    model: str
    shapes: int
    once_bytes: int
    files_bytes: int
    bundle_bytes: int

    @property
    def saved_of_files(self) -> float:
        """Share of the per-shape files that the one program saves; negative when it is larger."""
        return 1 - self.once_bytes / self.files_bytes

    @property
    def saved_of_bundle(self) -> float:
        """Share of the bundle that the one program saves."""
        return 1 - self.once_bytes / self.bundle_bytes


def specialised(program: Program, number: int) -> Program:
    """`program` for the shape with that number (0, 1, ...): every hint becomes a fixed one, no symbolic dims are left.

    Named dims get sizes from 8 up that differ by dim and by shape, the free dim too.
    """
    sizes = {name: 8 * (number + 1) + position for position, name in enumerate(program.dims)}
    instructions = tuple(
        replace(
            instruction,
            operands=tuple(
                specialise(value, sizes, 8 * (number + 1)) if isinstance(value, ShapeHint) else value for value in instruction.operands
            ),
        )
        for instruction in program.instructions
    )
    return replace(program, instructions=instructions, dims=(), nested=tuple(specialised(nested, number) for nested in program.nested))


def measure(program: Program, shapes: int, *, signatures: SignatureTable = process_table) -> Size:
    """Sizes of one program with hints and of `shapes` specialised ones."""
    variants = [specialised(program, number) for number in range(shapes)]
    shared = sum(constant_bytes(program).values())
    files = shared + sum(len(encode(variant, signatures=signatures)) - shared for variant in variants)
    bundle = len(encode_all(variants, signatures=signatures))
    return Size(program.name, shapes, len(encode(program, signatures=signatures)), files, bundle)


def total(sizes: Iterable[Size]) -> Size:
    """The sum over models (of one number of shapes)."""
    rows = list(sizes)
    return Size(
        "all",
        rows[0].shapes,
        sum(row.once_bytes for row in rows),
        sum(row.files_bytes for row in rows),
        sum(row.bundle_bytes for row in rows),
    )


def table(programs: Sequence[Program], shapes: Sequence[int] = SHAPES, *, signatures: SignatureTable = process_table) -> list[list[Size]]:
    """One row per program and a last one for all; in a row one `Size` per number of shapes."""
    rows = [[measure(program, count, signatures=signatures) for count in shapes] for program in programs]
    return [*rows, [total(row[position] for row in rows) for position in range(len(shapes))]]


def render(rows: Sequence[Sequence[Size]]) -> str:
    """The table as text: bytes once, then per number of shapes the bytes of files and bundle and what is saved."""
    head = f"{'model':24s} {'once':>6s}"
    for size in rows[0]:
        head += f" | {size.shapes} shape{'s' if size.shapes > 1 else ' '}: files  saved   bundle  saved"
    lines = [head, "-" * len(head)]
    for row in rows:
        line = f"{row[0].model:24s} {row[0].once_bytes:6d}"
        for size in row:
            line += f" | {size.files_bytes:15d} {size.saved_of_files:6.1%} {size.bundle_bytes:8d} {size.saved_of_bundle:6.1%}"
        lines.append(line)
    return "\n".join(lines)
