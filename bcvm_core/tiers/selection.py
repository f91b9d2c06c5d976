"""Selection programs: which kernel of a list runs a call, decided by a few facts about its operands.

In the manner of BPF: one accumulator A, loads of facts, compare-and-jump that only goes forward,
return of a kernel's index. The verifier admits only programs that are short, reach a return on
every path, load before they compare, and name facts and kernels that exist; so each takes constant
time and has no side effects. Text form, one instruction a line:

        ld  size[0]
        jlt 1024, small        ; A < 1024: go to small
        ret exp.template.float32
    small:
        ret exp.numpy
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SelectionError, Where
from .facts import BY_NAME, MAX_AXIS

MAX_STEPS = 64
MAX_OPERANDS = 64
_LIMIT = 1 << 63

TESTS: dict[str, tuple[str, str, Callable[[int, int], bool]]] = {
    "jeq": ("==", "equal to", lambda a, v: a == v),
    "jne": ("!=", "not equal to", lambda a, v: a != v),
    "jlt": ("<", "below", lambda a, v: a < v),
    "jle": ("<=", "at most", lambda a, v: a <= v),
    "jgt": (">", "above", lambda a, v: a > v),
    "jge": (">=", "at least", lambda a, v: a >= v),
    "jset": ("&", "sharing a bit with", lambda a, v: bool(a & v)),
}


@dataclass(frozen=True, slots=True)
class Load:
    """A := fact."""

    fact: str
    operand: int = 0
    axis: int = 0

    def __str__(self) -> str:
        indices = BY_NAME[self.fact].indices if self.fact in BY_NAME else 0
        return self.fact + ("", f"[{self.operand}]", f"[{self.operand}, {self.axis}]")[indices]


@dataclass(frozen=True, slots=True)
class Jump:
    """Go to step `target` when the test of A against `value` holds; `test` None jumps always."""

    test: str | None
    value: int
    target: int


@dataclass(frozen=True, slots=True)
class Return:
    """The call runs kernel number `kernel` of the program's list."""

    kernel: int


Step = Load | Jump | Return


@dataclass(frozen=True, slots=True)
class SelectionProgram:
    """Steps, and the names of the kernels that their returns index."""

    steps: tuple[Step, ...]
    kernels: tuple[str, ...]

    @property
    def constant(self) -> int | None:
        """The kernel it always returns, when it looks at nothing."""
        first = self.steps[0] if self.steps else None
        return first.kernel if isinstance(first, Return) else None


def always(*kernels: str) -> SelectionProgram:
    """The program that returns the first of `kernels`."""
    return SelectionProgram((Return(0),), kernels)


# --- verifier ----------------------------------------------------------------------------------


def _refuse(pc: int, what: str, fix: str) -> SelectionError:
    return SelectionError(what, where=Where(pc=pc), fix=fix)


def _integer(value: object) -> bool:
    return type(value) is int and -_LIMIT <= value < _LIMIT


def _check_load(pc: int, step: Load, operands: int | None) -> None:
    fact = BY_NAME.get(step.fact)
    if fact is None:
        raise _refuse(pc, f"there is no fact {step.fact!r}", f"known facts: {', '.join(BY_NAME)}")
    if (fact.indices < 1 and step.operand != 0) or (fact.indices < 2 and step.axis != 0):
        raise _refuse(pc, f"fact {step.fact!r} takes {fact.indices} subscripts", "leave the others 0")
    limit = MAX_OPERANDS if operands is None else operands
    if fact.indices >= 1 and not (_integer(step.operand) and 0 <= step.operand < limit):
        raise _refuse(pc, f"operand {step.operand} does not exist", f"operands are numbered 0 to {limit - 1}")
    if fact.indices == 2 and not (_integer(step.axis) and -MAX_AXIS <= step.axis < MAX_AXIS):
        raise _refuse(pc, f"axis {step.axis} cannot exist", f"axes go from {-MAX_AXIS} to {MAX_AXIS - 1}")


def _check_jump(pc: int, step: Jump, length: int) -> None:
    if step.test is not None and step.test not in TESTS:
        raise _refuse(pc, f"there is no test {step.test!r}", f"known tests: {', '.join(TESTS)}, ja")
    if step.test is None and step.value != 0:
        raise _refuse(pc, "a jump without a test has nothing to compare with", "leave its value 0")
    if not _integer(step.value):
        raise _refuse(pc, f"{step.value!r} is no 64-bit integer", "compare with an integer")
    if not _integer(step.target) or not pc < step.target:
        raise _refuse(pc, "the jump does not go forward", "programs have no loops: jump to a later step")
    if step.target >= length:
        raise _refuse(pc, f"the jump goes to step {step.target} of {length}", "jump to a step of the program")


