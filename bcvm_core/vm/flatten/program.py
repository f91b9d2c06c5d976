"""A flattened call: its Program, its machine of steps, and what it holds for granted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ... import config
from ...errors import Decline
from ...frontend.lowering import op_name
from ...fusion import chains, convolutions, epilogues, linears
from ...fusion.epilogues import Epilogue
from ...fusion.segments import Segment, find
from ...isa.program import Arg, Instruction, Program, read_by, written_by
from ...ops import pending
from ...tiers.fuse import FusedSite
from ...tiers.select import CallSite
from ..trust import check
from .objects import Group, Joined
from .plain import differs
from .ranks import certain
from .reads import Reads
from .recorder import REREAD, Origin, Recorder

Step = Callable[[CallSite], Callable[..., Any]]
_Part = Segment | Epilogue
Fuse = Callable[[Any], tuple[FusedSite, Callable[..., Any]]]  # of a `_Part`
Join = Callable[[Group, Sequence[Any]], Joined | None]  # of a group, and what runs its ops one by one


class DivergedError(Decline):
    """A CHECK failed: this run takes another path."""


class FlatProgram:
    """One path through a call, as a straight line of instructions.

    `run(operands)` gives the result, or raises: DivergedError when a CHECK fails, Decline when Python must do it,
    or an op's own error. Nothing is committed before the end, so that Python can repeat the call.
    """

    def __init__(self, name: str, recorder: Recorder, result: Any, fuse: Fuse, chain: Fuse, step: Step, join: Join) -> None:
        """`fuse` makes what runs a segment of elementwise ops as one kernel, and what calls that for the tensors of the library; `chain`
        does so for elementwise ops with reductions among them; `step` makes what is called in place of a site; `join` makes what runs
        a convolution or product with the ops after it, or gives None where they must run one by one."""
        self.reads: Reads = recorder.reads
        self.origins: tuple[Origin, ...] = ()
        self.runs = 0
        register = recorder.result(result, {})
        self.captures = dict(recorder.captures)
        self.containers = {id(v): v for v in self.captures.values() if type(v) in (tuple, list, dict)}  # come out as themselves
        if register.is_const:
            dest = recorder.register()
            recorder.emit("LOAD_CONST", dest, register.index)
            register = Arg(False, dest)
        recorder.emit("RETURN", register.index)
        code, order = _loads_first([_signed(i, recorder.sites.get(pc)) for pc, i in enumerate(recorder.instructions)])
        self.origins = tuple(recorder.origins[pc] for pc in order)
        self.program = Program(
            name,
            (*recorder.inputs, *self.captures),
            code,
            kind="region",
            consts=tuple(recorder.consts),
            local_names=(*recorder.inputs, *self.captures),
            filename=next((o.filename for o in self.origins if o.filename != "<bcvm>"), "<bcvm>"),
            first_line=next((i.loc.line for i in code if i.loc is not None), 1),
            notes={"vm.origins": self.origins},
        )
        self.ops: tuple[str, ...] = tuple(name for i in code if (name := op_name(i)))
        moved = {old: new for new, old in enumerate(order)}
        writer = _StepWriter(
            self.program,
            {moved[pc]: step(site) for pc, site in recorder.sites.items()},
            {moved[pc]: function for pc, function in recorder.direct.items()},
            self.captures,
            fuse,
            chain,
            join,
        )
        self.run: Callable[[Sequence[Any]], Any] = writer.function(name)
        self.fused: tuple[FusedSite, ...] = tuple(writer.fused)  # the segments that run as one kernel each, for whoever looks


def _signed(instruction: Instruction, site: CallSite | None) -> Instruction:
    """A CALL_OP with the signature of the kernel that it ran by while recording."""
    if site is None or instruction.opcode != "CALL_OP":
        return instruction
    dest, op, _, args = instruction.operands
    return Instruction("CALL_OP", (dest, op, site.signature, args), instruction.loc)


def _loads_first(instructions: Sequence[Instruction]) -> tuple[tuple[Instruction, ...], list[int]]:
    """The instructions with all loads of variables in front, and where each came from."""
    loads = [pc for pc, i in enumerate(instructions) if i.opcode in ("LOAD_VAR", "LOAD_TENSOR")]
    rest = [pc for pc, i in enumerate(instructions) if i.opcode not in ("LOAD_VAR", "LOAD_TENSOR")]
    order = loads + rest
    return tuple(instructions[pc] for pc in order), order


def followed(program: Program) -> frozenset[int]:
    """The convolutions (pc) whose results only one op reads, one that can be computed with them; asking for a shape reads nothing."""
    readers: dict[int, list[int]] = {}
    for pc, instruction in enumerate(program.instructions):
        for register in read_by(instruction):
            readers.setdefault(register, []).append(pc)
    found = set()
    for pc, instruction in enumerate(program.instructions):
        if op_name(instruction) != "conv2d":
            continue
        register = instruction.operands[0]
        reading = [program.instructions[p] for p in readers.get(register, ()) if op_name(program.instructions[p]) not in REREAD]
        if len(reading) == 1 and op_name(reading[0]) in pending.CLAIMING:
            args = reading[0].operands[3]
            if not args[0].is_const and [a.index for a in args if not a.is_const].count(register) == 1 and args[0].index == register:
                found.add(pc)
    return frozenset(found)


_WITH_MORE: Final = frozenset({"layer_norm_parts", "batch_norm_parts"})  # their attribute `rest` says whether more than the first is wanted


def first_alone(program: Program) -> frozenset[int]:
    """The ops (pc) with several results of which only the first is read."""
    made = {i.operands[0]: pc for pc, i in enumerate(program.instructions) if op_name(i) in _WITH_MORE}
    read = [r for i in program.instructions for r in read_by(i)]
    more = set()
    for instruction in program.instructions:
        for register in set(read_by(instruction)) & made.keys():
            if instruction.opcode == "UNPACK":
                alone = not set(instruction.operands[0][1:]).intersection(read)
            else:
                args: Sequence[Arg] = instruction.operands[3] if op_name(instruction) == "getitem" else ()
                alone = len(args) == 2 and args[1].is_const and program.consts[args[1].index] == 0
            if not alone:
                more.add(register)
    return frozenset(pc for register, pc in made.items() if register not in more)


class _StepWriter:
    """Writes a flat program as one Python function of its operands."""

    def __init__(
        self,
        program: Program,
        sites: dict[int, Any],
        direct: dict[int, Any],
        captures: dict[str, Any],
        fuse: Fuse,
        chain: Fuse,
        join: Join,
    ) -> None:
        self.program = program
        self.sites = sites
        self.direct = direct
        self.captures = captures
        self.fuse, self.chain, self.join = fuse, chain, join
        self.fused: list[FusedSite] = []
        self.space: dict[str, Any] = {"Diverged": DivergedError, "check": check, "differs": differs, "__name__": f"{__package__}.steps"}
        self.last_use = self._last_uses()
        self.waiting = followed(program)
        self.alone = first_alone(program)
        self.certain = certain(program, direct)
        self.kept = {register for pc in self.certain for register in written_by(program.instructions[pc])}  # never made, so never let go
        self.groups: dict[int, Group] = {}  # by pc, of each of their ops
        self.early: list[str] = []  # lines that run first

    def _last_uses(self) -> dict[int, list[int]]:
        """pc -> registers that nobody reads after it: their tensors are let go there."""
        last: dict[int, int] = {}
        for pc, instruction in enumerate(self.program.instructions):
            for register in (*read_by(instruction), *written_by(instruction)):
                last[register] = pc
        found: dict[int, list[int]] = {}
        for register, pc in last.items():
            found.setdefault(pc, []).append(register)
        return found

    def function(self, name: str) -> Callable[[Sequence[Any]], Any]:
        """The compiled function."""
        lines: list[str] = []
        parameters: list[str] = []
        parts = self._parts()
        open_: list[tuple[_Part, bool, list[str], int]] = []  # what is under way: do its operands stay to its end? the lines before it
        for pc, instruction in enumerate(self.program.instructions):
            if instruction.opcode in ("LOAD_VAR", "LOAD_TENSOR"):
                self._load(instruction, parameters, lines)
                continue
            if pc in self.certain:
                lines += [] if open_ and open_[-1][1] else self._let_go((pc,), instruction)
                continue
            if pc in self.groups and pc == self.groups[pc].pcs[0]:
                lines += self._begin_group(self.groups[pc])
            for found, make, stay in parts:
                if pc in found:
                    before = len(lines)
                    lines += self._begin(found[pc], make)
                    open_.append((found[pc], stay, lines, before))
                    lines = []
            one = [self._line(pc, instruction)]
            if pc in self.waiting:  # what follows it is computed with it
                self.space["ask"] = pending.ask
                one.insert(0, "ask()")
            lines += one if open_ and open_[-1][0].pcs[0] in self.groups else self._unless_done(pc, one)
            if not (open_ and open_[-1][1]):
                lines += self._let_go((pc,), instruction)
            while open_ and pc == open_[-1][0].pcs[-1]:
                part, _, outer, before = open_.pop()
                whole = [*outer[before:], *(f"    {line}" for line in lines)]
                lines = [*outer[:before], *self._unless_done(pc, whole), *self._let_go(part.pcs, instruction)]
        unpack = f"{', '.join(parameters)}{',' if parameters else ''} = operands" if parameters else "pass"
        source = "def steps(operands):\n" + "".join(f"    {line}\n" for line in [unpack, *self.early, *lines])
        exec(compile(source, f"<bcvm flat {name}>", "exec"), self.space)
        return self.space.pop("steps")  # type: ignore[no-any-return]  # a cycle would keep parameters alive

    def _parts(self) -> list[tuple[Mapping[int, _Part], Fuse, bool]]:
        """Products with tails, chains (apart from those) and segments (within either), by the pc of their first op."""
        if not config.current.fuse:
            return []
        barred = frozenset(self.direct)
        segments = find(self.program, barred)
        found: list[Group] = [*convolutions.find(self.program, barred, self.alone, segments)]
        found += linears.find(self.program, barred, frozenset(self.kept | self._captured()), segments)
        for group in found:
            self._join(group)
        joined = [self.space[f"j{group.pcs[0]}"] for group in found if self.groups.get(group.pcs[0]) is group]
        pools = convolutions.pools(self.program) if joined else []
        for k, call in enumerate(joined):
            call.lead(joined[k + 1 :], pools)
        products = [e for e in self._epilogues(segments) if self.groups.keys().isdisjoint(e.pcs)]
        mixed = chains.around(self.program, barred.union(self.groups, *(e.pcs for e in products)), segments)
        return [
            ({e.pcs[0]: e for e in products}, self.fuse, True),
            ({s.first: s for s in mixed}, self.chain, False),
            ({s.first: s for s in segments}, self.fuse, True),
        ]

    def _epilogues(self, segments: Sequence[Segment]) -> list[Epilogue]:
        """Products whose tails follow at once."""
        found = epilogues.find(self.program, frozenset(self.direct))
        return [e for e in found if epilogues.encloses(e, segments) and e.pcs == tuple(range(e.pcs[0], e.pcs[-1] + 1))]

    def _begin(self, part: _Part, make: Fuse) -> list[str]:
        """What follows up to the part's end runs only when its kernel does not."""
        name = f"{'e' if isinstance(part, Epilogue) else 'h' if make is self.chain else 'g'}{part.pcs[0]}"
        site, self.space[name] = make(part)
        self.fused.append(site)
        results = ", ".join(f"r{r}" for r in part.outputs)
        call = f"fused = {name}({', '.join(f'r{r}' for r in part.inputs)})"
        return [call, "if fused is not None:", f"    {results} = fused", "else:"]

    def _captured(self) -> set[int]:
        """The registers of what the program holds: parameters, and other values that are always the same."""
        loads = [i for i in self.program.instructions if i.opcode in ("LOAD_VAR", "LOAD_TENSOR")]
        return {i.operands[0] for i in loads if i.operands[1] in self.captures}

    def _join(self, group: Group) -> None:
        call = self.join(group, [self.sites.get(pc) for pc in group.pcs])
        if call is not None:
            self.space[f"j{group.pcs[0]}"] = call
            self.groups.update(dict.fromkeys(group.pcs, group))

    def _begin_group(self, group: Group) -> list[str]:
        """The whole group at once. Where that is done its ops are passed over; what lies between has the shape of its result."""
        first, result = group.pcs[0], f"r{group.result}"
        operands = [f"r{r}" for r in group.operands]
        before, more, after = self._ahead(group, operands) if isinstance(group, linears.Linear) else ([], [], [])
        lines = [
            *before,
            f"{result} = j{first}({', '.join([self._prepared(group), *operands, *more])})",
            *after,
            f"done{first} = {result} is not None",
        ]
        if group.between:
            lines.append(f"if done{first}: {' = '.join(f'r{r}' for r in group.between)} = {result}")
        return lines

    def _prepared(self, group: Group) -> str:
        """What a group's `prepare` gives: at the beginning where that can be, or now."""
        first = group.pcs[0]
        prepared = f"j{first}.prepare({', '.join(f'r{r}' for r in group.constants)})"
        if not self.kept.issuperset(group.constants):
            return prepared
        line = f"p{first} = {prepared}"
        if line not in self.early:
            self.early.append(line)
        return f"p{first}"

    def _ahead(self, group: linears.Linear, operands: list[str]) -> tuple[list[str], list[str], list[str]]:
        """Of a linear that is computed with others: lines before its call, what it is called with besides, and lines after it."""
        leading = self.groups.get(group.leader[0]) if group.leader is not None else None
        if group.leader is None or not isinstance(leading, linears.Linear):
            return [], [], []
        leader, place = group.leader
        name, before = f"a{leader}", []
        if group.beside:
            all_there = all(other.pcs[0] in self.groups for other in group.beside)
            ready = [self._prepared(linear) for linear in (group, *group.beside)]
            before.append(f"{name} = j{leader}.ahead({', '.join([*operands, *ready])})" if all_there else f"{name} = None")
        return before, [name, str(place)], [f"{name} = None"] if place == len(leading.beside) else []

    def _unless_done(self, pc: int, lines: list[str]) -> list[str]:
        """Lines of an op, or a part that ends with it, that run only when the op's group did not."""
        group = self.groups.get(pc)
        if group is None:
            return lines
        lines = [f"if not done{group.pcs[0]}:", *(f"    {line}" for line in lines)]
        forwarded = group.forwarded if isinstance(group, linears.Linear) and pc == group.pcs[-1] else None
        return lines if forwarded is None else [*lines, f"else: r{forwarded[0]} = r{forwarded[1]}"]

    def _let_go(self, pcs: Sequence[int], last: Instruction) -> list[str]:
        gone = [f"r{r}" for pc in pcs for r in self.last_use.get(pc, ()) if r not in self.kept]
        return [f"{' = '.join(gone)} = None"] if gone and last.opcode != "RETURN" else []

    def _load(self, instruction: Instruction, parameters: list[str], lines: list[str]) -> None:
        register, name = instruction.operands[0], instruction.operands[1]
        if name in self.captures:
            self.space[f"r{register}"] = self.captures[name]
            self.kept.add(register)
            return
        parameters.append(f"r{register}")
        lines.append(f"check(r{register})")

    def _const(self, index: int) -> str:
        self.space[f"k{index}"] = self.program.consts[index]
        return f"k{index}"

    def _arg(self, arg: Arg) -> str:
        text = self._const(arg.index) if arg.is_const else f"r{arg.index}"
        return text if arg.name is None else f"{arg.name}={text}"

    def _args(self, args: Sequence[Arg]) -> str:
        return ", ".join(map(self._arg, args))

    def _callee(self, pc: int) -> str:
        function = self.direct.get(pc)
        if function is not None:
            self.space[f"f{pc}"] = function
            return f"f{pc}"
        self.space[f"s{pc}"] = self.sites[pc]
        return f"s{pc}"

    def _line(self, pc: int, instruction: Instruction) -> str:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "CALL_OP":
            rest = ", rest=False" if pc in self.alone else ""
            return f"r{operands[0]} = {self._callee(pc)}({self._args(operands[3])}{rest})"
        if instruction.row.const_op is not None:
            self.space[f"c{pc}"] = operands[2]
            pair = f"c{pc}, r{operands[1]}" if instruction.row.reversed else f"r{operands[1]}, c{pc}"
            return f"r{operands[0]} = {self._callee(pc)}({pair})"
        if opcode == "CHECK":
            return f"if {self._differs(f'r{operands[0]}', operands[1][0])}: raise Diverged"
        if opcode == "UNPACK":
            return f"{', '.join(f'r{r}' for r in operands[0])}, = r{operands[1]}" if operands[0] else f"() = r{operands[1]}"
        if opcode in ("BUILD_TUPLE", "BUILD_LIST"):
            items = self._args(operands[1])
            return f"r{operands[0]} = ({items}{',' if operands[1] else ''})" if opcode == "BUILD_TUPLE" else f"r{operands[0]} = [{items}]"
        if opcode == "BUILD_DICT":
            texts = [self._arg(a) for a in operands[1]]
            return f"r{operands[0]} = {{{', '.join(f'{k}: {v}' for k, v in zip(texts[::2], texts[1::2], strict=True))}}}"
        if opcode == "LOAD_CONST":
            return f"r{operands[0]} = {self._const(operands[1])}"
        assert opcode == "RETURN", opcode
        return f"return r{operands[0]}"

    def _differs(self, found: str, expected: Arg) -> str:
        """The test of a CHECK; as `plain.differs`, shorter where the type allows it."""
        if not expected.is_const:
            return f"differs({found}, r{expected.index})"
        value = self.program.consts[expected.index]
        if value is None or type(value) is bool:
            return f"{found} is not {value}"
        constant = self._const(expected.index)
        if type(value) in (int, str):
            return f"type({found}) is not {type(value).__name__} or {found} != {constant}"
        return f"differs({found}, {constant})"
