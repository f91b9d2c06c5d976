"""Search back ends that do what none should; the compile worker imports them by place."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator

from bcvm_core.codegen import compiler
from bcvm_core.codegen.search.backend import Candidate, Job, LlvmSearch
from bcvm_core.codegen.stencils.lower import Computed

_IR = """
define void @start(ptr %ctx, i64 %count, ptr %kon) nounwind {{
  {body}
  ret void
}}
"""


class Hangs:
    """Makes nothing, for ever."""

    name = "hangs"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        time.sleep(1000)
        yield from ()


class Crashes:
    """Reads where nothing is."""

    name = "crashes"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        ctypes.string_at(8)
        yield from ()


class CrashesWhenRun:
    """Code that compiles, and crashes."""

    name = "crashes when run"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        yield Candidate("crash", compiler.compile_ir(_IR.format(body="store i64 1, ptr inttoptr (i64 8 to ptr)")))


class Ends:
    """Ends the process as if all were well."""

    name = "ends"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        os._exit(0)


class Raises:
    """A fault in Python."""

    name = "raises"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        raise KeyError("schedule")


class Wrong:
    """Subtracts where it should add; then does nothing at all; then writes beyond the end of the output."""

    name = "wrong"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        swapped = [
            value._replace(primitive=value.primitive.replace("add.", "sub.")) if type(value) is Computed else value
            for value in job.lowered.values
        ]
        (first, *_) = LlvmSearch().candidates(job._replace(lowered=job.lowered._replace(values=tuple(swapped))))
        yield Candidate("subtracts", first.body)
        yield Candidate("idle", compiler.compile_ir(_IR.format(body="")))
        lines = (
            f"%a = getelementptr i8, ptr %ctx, i64 {64 + 8 * job.inputs}",
            "%p = load ptr, ptr %a",
            "%end = getelementptr float, ptr %p, i64 %count",
            "store float 0.0, ptr %end",
        )
        yield Candidate("overruns", compiler.compile_ir(_IR.format(body="\n  ".join(lines))))


class Same:
    """The 32-lane loop, over and over: one more than are asked for."""

    name = "same"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        first = next(LlvmSearch().candidates(job))
        for k in range(10):
            yield Candidate(f"copy {k}", first.body)