def verify(program: SelectionProgram, operands: int | None = None) -> None:
    """Admit a program or raise SelectionError with the number of the step and a way out.

    `operands`: how many operands the op has; None when that is not known.
    """
    steps = program.steps
    if not steps:
        raise _refuse(0, "the program is empty", "end every path with ret")
    if len(steps) > MAX_STEPS:
        raise _refuse(MAX_STEPS, f"the program has {len(steps)} steps", f"at most {MAX_STEPS} are allowed")
    reached: list[bool | None] = [None] * (len(steps) + 1)  # None: not reached; else whether A is loaded on every path
    reached[0] = False
    for pc, step in enumerate(steps):
        loaded = reached[pc]
        if loaded is None:
            raise _refuse(pc, "the step cannot be reached", "remove it")
        targets = _check_step(pc, step, program, loaded, operands)
        for target, value in targets:
            before = reached[target]
            reached[target] = value if before is None else before and value
    if reached[len(steps)] is not None:
        raise _refuse(len(steps) - 1, "the program runs past its end", "end every path with ret")


def _check_step(pc: int, step: Step, program: SelectionProgram, loaded: bool, operands: int | None) -> list[tuple[int, bool]]:
    """Check one step; where control may go from it, and whether A is loaded there."""
    if isinstance(step, Load):
        _check_load(pc, step, operands)
        return [(pc + 1, True)]
    if isinstance(step, Jump):
        _check_jump(pc, step, len(program.steps))
        if step.test is None:
            return [(step.target, loaded)]
        if not loaded:
            raise _refuse(pc, "the comparison has nothing to compare", "load a fact on every path before it")
        return [(pc + 1, True), (step.target, True)]
    if isinstance(step, Return):
        if not (_integer(step.kernel) and 0 <= step.kernel < len(program.kernels)):
            raise _refuse(pc, f"kernel {step.kernel} does not exist", f"the program lists {len(program.kernels)} kernels")
        return []
    raise _refuse(pc, f"{step!r} is no step", "use Load, Jump and Return")


# --- text form ---------------------------------------------------------------------------------

_LOAD = re.compile(r"^(\w+)(?:\s*\[\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\])?$")
_LABEL = re.compile(r"^([A-Za-z_]\w*):$")


def _lines(text: str) -> tuple[list[tuple[int, str, str]], dict[str, int]]:
    """(line number, mnemonic, rest) of each instruction, and the labels."""
    lines: list[tuple[int, str, str]] = []
    labels: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition(";")[0].strip()
        label = _LABEL.match(line)
        if label:
            if label[1] in labels:
                raise SelectionError(f"label {label[1]} is defined twice", where=Where(line=number), fix="give each label once")
            labels[label[1]] = len(lines)
        elif line:
            name, _, rest = line.partition(" ")
            lines.append((number, name, rest.strip()))
    return lines, labels


def _target(labels: Mapping[str, int], name: str, line: int) -> int:
    if name not in labels:
        raise SelectionError(f"there is no label {name!r}", where=Where(line=line), fix="define it as `name:` on a line of its own")
    return labels[name]


def assemble(text: str, kernels: Sequence[str] = ()) -> SelectionProgram:
    """Read the text form and verify it. Kernels that `ret` names are numbered in order of first use after `kernels`."""
    lines, labels = _lines(text)
    names = list(kernels)
    steps: list[Step] = []
    for number, name, rest in lines:
        steps.append(_read_step(number, name, rest, labels, names))
    program = SelectionProgram(tuple(steps), tuple(names))
    verify(program)
    return program


def _read_step(line: int, name: str, rest: str, labels: Mapping[str, int], names: list[str]) -> Step:
    where = Where(line=line)
    if name == "ld":
        found = _LOAD.match(rest)
        if found is None:
            raise SelectionError(f"cannot read the fact {rest!r}", where=where, fix="write it as `size[0]`, `dim[0, -1]` or `m`")
        fact = BY_NAME.get(found[1])
        given = sum(part is not None for part in found.groups()[1:])
        if fact is not None and fact.indices != given:
            raise SelectionError(f"fact {found[1]} takes {fact.indices} subscripts, not {given}", where=where, fix=fact.doc)
        return Load(found[1], int(found[2] or 0), int(found[3] or 0))
    if name == "ja":
        return Jump(None, 0, _target(labels, rest, line))
    if name in TESTS:
        value, comma, label = rest.partition(",")
        if not comma or not re.fullmatch(r"-?\d+", value.strip()):
            raise SelectionError(f"cannot read {rest!r}", where=where, fix=f"write `{name} 1024, label`")
        return Jump(name, int(value), _target(labels, label.strip(), line))
    if name == "ret":
        if re.fullmatch(r"\d+", rest):
            return Return(int(rest))
        if not rest:
            raise SelectionError("ret needs a kernel", where=where, fix="name the kernel or give its number")
        if rest not in names:
            names.append(rest)
        return Return(names.index(rest))
    raise SelectionError(f"there is no instruction {name!r}", where=where, fix=f"known: ld, {', '.join(TESTS)}, ja, ret")


