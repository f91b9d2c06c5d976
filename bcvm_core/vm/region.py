"""Regions at run time: bind to operand types, run the kernels, commit at the end, or leave it to Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import config, fpstatus
from ..codegen.stencils.region_entry import NativeSite
from ..devices import base
from ..errors import Decline, StrictError, Where
from ..events import Bound, HandedBack, bus
from ..frontend.lowering import RegionCode, op_name
from ..fusion.chains import ROW_OPS
from ..fusion.epilogues import Epilogue
from ..fusion.segments import Segment
from ..isa.hints import ANY, ShapeHint
from ..isa.program import read_by
from ..ops import registry
from ..tiers.chains import ChainSite
from ..tiers.clock import Timing, clock
from ..tiers.fuse import FusedSite
from ..tiers.select import CallSite, Place
from .attributes import UnsafeAttribute
from .forced import interpret_region
from .plan import OnStep, PlanWriter, is_load
from .site import NoTensorError, SiteOwner, event_texts, hold_store, idle, leave_to_python, may_raise, warn_events

Plan = Callable[..., Any]
_ndarray = np.ndarray
_UNKNOWN = object()  # no shape


class Region:
    """The constant that stands for a run or tree in linked code. None means: Python does it."""

    __slots__ = (
        *("key", "code", "relower", "owner", "plans", "_hits", "native", "misses", "dead", "last_reason", "timing", "handed"),
        "__weakref__",
    )

    def __init__(self, key: Any, code: RegionCode, relower: Callable[[str], RegionCode | None], owner: SiteOwner) -> None:
        self.key = key
        self.code = code
        self.relower = relower
        self.owner = owner
        self.plans: dict[tuple[type, ...], Plan | None] = {}
        self._hits = 0
        self.native: base.Direct | None = None  # stands in the code instead of this object, once a kernel does the whole region
        self.timing: Timing | None = None  # of whole calls, once somebody measures them (`latency`)
        self.misses = 0
        self.dead = False
        self.last_reason = ""
        self.handed: HandedBack | None = None  # told to whoever listens; the same again, while the reason is

    def __reduce__(self) -> Any:
        return leave_to_python, ()  # code pickled by value runs as plain Python elsewhere

    def __repr__(self) -> str:
        return f"<bcvm region {self.owner.name}:{self.key[1]}>"

    @property
    def hits(self) -> int:
        """Runs by the VM."""
        return self._hits + (self.native.hits if self.native is not None else 0)

    def __call__(self, *args: Any) -> Any:
        try:
            if self.dead or idle():
                return None
            if config.current.force_tier == "interpreter":
                return interpret_region(self, args[: len(self.code.inputs)])
            plan = self.plans.get(tuple(map(type, args)))
            if plan is None:
                plan = self._bind(args)
                if plan is None:
                    return None
            return plan(args)
        except RecursionError:
            return None  # Python's own attempt needs fewer frames, and shows none of ours

    @property
    def fused(self) -> list[FusedSite]:
        """The segments that run as one kernel, for all operand types met."""
        plans = [plan for plan in list(self.plans.values()) if isinstance(plan, RegionRunner)]
        return [site for plan in plans for site in (*plan.chains.values(), *plan.segments.values())]

    # -- binding ----------------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...]) -> Plan | None:
        types = tuple(map(type, args))
        if types in self.plans:
            self.miss()
            return None
        count = len(self.code.inputs)
        personalities = {registry.personality_of(t) for t in types[:count]} - {None}
        hidden = not personalities and not self.code.callables
        if hidden and not any(map(is_load, self.code.program.instructions)):
            self.plans[types] = None
            self.miss()
            return None
        return self.bind_as("mindspore" if "mindspore" in personalities else "numpy", types, hidden)

    def bind_as(self, personality: str, types: tuple[type, ...], hidden: bool) -> Plan | None:
        """Make the plan for operand types; `hidden`: tensors can only come out of containers or attributes."""
        started = time.perf_counter_ns()
        code = self.code if personality == "numpy" else self.relower(personality)
        if personality == "numpy" and not hidden and any(map(registry.is_bound_to_library, self.code.callable_values)):
            self.plans[types] = None
            self.hand_back("no tensor of the function's library", self.code.ops)
            return None
        if code is None or not set(code.inputs) <= set(self.code.inputs):
            self.plans[types] = None
            self.hand_back("not spelled as an op for these operands", self.code.ops)
            return None
        runner = RegionRunner(self, code, personality, hidden, types)
        self.plans[types] = runner
        self.owner.stats.count_bound()
        if bus.active:
            bus.emit(Bound(repr(self), (), "[...]", (time.perf_counter_ns() - started) / 1000))
        return runner

    def prepare(self, dtype: Any) -> None:
        """Bind to arrays and splice the kernels for one element type, before any come. Other plans are not touched."""
        code = self.code
        if not code.inputs or any(map(registry.is_bound_to_library, code.callable_values)):
            return
        types = (np.ndarray,) * len(code.inputs) + tuple(map(type, code.callable_values))
        try:
            runner = RegionRunner(self, code, "numpy", False, types)
            for site in (*runner.segments.values(), *runner.chains.values()):
                site.prepare(dtype)
        except (Decline, RecursionError):
            return
        runner.ahead = True
        self.plans.setdefault(types, runner)

    def warm(self, args: Sequence[Any]) -> Any:
        """Choose kernels for inputs like these arrays, as a call would, but for nobody: nothing is counted, and no name is bound.

        What the steps give. Raises Decline where a region can't be tried out: it writes, draws random numbers, or reads attributes.
        """
        code = self.code
        touched = next((op for op in code.ops if registry.row(op).family == "random" or registry.row(op).writes), None)
        if touched is not None or code.write_at is not None:
            raise Decline(f"it {'writes in place' if touched is None else f'runs {touched}'}")
        if any(i.opcode == "LOAD_ATTR" for i in code.program.instructions):
            raise Decline("it reads attributes, which may run code")
        if any(map(registry.is_bound_to_library, code.callable_values)):
            raise Decline("it calls functions of a library whose tensors were not given")
        types = (*map(type, args), *map(type, code.callable_values))
        runner = self.plans.get(types)
        if not isinstance(runner, RegionRunner):
            runner = RegionRunner(self, code, "numpy", False, types)
            runner.ahead = True
            self.plans.setdefault(types, runner)
        with fpstatus.recording():
            return runner.steps(*[args[i] for i in runner.order])

    def miss(self) -> None:
        """Not tensors: this is not ours. After a while the site is taken out of the code."""
        self.misses += 1
        if not self.hits and self.misses >= config.current.prune_after:
            self.dead = True
            self.owner.site_is_dead(self)

    def hand_back(self, reason: str, ops: tuple[str, ...]) -> None:
        """Tensors, but Python must do it: counted, and an error under strict."""
        self.last_reason = reason
        self.owner.stats.count_host(ops, reason)
        if bus.active:
            if self.handed is None or self.handed.reason != reason:
                self.handed = HandedBack(repr(self), reason)
            bus.emit(self.handed)
        if self.owner.strict:
            where = Where(filename=self.owner.filename, line=self.key[1], column=self.key[2])
            names = ", ".join(dict.fromkeys(ops))
            raise StrictError(f"{names} would run on the host: {reason}", where=where, fix="drop strict=True, or see `bcvm pool`")


class RegionRunner:
    """A region bound to operand types: its steps as one generated Python function.

    `_steps` runs everything before the write; under `fpstatus.recording` it neither warns nor
    commits. Then floating-point events are dealt with, and the write, if any, is committed.
    """

    __slots__ = (
        "region",
        "code",
        "personality",
        "hidden",
        "is_tree",
        "order",
        "types",
        "sites",
        "segments",
        "chains",
        "whole",
        "steps",
        "shapes",
        "ahead",
        "guards",
    )

    def __init__(self, region: Region, code: RegionCode, personality: str, hidden: bool, types: tuple[type, ...]) -> None:
        self.region = region
        self.code = code
        self.personality = personality
        self.hidden = hidden
        self.is_tree = region.key[0] == "tree"
        self.guards = region.code.callable_values
        self.order = [region.code.inputs.index(name) for name in code.inputs]
        self.types = tuple(types[i] for i in self.order)
        self.sites: dict[int, CallSite] = {}
        self.segments: dict[int, FusedSite] = {}
        self.chains: dict[int, ChainSite] = {}
        self.whole: FusedSite | None = None  # the kernel that does all of the region, where there is one
        self.shapes: list[Any] = []  # of the latest inputs
        self.ahead = False  # made before anything of these types came, and not counted yet
        self.steps = self._generate()

    def __call__(self, args: tuple[Any, ...]) -> Any:
        region = self.region
        if self.guards:
            for expected, actual in zip(self.guards, args[len(region.code.inputs) :], strict=True):
                if expected is not actual:
                    region.owner.callable_rebound(region)
                    return None
        inputs = [args[i] for i in self.order]
        try:
            with fpstatus.recording() as record:
                result = self.steps(*inputs)
            told = self._report(inputs) if record.kinds else ()
            if told is None:
                region.last_reason = "a floating-point event that Python reports itself"
                region.owner.stats.count_replay(self.code.ops, region.last_reason)
                return None
            if self.code.write_at is not None:
                result = self._commit(result, told)
        except NoTensorError as error:
            if error.personality is None:
                region.miss()
                return None
            again = region.bind_as(error.personality, tuple(map(type, args)), hidden=False)
            return None if again is None else again(args)
        except UnsafeAttribute as error:
            region.owner.forget_attribute(error.name)
            region.plans.clear()
            region.hand_back(f"reading .{error.name} may run user code", self.code.ops)
            return None
        except Decline as error:
            region.hand_back(str(error) or "left to Python", self.code.ops)
            return None
        except StrictError:
            raise
        except RecursionError:
            return None
        except Exception as error:  # the op's own error: Python replays and raises it at the user's line
            region.last_reason = f"{type(error).__name__}: {error}"
            region.owner.stats.count_replay(self.code.ops, type(error).__name__)
            return None
        region._hits += 1
        region.owner.stats.count_op(self.code.ops)
        if self.whole is not None and region._hits > 1:
            self._go_native(inputs)
        shapes = [v.shape if type(v) is _ndarray else None for v in inputs]
        if shapes != self.shapes:
            self._met_shapes(shapes, inputs)
        return result

    def _met_shapes(self, shapes: list[Any], inputs: list[Any]) -> None:
        """Other shapes than at the last call: those that changed are told."""
        owner, before = self.region.owner, self.shapes or [_UNKNOWN] * len(shapes)
        self.shapes = shapes
        changed = [k for k, shape in enumerate(shapes) if shape != before[k] or shape is None]
        owner.observe([self.code.inputs[k] for k in changed], [inputs[k] for k in changed])
        owner.region_ran(inputs)
        if self.ahead:
            self.ahead = False
            owner.stats.count_bound()

    def _go_native(self, inputs: list[Any]) -> None:
        """From now on machine code does the whole region, and asks it when something is not as it was."""
        assert self.whole is not None
        region, adapter = self.region, self._adapter()
        if adapter is not None and any(base.adapter_for(t) is not adapter for t in self.types):
            return
        try:
            arrays = inputs if adapter is None else [adapter.array(v) for v in inputs]
        except Decline:
            return
        entry = self.whole.entry_of(arrays) if all(type(v) is np.ndarray and v.ndim for v in arrays) else None
        if entry is None or len({v.dtype for v in arrays}) != 1:  # NumPy 1.x promotes 0-d arrays of another type by value
            return
        if region.native is not None:
            region.native.use(entry)
            if region.native.entry is entry:
                self.whole.lend(arrays, region.native)
            return
        make = NativeSite if adapter is None else adapter.direct
        try:
            native = make(region, entry, inputs, region.code.callable_values, self.is_tree)
        except ValueError:
            self.whole = None
            return
        region.native = native
        self.whole.lend(arrays, native)
        if isinstance(native, NativeSite):
            native.know(self.shapes, [v.shape for v in inputs])
            clock.follow(self.whole, native)
        region.owner.stats.count_native(self.code.ops, lambda: native.hits)
        region.owner.site_is_native(region)

    def _commit(self, finish: Callable[[], Any], told: Sequence[tuple[str, int]]) -> Any:
        """Do the write, which `hold` has let pass. Storing may cast, and a cast may overflow.

        Under an operator in place (`x += y`) NumPy casts within the operator, and speaks of each kind of event in both once.
        """
        with fpstatus.recording() as record:
            result = finish()
        if record.kinds:
            at = self.code.write_at or 0
            op = registry.row(op_name(self.code.program.instructions[at]))
            name = "cast" if op.name == "setitem" else op.fp_name or op.name
            events = [(record.text(kind, name), self._line_of(at)) for kind in record.kinds]
            warn_events(self.region.owner, [event for event in events if event not in told])
        return result

    def hold(self, target: Any, value: Any) -> None:
        """Before anything is written: may reporting the write end in an exception? After it nothing can be replayed."""
        hold_store(target, value)

    def own(self, receiver: Any) -> None:
        """Methods and attributes are those of tensors of the kind the region was bound for."""
        if registry.personality_of(type(receiver)) != self.personality:
            raise Decline(f"a method of {type(receiver).__name__}")

    def look(self, *loaded: Any) -> None:
        """Is a tensor among what was taken out of containers and attributes? If not, nothing here is ours."""
        found = {registry.personality_of(type(v)) for v in loaded} - {None}
        if not found:
            raise NoTensorError(None)
        if "mindspore" in found and self.personality == "numpy":
            raise NoTensorError("mindspore")
        if self.personality == "numpy" and any(map(registry.is_bound_to_library, self.code.callable_values)):
            raise Decline("no tensor of the function's library")

    # -- floating-point events --------------------------------------------------------------------

    def _report(self, inputs: list[Any]) -> Sequence[tuple[str, int]] | None:
        """Run op by op to see who caused which event, and warn as NumPy would; (text, line) of each. None: Python must do it."""
        events: list[tuple[str, int]] = []
        pending: list[Any] = []

        def on_step(pc: int, call: Callable[[], Any], *operands: Any) -> Any:
            with fpstatus.recording() as record:
                value = call()
            if record.kinds:
                op = registry.row(op_name(self.code.program.instructions[pc]))
                texts = event_texts(record, self.sites[pc], op, operands)
                pending.extend([pc] if texts is None else [])
                events.extend((text, self._line_of(pc)) for text in texts or ())
            return value

        if may_raise():
            return None
        self._generate(on_step)(*inputs)
        if pending:
            return None
        warn_events(self.region.owner, events)
        return events

    def _line_of(self, pc: int) -> int:
        location = self.code.program.instructions[pc].loc
        return location.line if location is not None else int(self.region.key[1])

    # -- code -------------------------------------------------------------------------------------

    def _generate(self, on_step: OnStep | None = None) -> Callable[..., Any]:
        """The region's instructions as a Python function of its inputs."""
        writer = PlanWriter(self, on_step)
        source = writer.source()
        exec(compile(source, f"<bcvm plan {self.region.owner.name}:{self.region.key[1]}>", "exec"), writer.namespace)
        return writer.namespace["steps"]  # type: ignore[no-any-return]

    def _hint(self, pc: int) -> ShapeHint | None:
        """The hint of the first operand that is loaded with one, for the log."""
        hints = {i.operands[0]: i.operands[2] for i in self.code.program.instructions if i.opcode == "LOAD_TENSOR"}
        known = [hints[r] for r in read_by(self.code.program.instructions[pc]) if r in hints]
        return next((hint for hint in known if hint != ANY), None)

    def fused(self, segment: Segment) -> tuple[Segment, Callable[..., Any]]:
        """What runs a segment as one kernel, and the segment with its inputs and outputs in the order of that call."""
        return self._site_of(FusedSite, segment, self.segments)

    def followed(self, epilogue: Epilogue) -> Callable[..., Any]:
        """What runs a product with its tail."""
        from ..tiers.epilogue import EpilogueSite  # with the first product that has one

        site = self.segments[epilogue.pcs[0]] = EpilogueSite(epilogue, uniform=self.personality != "numpy")
        return self._called(site, epilogue.pcs[0])

    def chained(self, segment: Segment) -> tuple[Segment, Callable[..., Any]]:
        """The same for a chain of ops with reductions among them."""
        return self._site_of(ChainSite, segment, self.chains, rows=True)

    def _site_of(
        self, kind: type[FusedSite], segment: Segment, sites: dict[int, Any], *, rows: bool = False
    ) -> tuple[Segment, Callable[..., Any]]:
        whole = self._as_whole(segment)
        site = sites[segment.first] = kind(whole or segment, uniform=self.personality != "numpy")
        if whole is not None:
            self.whole = site
        return site.segment, self._called(site, segment.first, rows=rows)

    def _called(self, site: FusedSite, pc: int, *, rows: bool = False) -> Callable[..., Any]:
        """What the plan calls for a site whose first op is at `pc`."""
        site.where, site.on_fallback = self._place(pc), self._fell_back
        adapter = self._adapter()
        return site if adapter is None else adapter.fused(site, rows=rows)

    def _fell_back(self, reason: str) -> None:
        self.region.owner.stats.count_fallback(reason)

    def _adapter(self) -> base.TensorAdapter | None:
        """How the tensors of the region's library are read; None for arrays."""
        if self.personality == "numpy":
            return None
        return next((base.adapter_for(t) for t in self.types if registry.personality_of(t) == self.personality), None)

    def _as_whole(self, segment: Segment) -> Segment | None:
        """The segment with the region's own inputs and outputs, in their order, when it is all that the region does."""
        code, program = self.code, self.code.program
        ops = [pc for pc, i in enumerate(program.instructions) if op_name(i)]
        loads = tuple(i.operands[0] for i in program.instructions if i.opcode in ("LOAD_TENSOR", "LOAD_VAR"))
        if ops != list(segment.pcs) or set(loads) != set(segment.inputs) or code.write_at is not None:
            return None
        if code.inputs != self.region.code.inputs:
            return None
        if not segment.is_joined and not any(op.op in ROW_OPS for op in segment.ops):
            return None
        results = self._results()
        if results is None or set(results) != set(segment.outputs) or len(set(results)) != len(results):
            return None
        return replace(segment, inputs=loads, outputs=results)

    def _results(self) -> tuple[int, ...] | None:
        """The registers that the region gives back."""
        *rest, last = self.code.program.instructions
        if self.code.value:
            return (last.operands[0],)
        made = rest[-1] if rest and rest[-1].opcode == "BUILD_TUPLE" and rest[-1].operands[0] == last.operands[0] else None
        return None if made is None or any(a.is_const for a in made.operands[1]) else tuple(a.index for a in made.operands[1])

    def site(self, pc: int, op: str) -> CallSite:
        """The call site of an instruction, made once."""
        if pc not in self.sites:
            syntax = pc not in self.code.function_pcs
            self.sites[pc] = site = CallSite(op, syntax=syntax, shape_hint=self._hint(pc))
            site.where = self._place(pc)
        return self.sites[pc]

    def _place(self, pc: int) -> Place:
        owner = self.region.owner
        return owner.name, owner.filename, self._line_of(pc)
