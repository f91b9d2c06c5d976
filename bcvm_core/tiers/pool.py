"""The kernel pool: ready kernels by name, and the table from signature to the kernels that take it.

Everything a call reads here is replaced, never edited: `table` is a new dict after each change and
`version` is bumped after that, so a call in flight keeps the entry it holds and the next call sees
the new one. No call is lost and none sees half of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import config, locks
from ..errors import PoolError
from ..isa import signature as signatures
from ..isa.signature import Signature
from ..ops import registry
from . import rules, selection
from .rules import KernelEntry
from .selection import SelectionProgram

Kernel = Callable[..., Any]


class Counter:
    """Calls of one kernel under one signature; a count may be missed when threads race, a call never."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """What the table holds for a signature: kernels in the order of the program's returns."""

    signature: int
    kernels: tuple[KernelEntry, ...]
    program: SelectionProgram
    select: Callable[[Sequence[Any]], int]
    counters: tuple[Counter, ...]

    @property
    def constant(self) -> int | None:
        """The kernel that always runs, None when the program looks at the operands."""
        return self.program.constant


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One line of the listing."""

    op: str
    kernel: str
    origin: str
    signature: int  # 0: not met yet
    calls: int
    doc: str
    swapped: bool


class KernelPool:
    """Kernels, their order of preference per op, selection programs, and the table of slots."""

    def __init__(self) -> None:
        self.version = 0
        self.table: dict[int, Slot] = {}
        self._lock = locks.rlock()
        self._entries: dict[str, tuple[KernelEntry, ...]] = {}
        self._names: dict[str, str] = {}  # kernel name -> op
        self._swapped: dict[str, Kernel] = {}
        self._added: set[str] = set()
        self.exchanged: frozenset[str] = frozenset()  # ops whose kernels or rules are the user's own: they are not fused
        self._programs: dict[tuple[str, int | None], SelectionProgram] = {}
        self._counters: dict[tuple[int, str], Counter] = {}

    # --- reading ---------------------------------------------------------------------------

    def kernels(self, op: str) -> tuple[KernelEntry, ...]:
        """All entries of an op in order of preference. Raises UnknownOpError."""
        found = self._entries.get(op)
        return found if found is not None else self._fill(op)

    def entry(self, name: str) -> KernelEntry:
        """The entry called `name`, as it runs now. Raises PoolError with near names."""
        op = self._names.get(name) or self._find(name)
        if op is None:
            import difflib

            near = difflib.get_close_matches(name, self._names, n=3)
            raise PoolError(
                f"there is no kernel {name!r}", fix=f"did you mean {', '.join(near)}?" if near else "`bcvm pool` lists all kernels"
            )
        return next(entry for entry in self._entries[op] if entry.name == name)

    def slot(self, signature_id: int) -> Slot:
        """The slot of a signature, made at first use. Raises SignatureError, SelectionError."""
        found = self.table.get(signature_id)
        return found if found is not None else self._make_slot(signature_id)

    def counter(self, signature_id: int, name: str) -> Counter:
        """The counter of a kernel under a signature."""
        return self._counters.setdefault((signature_id, name), Counter())

    def ran(self, signature_id: int) -> tuple[str, ...]:
        """Names of the kernels that have run under a signature, the busiest first."""
        found = [(counter.calls, name) for (sig, name), counter in list(self._counters.items()) if sig == signature_id and counter.calls]
        return tuple(name for _, name in sorted(found, key=lambda pair: (-pair[0], pair[1])))

    def is_swapped(self, name: str) -> bool:
        """Whether kernel `name` runs something else than its own function."""
        return name in self._swapped

    def rows(self) -> tuple[PoolRow, ...]:
        """Every kernel of every op: one row per signature it was met with, else one with signature 0."""
        out: list[PoolRow] = []
        with self._lock:
            seen: dict[str, list[tuple[int, Counter]]] = {}
            for (sig, name), counter in self._counters.items():
                seen.setdefault(name, []).append((sig, counter))
            for row in registry.rows():
                for e in self.kernels(row.name):
                    met = [(sig, c.calls) for sig, c in seen.get(e.name, ())] or [(0, 0)]
                    out += [PoolRow(e.op, e.name, e.origin, sig, calls, e.doc, e.name in self._swapped) for sig, calls in met]
        return tuple(out)

    # --- changing --------------------------------------------------------------------------

    def swap(self, name: str, fn: Kernel) -> None:
        """Let kernel `name` run `fn` from the next call on. Raises PoolError when there is no such kernel."""
        with self._lock:
            old = self.entry(name)
            self._swapped.setdefault(name, old.fn)
            self._replace(replace(old, fn=fn))

    def restore(self, name: str) -> None:
        """Undo `swap`; nothing happens when it was not swapped."""
        with self._lock:
            original = self._swapped.pop(name, None)
            if original is not None:
                self._replace(replace(self.entry(name), fn=original))

    def add(self, entry: KernelEntry, *, prefer: bool = False) -> None:
        """Add a kernel of an op; `prefer` puts it first, so that default rules take it where it accepts the signature.

        Raises PoolError when the name is taken, UnknownOpError when the op is not in the table.
        """
        with self._lock:
            known = self.kernels(entry.op)
            if entry.name in self._names:
                raise PoolError(f"kernel {entry.name!r} exists", fix="use swap() to replace it, or another name")
            self._names[entry.name] = entry.op
            self._added.add(entry.name)
            self._entries[entry.op] = (entry, *known) if prefer else (*known, entry)
            self._changed()

    def remove(self, name: str) -> None:
        """Take out a kernel; programs that name it are dropped with it. The last kernel of an op stays: PoolError."""
        with self._lock:
            entry = self.entry(name)
            left = tuple(e for e in self._entries[entry.op] if e.name != name)
            if not left:
                raise PoolError(f"{name!r} is the last kernel of {entry.op}", fix="add another one first")
            self._entries[entry.op] = left
            self._swapped.pop(name, None)
            self._added.discard(name)
            del self._names[name]
            self._programs = {k: p for k, p in self._programs.items() if name not in p.kernels}
            self._changed()

    def set_selection(self, op: str, program: SelectionProgram | str | None, *, signature: int | None = None) -> None:
        """Choose kernels of an op (or of one signature) by `program` from the next call on; None brings back the default.

        `program` may be text. Raises SelectionError when it does not verify, PoolError when it names
        a kernel that the op does not have.
        """
        with self._lock:
            self.kernels(op)
            if program is None:
                self._programs.pop((op, signature), None)
            else:
                if isinstance(program, str):
                    program = selection.assemble(program)
                selection.verify(program, rules.operand_count(registry.row(op)))
                for name in program.kernels:
                    if self.entry(name).op != op:
                        raise PoolError(
                            f"kernel {name!r} is not a kernel of {op}", fix=f"known: {', '.join(e.name for e in self._entries[op])}"
                        )
                self._programs[op, signature] = program
            self._changed()

    def refresh(self) -> None:
        """Forget generated kernels and slots; they are made again at first use (after a knob changed)."""
        with self._lock:
            for op, entries in list(self._entries.items()):
                kept = tuple(e for e in entries if e.origin != "template" or e.name in self._swapped)
                for e in entries:
                    if e not in kept:
                        del self._names[e.name]
                self._entries[op] = kept
            self._changed()

    def choose_again(self) -> None:
        """Let every call site choose its kernel again at its next call; what it finds has not changed."""
        with self._lock:
            self.version += 1

    # --- inside ----------------------------------------------------------------------------

    def _changed(self) -> None:
        self.exchanged = frozenset((*(self._names[name] for name in (*self._swapped, *self._added)), *(op for op, _ in self._programs)))
        config.exchanged(bool(self.exchanged))
        self.table = {}
        self.version += 1  # after the table: whoever sees the new version finds the new slots

    def _replace(self, entry: KernelEntry) -> None:
        self._entries[entry.op] = tuple(entry if e.name == entry.name else e for e in self._entries[entry.op])
        self._changed()

    def _fill(self, op: str) -> tuple[KernelEntry, ...]:
        with self._lock:
            if op not in self._entries:
                entries = rules.standing(registry.row(op))
                self._names.update((e.name, op) for e in entries)
                self._entries[op] = entries
            return self._entries[op]

    def _find(self, name: str) -> str | None:
        """The op of a kernel that exists but was not asked for yet."""
        op = name.partition(".")[0]
        if op in {row.name for row in registry.rows()}:
            with self._lock:
                self._fill(op)
                rules.prepare(name, self._adopt)
        return self._names.get(name)

    def _adopt(self, entry: KernelEntry) -> None:
        """Take in a generated kernel, before the standing ones; no slot can hold it yet, so nothing is invalidated."""
        if entry.name not in self._names:
            self._names[entry.name] = entry.op
            self._entries[entry.op] = (entry, *self._entries[entry.op])

    def _make_slot(self, signature_id: int) -> Slot:
        signature = signatures.table.row(signature_id)
        with self._lock:
            found = self.table.get(signature_id)
            if found is not None:
                return found
            known = self.kernels(signature.op)
            for generated in rules.generated(registry.row(signature.op), signature):
                self._adopt(generated)
            known = self._entries[signature.op]
            program = self._program_for(signature_id, signature, known)
            by_name = {e.name: e for e in known}
            kernels = tuple(by_name[name] for name in program.kernels)
            counters = tuple(self.counter(signature_id, e.name) for e in kernels)
            slot = Slot(signature_id, kernels, program, selection.compile_program(program), counters)
            self.table[signature_id] = slot
            return slot

    def _program_for(self, signature_id: int, signature: Signature, known: Iterable[KernelEntry]) -> SelectionProgram:
        accepting = [e for e in known if e.accepts is None or e.accepts(signature)]
        names = {e.name for e in accepting}
        for key in ((signature.op, signature_id), (signature.op, None)):
            program = self._programs.get(key)
            if program is not None and names.issuperset(program.kernels):
                return program
        return rules.default_program(registry.row(signature.op), signature, accepting)


pool = KernelPool()


def describe() -> list[dict[str, Any]]:
    """The pool as data, for listings: op, kernel, origin, signature (text), calls, doc, swapped.

    Kernels that are generated at first use and have not been yet stand as one row `<op>.template.*`.
    """
    out = [
        {"op": name, "kernel": f"{name}.template.*", "origin": "template", "signature_id": 0, "signature": "", "calls": 0}
        | {"doc": "generated for an element type at its first use", "swapped": False}
        for name in (row.name for row in registry.rows() if rules.makes_templates(row))
        if not any(e.origin == "template" for e in pool.kernels(name))
    ]
    for r in pool.rows():
        text = str(signatures.table.row(r.signature)) if r.signature else ""
        out.append(
            {"op": r.op, "kernel": r.kernel, "origin": r.origin, "signature_id": r.signature, "signature": text, "calls": r.calls}
            | {"doc": r.doc, "swapped": r.swapped}
        )
    order = {row.name: i for i, row in enumerate(registry.rows())}
    return sorted(out, key=lambda row: order[str(row["op"])])


def table_text(rows: Iterable[dict[str, Any]] | None = None) -> str:
    """`describe()` as a text table."""
    lines = [("op", "kernel", "origin", "calls", "signature")]
    for r in describe() if rows is None else rows:
        mark = "*" if r["swapped"] else ""
        signature = f"0x{r['signature_id']:04X} {r['signature']}" if r["signature_id"] else ""
        lines.append((r["op"], r["kernel"] + mark, r["origin"], str(r["calls"]), signature))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    return "\n".join("  ".join([*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[4]]).rstrip() for line in lines)
