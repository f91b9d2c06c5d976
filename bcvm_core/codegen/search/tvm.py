"""Candidates by TVM: loops over blocks of vectors, made and scheduled by TVM, with our primitives in them.

TVM never sees what a primitive does: to it they are calls of vectors, which are replaced in what it hands over (LLVM's text) by the very
instructions of the stencils. So the bits are those of every other way, whatever TVM does with the loops. A search with its cost model is
left out: it took minutes for loops as plain as these and found nothing.

Needs the package `apache-tvm` (the extra `tvm`). Runs in the compile worker only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from .. import compiler
from ..stencils import target
from ..stencils.graph import NotFusable
from ..stencils.ir import ELEMENT, SIZE
from ..stencils.lower import Computed, Constant, Loaded, Lowered
from ..stencils.primitives import table
from .backend import Candidate, Job
from .loop import LoopWriter, WideEmitter, applied, obstacle

_TYPES: Final = {"float": "float32", "double": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
_WHOLE: Final = ("f32", "f64", "i32", "i64")  # kinds of memory whose elements are what is computed with, as they are
_SCHEDULES: Final = ((64, 4), (128, 2), (128, 4))  # bytes of a vector of the widest type, vectors per step of the loop
_PREFIX: Final = "bcvm."
_NOISE: Final = re.compile(r", !(dbg|tbaa|prof) !\d+|;.*$", re.M)
_CALL: Final = re.compile(r"^  (%\S+) = call <\d+ x \w+> @bcvm\.(\S+)\((.*)\)$")
_OPERAND: Final = re.compile(r"<\d+ x (\w+)> ([^,]+)")


class _Function(NamedTuple):
    """What TVM made: names of its arguments with their types, and the lines of its body."""

    arguments: list[tuple[str, str]]
    lines: list[str]


class TvmSearch:
    """Three fixed schedules."""

    name = "tvm"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        """The candidates. Raises NotFusable."""
        host = target.by_level(job.level)
        if host is None:
            raise NotFusable(f"no vectors for processors of the level {job.level}")
        reason = obstacle(job.lowered) or _unknown(job.lowered)
        if reason:
            raise NotFusable(reason)
        for size, unrolled in _SCHEDULES:
            lanes = size // job.lowered.width
            body = _Blocks(host, job, lanes, unrolled).made()
            yield Candidate(f"TVM, {unrolled} x {lanes} lanes", compiler.compile_ir(body))


def _unknown(lowered: Lowered) -> str:
    """Why TVM is not asked, "" where it is."""
    if len(lowered.stores) > 1:  # it would read operands again after the first output was written, which may be one of them
        return "TVM computes several outputs one after the other"
    kinds = {value.memory for value in lowered.values if type(value) is Loaded} | {memory for _, memory in lowered.stores}
    other = sorted(kinds - {*_WHOLE})
    return f"TVM is asked for 32 and 64 bits in memory only, not for {', '.join(other)}" if other else ""


def _modules() -> Any:
    try:
        import tvm
        from tvm import s_tir, te
    except ImportError as error:
        raise NotFusable(f"TVM is not there ({error}): pip install 'bcvm[tvm]'") from error
    return tvm, te, s_tir


class _Blocks(LoopWriter):
    """The function `start`: TVM's loop over whole blocks, ours over what is left."""

    def __init__(self, host: target.Target, job: Job, lanes: int, unrolled: int) -> None:
        super().__init__(host, job.lowered, job.repeated, job.inputs, lanes)
        self.unrolled, self.level = unrolled, job.level

    def made(self) -> str:
        """The module."""
        blocks = self.inlined(_function_of(self.scheduled(), self.level))
        step = self.lanes * self.unrolled
        self.entry()
        self.lines += [
            f"  %n = and i64 %count, {-self.lanes}",
            f"  %blocks = lshr i64 %count, {step.bit_length() - 1}",
            f"  %by_blocks = mul i64 %blocks, {step}",
            f"  call i32 @blocks({', '.join(f'{kind} {self.given(name)}' for name, kind in blocks.arguments)})",
        ]
        self.rest("%by_blocks", "entry")
        head = f"define internal i32 @blocks({', '.join(f'{kind} %{name}' for name, kind in blocks.arguments)}) nounwind {{"
        return "\n".join([*sorted(self.declared), head, *blocks.lines, "}", *self.lines]) + "\n"

    def given(self, name: str) -> str:
        """Our name of what TVM knows by a name of `scheduled`."""
        return f"%p{self.inputs}" if name == "out" else "%kon" if name.startswith("kon") else f"%{name}"

    # -- for TVM ----------------------------------------------------------------------------------

    def scheduled(self) -> Any:
        """The module of TVM: the output as vectors, its loop split and unrolled."""
        tvm, te, s_tir = _modules()
        n, prim = te.var("blocks", "int64"), tvm.tirx
        given: dict[str, Any] = {}

        def buffer(name: str, element: str, vectors: bool) -> Any:
            kind = _TYPES[element] + (f"x{self.lanes}" if vectors else "")
            shape = (n * self.unrolled,) if vectors else (max(1, 2 * len(self.lowered.constants)),)
            return given.setdefault(name, te.placeholder(shape, kind, name))

        output = te.compute((n * self.unrolled,), lambda i: self.value(prim, buffer, i), "out")
        function = te.create_prim_func([*given.values(), output, n])
        schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
        (loop,) = schedule.get_loops(schedule.get_sblock("out"))
        schedule.unroll(schedule.split(loop, [None, self.unrolled])[1])
        return schedule.mod

    def value(self, prim: Any, buffer: Any, i: Any) -> Any:
        """The output's vector i, as TVM's expression."""
        found: list[tuple[Any, str]] = []
        for value in self.lowered.values:
            if type(value) is Loaded:
                element, name = ELEMENT[value.memory], f"p{value.input}"
                if self.repeated >> value.input & 1:
                    found.append((prim.Broadcast(buffer(name, element, False)[0], self.lanes), element))
                else:
                    found.append((buffer(name, element, True)[i], element))
            elif type(value) is Constant:
                found.append(self.constant(prim, buffer, value.number, value.type))
            else:
                assert type(value) is Computed
                found.append(self.computed(prim, buffer, value, found))
        return found[self.lowered.stores[0][0]][0]

    def constant(self, prim: Any, buffer: Any, number: int, kind: str) -> tuple[Any, str]:
        """A constant in all lanes: they lie 8 bytes apart."""
        element = ELEMENT[kind]
        at = number * 8 // SIZE[kind]
        return prim.Broadcast(buffer(f"kon_{element}", element, False)[at], self.lanes), element

    def computed(self, prim: Any, buffer: Any, value: Computed, found: list[tuple[Any, str]]) -> tuple[Any, str]:
        primitive = table()[value.primitive]
        rest = iter(value.operands)
        operands = [
            self.constant(prim, buffer, value.constant, t)[0] if k == primitive.const else found[next(rest)][0]
            for k, t in enumerate(primitive.operands)
        ]
        element = ELEMENT[primitive.result]
        return prim.call_pure_extern(f"{_TYPES[element]}x{self.lanes}", _PREFIX + value.primitive, *operands), element

    # -- from TVM ---------------------------------------------------------------------------------

    def inlined(self, made: _Function) -> _Function:
        """The function with the instructions of primitives in the place of their calls."""
        lines: list[str] = []
        for k, line in enumerate(made.lines):
            call = _CALL.match(line)
            if call is None:
                lines.append(line)
                continue
            result, name, operands = call.groups()
            e = WideEmitter(self.target, self.lanes, f"b{k}.", "0")
            e.begin()
            found = _OPERAND.findall(operands)
            elements = [ELEMENT[t] for t in table()[name].operands]
            values = [e.read((value, own), wanted) for (own, value), wanted in zip(found, elements, strict=True)]
            last, element = applied(e, name, values)
            self.declared |= e.declared
            vector = e.vector(element)
            lines += [*e.lines, f"  {result} = bitcast {vector} {last} to {vector}"]
        return _Function(made.arguments, lines)


def _function_of(module: Any, level: str) -> _Function:
    """The loop as LLVM's text, by TVM's code generator without passes. Raises NotFusable where it looks other than it did."""
    tvm, _, _ = _modules()
    built = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mcpu": level or "x86-64", "opt-level": 0}))
    text = built.mod.inspect_source("ll")
    found = re.search(r"^define internal i32 @main_compute_\((.*?)\)[^\n]*\{\n(.*?)^\}", text, re.S | re.M)
    if found is None:
        raise NotFusable("TVM gave no function of the expected form")
    arguments = [(part.rpartition("%")[2], part.split()[0]) for part in found[1].split(",")]
    arguments.append(("ctx", "ptr"))  # for primitives that note events
    lines = []
    for line in _NOISE.sub("", found[2]).splitlines():
        line = line.rstrip()
        if line and "#dbg_" not in line and "@llvm.assume" not in line:
            line = re.sub(r"%(\d+)\b", r"%t\1", line)  # what has only a number must be numbered in order
            lines.append(re.sub(r", align \d+$", ", align 1", line))  # it takes memory to be aligned as its own is
    return _Function(arguments, lines)