def listing(program: SelectionProgram) -> str:
    """The text form; `assemble(listing(p), p.kernels) == p`."""
    targets = sorted({step.target for step in program.steps if isinstance(step, Jump)})
    labels = {target: f"L{i}" for i, target in enumerate(targets, 1)}
    out = []
    for pc, step in enumerate(program.steps):
        if pc in labels:
            out.append(f"{labels[pc]}:")
        if isinstance(step, Load):
            out.append(f"    ld   {step}")
        elif isinstance(step, Jump):
            out.append(
                f"    ja   {labels[step.target]}" if step.test is None else f"    {step.test:<4} {step.value}, {labels[step.target]}"
            )
        else:
            out.append(f"    ret  {program.kernels[step.kernel]}")
    return "\n".join(out) + "\n"


# --- running -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision: the kernel's index and name, the steps taken, and the path in words."""

    index: int
    kernel: str
    steps: int
    text: str


def fact_reader(operands: Sequence[Any]) -> Callable[[Load], int]:
    """Facts about run-time operands, for `explain`."""
    return lambda load: BY_NAME[load.fact].read(operands, load.operand, load.axis)


def explain(program: SelectionProgram, facts: Mapping[str, int] | Callable[[Load], int]) -> Explanation:
    """Run a verified program step by step and tell the path it takes.

    `facts` maps the text of a load ("size[0]", "m") to its value, or is a function of the load.
    """
    read = facts if callable(facts) else (lambda load: facts[str(load)])
    pc = taken = accumulator = 0
    name = ""
    words: list[str] = []
    while True:
        step = program.steps[pc]
        taken += 1
        pc += 1
        if isinstance(step, Load):
            name, accumulator = str(step), read(step)
        elif isinstance(step, Return):
            kernel = program.kernels[step.kernel]
            path = "; ".join(words)
            return Explanation(step.kernel, kernel, taken, f"{path}: {kernel}" if path else f"always {kernel}")
        elif step.test is None:
            pc = step.target
        else:
            _, phrase, holds = TESTS[step.test]
            verdict = holds(accumulator, step.value)
            words.append(f"{name} = {accumulator} is {'' if verdict else 'not '}{phrase} {step.value}")
            pc = step.target if verdict else pc


def compile_program(program: SelectionProgram) -> Callable[[Sequence[Any]], int]:
    """A function of the operands that returns the kernel's index; `program` must have passed `verify`.

    Blocks are laid out in order under guards (`if t <= n`), so code grows linearly with the program.
    """
    if program.constant is not None:
        index = program.constant
        return lambda operands: index
    starts = sorted({0} | {s.target for s in program.steps if isinstance(s, Jump)} | _after_jumps(program))
    numbers = {pc: i for i, pc in enumerate(starts)}
    readers: dict[str, Callable[..., int]] = {}
    lines = ["def select(o):", "    t = 0", "    a = 0"]
    for pc, step in enumerate(program.steps):
        if pc in numbers:
            lines.append(f"    if t <= {numbers[pc]}:")
        if isinstance(step, Load):
            readers[f"f{pc}"] = BY_NAME[step.fact].read
            lines.append(f"        a = f{pc}(o, {step.operand}, {step.axis})")
        elif isinstance(step, Return):
            lines.append(f"        return {step.kernel}")
        elif step.test is None:
            lines.append(f"        t = {numbers[step.target]}")
        else:
            lines.append(f"        if a {TESTS[step.test][0]} {step.value}: t = {numbers[step.target]}")
    namespace: dict[str, Any] = dict(readers)
    exec(compile("\n".join(lines), "<selection program>", "exec"), namespace)  # nothing but verified integers went into the text
    select: Callable[[Sequence[Any]], int] = namespace["select"]
    return select


def _after_jumps(program: SelectionProgram) -> set[int]:
    last = len(program.steps) - 1
    return {pc + 1 for pc, step in enumerate(program.steps) if isinstance(step, Jump) and pc < last}
