"""Undoes one thing CPython does to code: a jump to a short end of the function is replaced by a copy of that end.

The copies stand at the same place of the source, so they can be told from code that is written twice.
"""

from __future__ import annotations

from .recover_code import Ins, one_line_of

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS")


def with_shared_exits(ins: list[Ins]) -> list[Ins]:
    """The instructions with copied ends as jumps to the last copy; jump targets are kept right."""
    objects = [ins[i.target] if 0 <= i.target < len(ins) else None for i in ins]
    goal = {id(i): to for i, to in zip(ins, objects, strict=True) if to is not None}
    out = _with_ends_after_loops(list(ins))
    targets = {id(to) for to in goal.values()}
    gone: set[int] = set()
    last = len(out)
    for end in range(last):  # in this order an end that is copied in part is found by its longest part
        if out[end].op in _ENDS:
            length, original = _longest(out, end, last, targets)
            if length:
                to = out[original - length + 1]
                targets.add(id(to))
                gone |= _jump(out, end - length + 1, end, to, goal)
    kept = [i for n, i in enumerate(out) if n not in gone]
    index = {id(i): n for n, i in enumerate(kept)}
    for i in kept:
        if id(i) in goal:
            i.target = index[id(goal[id(i)])]
        elif i.target >= 0:
            i.target = len(kept)
    return kept


def _same(a: Ins, b: Ins) -> bool:
    return a.pos is not None and (a.op, a.arg, a.pos) == (b.op, b.arg, b.pos) and a.target < 0


def _longest(ins: list[Ins], end: int, last: int, targets: set[int]) -> tuple[int, int]:
    """(length, where it ends) of the longest common ending of the code at `end` and a later one."""
    best, original = 0, -1
    for other in range(last - 1, end, -1):
        length = 0
        while end - length >= 0 and other - length > end and _same(ins[end - length], ins[other - length]):
            length += 1
            if id(ins[end - length + 1]) in targets:
                break
        if length > best:
            best, original = length, other
    return best, original


def _jump(ins: list[Ins], start: int, end: int, to: Ins, goal: dict[int, Ins]) -> set[int]:
    """Make `start` to `end` one jump to `to`; returns the indices that are gone."""
    first = start
    before = ins[start - 1] if start else None
    if before is not None and before.op == "NOP":
        first = start - 1  # what is left of the jump: the line of a `break`
    elif before is not None:
        ins[first].pos = before.pos
    ins[first].op, ins[first].arg, ins[first].target = "JUMP", 0, 0
    goal[id(ins[first])] = to
    return set(range(first + 1, end + 1))


def _with_ends_after_loops(ins: list[Ins]) -> list[Ins]:
    """`while True` that is left by `break` alone: what follows it stands only in the loop, after each `break`."""
    out = list(ins)
    for n in range(len(ins) - 1, -1, -1):
        i = ins[n]
        if i.op != "JUMP" or not 0 <= i.target <= n:
            continue
        ends = [k for k in range(i.target, n) if ins[k].op == "NOP" and one_line_of(ins[k].pos, "break")]
        if ends and any(not _stands_later(ins, _end(ins, k), n) for k in ends):
            k = ends[-1]
            copy = [Ins(c.op, c.arg, c.value, c.offset, c.pos) for c in ins[k + 1 : _end(ins, k) + 1]]
            out[n + 1 : n + 1] = copy
    return out


def _end(ins: list[Ins], k: int) -> int:
    while k < len(ins) - 1 and ins[k].op not in _ENDS:
        k += 1
    return k


def _stands_later(ins: list[Ins], end: int, n: int) -> bool:
    return any(_same(ins[end], other) for other in ins[n + 1 :])
