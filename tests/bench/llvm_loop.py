"""A spliced kernel beside the loops LLVM makes of the same expression: `python -m tests.bench.llvm_loop`.

sigmoid(relu(x+b)*2+1)*tanh(x+b) by the same algorithms, on one thread, into the same buffer, called the
same way; time of the processor, median of rounds in turn. LLVM gets a scalar loop for this machine under -O3, for
the vector width it prefers and for the widest there is, and once the 32-wide vector code of the stencils
themselves, as one loop. The kernel notes floating-point events as it goes; LLVM's loops are spared that.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core.codegen import loader
from bcvm_core.codegen.llvm import LlvmBuilder, Value
from bcvm_core.codegen.stencils import kernel as kernels
from bcvm_core.codegen.stencils import target
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.ir import Emitter
from bcvm_core.ops.algorithms_f32 import SINGLE
from tests.bench.progress import cases

SIZES = (1024, 10_240, 102_400, 1_024_000, 10_240_000)
ROUNDS, ROUND_NS = 15, 10_000_000


class ScalarBuilder(LlvmBuilder):
    """Algorithms on one float32 at a time; LLVM's loop vectoriser does the rest."""

    def __init__(self) -> None:
        super().__init__(1, "t", single=True)

    def type_of(self, kind: str) -> str:
        return kind

    def splat(self, constant: float, kind: str) -> str:
        return super().splat(constant, kind)[1:-1].partition(" ")[2]

    def absolute(self, x: Value) -> Value:
        return self.emit("float", f"call float @llvm.fabs.f32(float {x.name})")

    def fma(self, a: Any, c: Any, d: Any) -> Value:
        values = ", ".join(f"float {self.value(v).name}" for v in (a, c, d))
        return self.emit("float", f"call float @llvm.fma.f32({values})")


def expression(builder: Any, x: Value, b: Value) -> Value:
    """The chain, on any builder."""
    total = x + b
    mask = total < 0.0
    relu = builder.select(mask, 0.0, total)  # NaN stays
    gate = SINGLE["sigmoid"](builder, relu * 2.0 + 1.0).value
    result: Value = gate * SINGLE["tanh"](builder, total).value
    return result


def loop_text(builder: Any, element: str, step: int, declared: str) -> str:
    """A function (x, b, out, n) around the expression; n is a multiple of `step`."""
    x, b = (Value(builder, f"%{name}", "float") for name in ("x", "b"))
    result = expression(builder, x, b)
    body = "\n".join(builder.lines)
    return f"""
{declared}
define void @loop(ptr noalias %px, ptr noalias %pb, ptr noalias %po, i64 %n) nounwind {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %ax = getelementptr float, ptr %px, i64 %i
  %ab = getelementptr float, ptr %pb, i64 %i
  %ao = getelementptr float, ptr %po, i64 %i
  %x = load {element}, ptr %ax, align 4
  %b = load {element}, ptr %ab, align 4
{body}
  store {element} {result.name}, ptr %ao, align 4
  %next = add nuw i64 %i, {step}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %again, label %done
done:
  ret void
}}
"""


def scalar_text() -> str:
    return loop_text(ScalarBuilder(), "float", 1, "declare float @llvm.fabs.f32(float)\ndeclare float @llvm.fma.f32(float, float, float)")


def wide_text() -> str:
    """The stencils' own vector code as one loop."""
    host = target.host()
    assert host is not None
    lanes = host.lanes(4)
    emitter = Emitter(host, lanes)
    emitter.compute_in_single()
    text = loop_text(emitter, f"<{lanes} x float>", lanes, "@@")
    return text.replace("@@", "\n".join(sorted(emitter.declared)))


def compiled(text: str, features: str = "") -> Any:
    """The function by LLVM -O3 for this very processor."""
    import llvmlite.binding as llvm

    from bcvm_core.codegen.compiler import start

    start()
    own = llvm.get_host_cpu_features().flatten() + features
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=own, opt=3, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    address = loader.load(bytes(machine.emit_object(module)))["loop"]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)


def spliced() -> kernels.FusedKernel:
    """The kernel of the same expression."""
    nodes = (
        Node("add", (0, 1)),
        Node("maximum", (2, Const(0))),
        Node("multiply", (3, Const(2))),
        Node("add", (4, Const(1))),
        Node("sigmoid", (5,)),
        Node("tanh", (2,)),
        Node("multiply", (6, 7)),
    )
    return kernels.kernel_for(FusedGraph((Input("float32"), Input("float32")), nodes, (8,)))


def run_of(kernel: kernels.FusedKernel, arrays: list[Any], out: Any) -> Callable[[], None]:
    """A call of the kernel's code in one piece, without Python around it."""
    kernel.limit = 1 << 62
    _, common, pieces = kernel.plan(arrays, [out])
    job, kept = kernels._packed(common, pieces[0])
    drive, at = kernel._driver.drive, ctypes.addressof(job)

    def run(_kept: Any = (job, kept)) -> None:
        drive(at)

    return run


def measured(run: Callable[[], None], calls: int) -> float:
    start = time.thread_time_ns()
    for _ in range(calls):
        run()
    return (time.thread_time_ns() - start) / calls


def same_results(runs: dict[str, Callable[[], None]], out: Any) -> None:
    """All of them fill the buffer with the same numbers."""
    runs["spliced"]()
    expected = out.copy()
    for name, run in runs.items():
        out[:] = 0
        run()
        assert np.allclose(out, expected, rtol=1e-5), name


def main() -> None:
    """Print the table."""
    if not bcvm.ready():
        print("llvm_loop: left out, there are no stencils for this machine")
        return
    loops = {
        "LLVM -O3, scalar loop": compiled(scalar_text()),
        "the same, widest": compiled(scalar_text(), ",-prefer-256-bit"),
        "LLVM -O3, vector code": compiled(wide_text(), ",-prefer-256-bit"),
    }
    kernel = spliced()
    print(f"{'one thread, ns per element (ratio to the kernel)':<50}" + "".join(f"{n:>18,}" for n in SIZES))
    table: dict[str, list[str]] = {"spliced": [], **{name: [] for name in loops}}
    for n in cases("loops", SIZES):
        rng = np.random.default_rng(n)
        x, b = (rng.uniform(-3, 3, n).astype(np.float32) for _ in range(2))
        out = np.zeros(n, np.float32)
        at = [v.__array_interface__["data"][0] for v in (x, b, out)]
        runs: dict[str, Callable[[], None]] = {"spliced": run_of(kernel, [x, b], out)}
        runs.update({name: partial(loop, *at, n) for name, loop in loops.items()})
        same_results(runs, out)
        once = measured(runs["spliced"], 3)
        calls = max(1, int(ROUND_NS / max(once, 1)))
        rounds = [{name: measured(run, calls) / n for name, run in runs.items()} for _ in range(ROUNDS)]
        for name in table:
            own, base = (median(r[k] for r in rounds) for k in (name, "spliced"))
            table[name].append(f"{own:.3f} ({own / base:.2f})")
    for name, cells in table.items():
        print(f"{name:<50}" + "".join(f"{c:>18}" for c in cells))


if __name__ == "__main__":
    main()
