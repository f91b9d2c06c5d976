"""From a chain and the kind of its operands to stages: what is computed together, in which order, and where it lies meanwhile.

The *kind* of operands is their types, how many axes each has, and which of them are longer than 1: nothing else of a shape. Every value
of a chain is then of the full shape, one number per row, or part of a row that all rows share. Values are computed as late as
what they need allows: all elementwise work between two reductions is one kernel over a block of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..codegen.rows import chain
from ..codegen.rows.kernels import cost_ns
from ..codegen.stencils import offsets as c
from ..codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from ..codegen.stencils.kernel import FusedKernel
from ..dtypes import BY_NAME
from ..fusion.chains import ROW_OPS
from ..fusion.segments import Scalar, Segment, SegmentOp
from .graphs import full_shape

_EPS: Final = {"layer_norm": 1e-5, "rms_norm": 1e-6}
_FLOATS: Final = ("float32", "float64", "float16", "bfloat16")


class Kind(NamedTuple):
    """Of operands: axes of the full shape, names of types, and `chain.presence_of` each."""

    ndim: int
    dtypes: tuple[str, ...]
    presence: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Value:
    """A value: which axes of the full shape it has (bits) and how many. `number`: one per row, known once rows have been reduced."""

    bits: int
    ndim: int
    level: int = 0
    number: bool = False
    bare: bool = False  # a number per row whose reduced axes are gone
    op: SegmentOp | None = None
    operands: tuple[int | Scalar, ...] = ()  # of values
    dtype: str = ""  # once it has a place
    place: chain.Place | None = None


def plan_for(segment: Segment, kind: Kind) -> chain.Plan:
    """The plan of a chain. Raises NotFusable with the reason."""
    return _Planner(segment, kind).plan()


@dataclass
class _Planner:
    segment: Segment
    kind: Kind
    values: list[_Value] = field(default_factory=list)
    stages: list[chain.Stage] = field(default_factory=list)
    buffers: list[chain.Buffer] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    lengths: tuple[int, ...] = ()

    def plan(self) -> chain.Plan:
        kind = self.kind
        self.full = 0
        for bits, _ in kind.presence:
            self.full |= bits
        self._check_kind()
        self.inner = self._inner()
        self.row_bits = self.full & -(1 << (kind.ndim - self.inner))
        self.outer_bits = self.full & ~self.row_bits
        if not self.row_bits:
            raise NotFusable("rows of one element")
        self._trace()
        self.form = self._form()
        self._choose_places()
        self._build()
        dtypes = [*kind.dtypes, *(self.values[v].dtype for v in self.outputs)]
        return chain.Plan(
            kind.ndim,
            self.inner,
            self.form,
            kind.presence,
            self.lengths,
            tuple(BY_NAME[name].numpy for name in dtypes),
            len(self.outputs),
            tuple(self.buffers),
            tuple(self.stages),
            self._parted(),
        )

    # -- what there is --------------------------------------------------------------------------

    def _check_kind(self) -> None:
        floats = {name for name in self.kind.dtypes if name in _FLOATS}
        others = {name for name in self.kind.dtypes if name not in _FLOATS} - {"bool"}
        if len(floats) != 1 or others:
            raise NotFusable(f"rows of {', '.join(dict.fromkeys(self.kind.dtypes))}: one float type, and masks, are fused")
        self.float = floats.pop()
        if len(self.kind.dtypes) > c.CHAIN_INPUTS_MAX or self.kind.ndim > c.MAX_DIMS:
            raise NotFusable("too many operands or axes")

    def _inner(self) -> int:
        """How many axes, the last ones, all reductions of the chain run over."""
        found = {_axes_of(op, self.kind.ndim) for op in self.segment.ops if op.op in ROW_OPS}
        if len(found) > 1:
            raise NotFusable("reductions over different axes")
        return found.pop()

    def _trace(self) -> None:
        """Values in order, equal ones once."""
        self.values = [_Value(bits, ndim) for bits, ndim in self.kind.presence]
        number: dict[int, int] = {register: k for k, register in enumerate(self.segment.inputs)}
        seen: dict[Any, int] = {}
        for op in self.segment.ops:
            operands = tuple(p if isinstance(p, Scalar) else number[p] for p in op.operands)
            key = (op.op, tuple((type(p.value), repr(p.value)) if isinstance(p, Scalar) else p for p in operands), repr(op.attrs), op.named)
            if key not in seen:
                seen[key] = len(self.values)
                self.values.append(self._row_value(op, operands) if op.op in ROW_OPS else self._element_value(op, operands))
            number[op.dest] = seen[key]
        self.outputs = [number[r] for r in self.segment.outputs]
        if len(set(self.outputs)) != len(self.outputs):
            raise NotFusable("two outputs are equal")
        read = {p for v in self.values for p in v.operands if isinstance(p, int)} | set(self.outputs)
        if any(v.op is not None and k not in read for k, v in enumerate(self.values)):
            raise NotFusable("a result that nobody reads")

    def _row_value(self, op: SegmentOp, operands: tuple[int | Scalar, ...]) -> _Value:
        x, *parameters = [self.values[p] for p in operands if isinstance(p, int)]
        if not self._is_full(x):
            raise NotFusable(f"{op.op} of what is not of the full shape")
        if any(p.op is not None or p.bits != self.row_bits or p.ndim != self.inner for p in parameters):
            raise NotFusable(f"{op.op}: parameters that are no rows")
        row, attrs = ROW_OPS[op.op], dict(op.attrs)
        if row.fills:
            return _Value(x.bits, x.ndim, x.level + 1, op=op, operands=operands)
        keep = attrs.get("keepdims", False) is True
        ndim = self.kind.ndim if keep else self.kind.ndim - self.inner
        return _Value(self.outer_bits, ndim, x.level + 1, True, not keep, op, operands)

    def _element_value(self, op: SegmentOp, operands: tuple[int | Scalar, ...]) -> _Value:
        known = [self.values[p] for p in operands if isinstance(p, int)]
        level = max(v.level for v in known)
        bits = 0
        for v in known:
            bits |= v.bits
        bare = [v.bare for v in known if v.number]
        if any(bare):
            if self.inner == self.kind.ndim and not all(v.number for v in known):
                pass  # one number for all elements
            elif not all(v.bare for v in known) or self.inner == self.kind.ndim:
                raise NotFusable("numbers of rows without the rows' axes among others")
            else:
                return _Value(bits, known[0].ndim, level, True, True, op, operands)
        ndim = max(v.ndim for v in known)
        value = _Value(bits, ndim, level, bool(bare), False, op, operands)
        if bare and (bits != self.outer_bits or ndim != self.kind.ndim):
            value.number = False
            if not self._is_full(value):
                raise NotFusable("numbers of rows together with a part of the full shape")
        elif not bare and level and not self._is_full(value):
            raise NotFusable("rows together with a part of the full shape")
        return value

    def _is_full(self, value: _Value) -> bool:
        return value.bits == self.full and value.ndim == self.kind.ndim and not value.number

    def _is_shared(self, value: _Value) -> bool:
        """Computed from operands alone, and smaller than the full shape: worked out again wherever it is wanted."""
        return value.op is not None and value.level == 0 and not self._is_full(value)

    def _form(self) -> int:
        forms = {0 if self._is_full(v) else (1 if v.bare else 2) if v.number else 3 for v in (self.values[k] for k in self.outputs)}
        if len(forms) > 1 or 3 in forms:
            raise NotFusable("outputs of several sizes")
        form = forms.pop()
        if form == 1 and self.inner == self.kind.ndim and len(self.outputs) > 1:
            raise NotFusable("several numbers as outputs")
        return form

    # -- stages ---------------------------------------------------------------------------------

    def _choose_places(self) -> None:
        """Which values are kept: those that another stage reads, and outputs."""
        self.kept: set[int] = set(self.outputs)
        for v in self.values:
            for p in v.operands:
                if not isinstance(p, int) or self.values[p].op is None or self._is_shared(self.values[p]):
                    continue
                source = self.values[p]
                is_row = source.op is not None and source.op.op in ROW_OPS
                reads_rows = v.op is not None and v.op.op in ROW_OPS
                if is_row or reads_rows or source.level != v.level or source.number != v.number:
                    self.kept.add(p)
        self.last: dict[int, int] = {}

    def _build(self) -> None:
        for k, name in enumerate(self.kind.dtypes):
            self.values[k].dtype, self.values[k].place = name, chain.Place("input", k)
        for k, v in enumerate(self.outputs):
            self.values[v].place = chain.Place("output", k)
        steps = self._steps()
        for at, (_, values) in enumerate(steps):
            for v in self._reads(values):
                self.last[v] = at
        for at, (what, values) in enumerate(steps):
            if what == "rows":
                self._row_stage(values[0])
            else:
                self._element_stage(values, what == "numbers", at)
            self._release(at)
        if len(self.stages) > c.STAGES_MAX or len(self.buffers) > c.BUFFERS_MAX:
            raise NotFusable("too many stages")

    def _steps(self) -> list[tuple[str, list[int]]]:
        """Stages in order: per level the numbers of rows, then elements, then reductions."""
        found: list[tuple[str, list[int]]] = []
        for level in range(1 + max(v.level for v in self.values)):
            here = [k for k in sorted(self.kept) if self.values[k].level == level and not self._is_row(k)]
            for what, numbers in (("numbers", True), ("elements", False)):
                wanted = [k for k in here if self.values[k].number is numbers]
                if wanted:
                    found.append((what, wanted))
            found += [("rows", [k]) for k, v in enumerate(self.values) if self._is_row(k) and v.level == level + 1]
        return found

    def _is_row(self, k: int) -> bool:
        op = self.values[k].op
        return op is not None and op.op in ROW_OPS

    def _reads(self, wanted: Sequence[int]) -> list[int]:
        """The values with places that a stage for `wanted` takes."""
        found: dict[int, None] = {}
        todo, seen = [p for k in wanted for p in self.values[k].operands if isinstance(p, int)], set(wanted)
        while todo:
            p = todo.pop(0)
            if p in seen:
                continue
            seen.add(p)
            if self.values[p].op is None or p in self.kept:
                found[p] = None
            else:
                todo += [q for q in self.values[p].operands if isinstance(q, int)]
        return sorted(found)

    def _row_stage(self, k: int) -> None:
        value = self.values[k]
        op = value.op
        assert op is not None
        x, *parameters = [self.values[p] for p in value.operands if isinstance(p, int)]
        value.dtype = "bool" if ROW_OPS[op.op].truth else self.float
        if any(v.dtype != value.dtype for v in (x, *parameters)):
            raise NotFusable(f"{op.op} of {x.dtype}")
        if value.place is None:
            value.place = self._buffer(value.number, value.dtype)
        attrs = dict(op.attrs)
        recipe = op.op + (str(len(parameters)) if op.op in _EPS else "")
        eps = float(attrs.get("eps", _EPS.get(op.op, 0.0)))
        less = attrs.get("ddof", 0)
        places = tuple(_place(v) for v in (x, value, *parameters))
        self.stages.append(
            chain.Rows(
                recipe,
                value.dtype,
                places,
                ROW_OPS[op.op].quiet,
                eps,
                less if type(less) is int else 0,
                cost_ns(op.op, value.dtype),
                op.pc,
            )
        )
        self._take_options(op)

    def _take_options(self, op: SegmentOp) -> None:
        attrs = dict(op.attrs)
        shape = attrs.get("normalized_shape")
        if shape is not None:
            self.lengths = (shape,) if type(shape) is int else tuple(shape)
        if type(attrs.get("ddof", 0)) is not int or attrs.get("ddof", 0) not in (0, 1):
            raise NotFusable("degrees of freedom other than 0 and 1")
        if type(attrs.get("eps", 0.0)) is not float and "eps" in attrs:
            raise NotFusable("eps that is no float")

    def _element_stage(self, wanted: list[int], numbers: bool, at: int) -> None:
        reads = self._reads(wanted)
        inputs = tuple([Input(self.values[k].dtype, "column" if self._repeats(k, numbers) else "contiguous") for k in reads])
        number = {k: place for place, k in enumerate(reads)}
        nodes: list[Node] = []
        pcs: list[int] = []
        for k in wanted:
            self._add(k, number, nodes, len(reads), pcs)
        kernel = FusedKernel(FusedGraph(inputs, tuple(nodes), tuple([number[k] for k in wanted])))
        for k in reads:
            if self.last.get(k) == at:
                self._let_go(k)
        for k, dtype in zip(wanted, kernel.lowered.dtypes, strict=True):
            self.values[k].dtype = dtype
            if self.values[k].place is None:
                self.values[k].place = self._buffer(numbers, dtype)
        places = tuple(_place(self.values[k]) for k in (*reads, *wanted))
        if len(places) > c.PLACES_MAX:
            raise NotFusable("too many operands in one stage")
        repeated = sum(1 << place for place, k in enumerate(reads) if self._repeats(k, numbers))
        self.stages.append(chain.Elements(kernel, numbers, repeated, places, tuple(pcs)))

    def _add(self, k: int, number: dict[int, int], nodes: list[Node], inputs: int, pcs: list[int]) -> None:
        """The nodes of a value, what it is made of first, and where their instructions stand."""
        if k in number:
            return
        value = self.values[k]
        assert value.op is not None
        for p in value.operands:
            if isinstance(p, int):
                self._add(p, number, nodes, inputs, pcs)
        operands = tuple([Const(p.value) if isinstance(p, Scalar) else number[p] for p in value.operands])
        nodes.append(Node(value.op.op, operands, value.op.attrs))
        pcs.append(value.op.pc)
        number[k] = inputs + len(nodes) - 1

    def _repeats(self, k: int, numbers: bool) -> bool:
        """Whether a value stays the same along a row, or, in a stage over numbers, from row to row."""
        value = self.values[k]
        if not numbers:
            return value.number or not value.bits & self.row_bits
        if value.number or value.bits == self.outer_bits:
            return False
        if value.bits:
            raise NotFusable("numbers of rows together with a part of the full shape")
        return True

    # -- memory ---------------------------------------------------------------------------------

    def _buffer(self, per_row: bool, dtype: str) -> chain.Place:
        wanted = chain.Buffer(per_row, BY_NAME[dtype].numpy.itemsize)
        for k in self.free:
            if self.buffers[k] == wanted:
                self.free.remove(k)
                return chain.Place("buffer", k)
        self.buffers.append(wanted)
        return chain.Place("buffer", len(self.buffers) - 1)

    def _release(self, at: int) -> None:
        for k, last in self.last.items():
            if last == at:
                self._let_go(k)

    def _let_go(self, k: int) -> None:
        place = self.values[k].place
        if place is not None and place.kind == "buffer" and place.number not in self.free:
            self.free.append(place.number)
            self.last[k] = -1

    def _parted(self) -> int:
        """How many stages can run over parts of rows: all up to the last that reads elements, if reductions are all that it leaves."""
        count = 1 + max(k for k, s in enumerate(self.stages) if not (isinstance(s, chain.Elements) and s.numbers))
        first = self.stages[:count]
        if self.form == 0 or any(isinstance(s, chain.Elements) and s.numbers for s in first):
            return 0
        reductions = [s for s in first if isinstance(s, chain.Rows)]
        made = {s.places[1] for s in reductions}
        if any(set(s.places[: len(s.kernel.inputs)]) & made for s in first if isinstance(s, chain.Elements)):
            return 0
        return count if all(chain.can_be_parted(s.recipe, s.dtype) for s in reductions) else 0


def _place(value: _Value) -> chain.Place:
    assert value.place is not None
    return value.place


def _axes_of(op: SegmentOp, ndim: int) -> int:
    """How many axes at the end an op runs over. Raises NotFusable where it is others."""
    row, attrs = ROW_OPS[op.op], dict(op.attrs)
    if "normalized_shape" in row.attrs:
        shape = attrs.get("normalized_shape")
        found = 1 if shape is None or type(shape) is int else len(shape) if type(shape) in (tuple, list) else 0
        if not 0 < found <= ndim:
            raise NotFusable(f"{op.op}: normalized_shape {shape!r}")
        return found
    axis = attrs.get("axis", row.axis)
    if type(attrs.get("keepdims", False)) is not bool:
        raise NotFusable(f"{op.op}: keepdims that is no truth value")
    if axis is None:
        return ndim
    axes = _counted((axis,) if type(axis) is int else axis, ndim)
    if axes is None or (row.fills and len(axes) > 1):
        raise NotFusable(f"{op.op} over axis {axis!r}")
    if axes != list(range(ndim - len(axes), ndim)):
        raise NotFusable(f"{op.op} over axis {axis!r} of {ndim}: only the last axes make rows")
    return len(axes)


def _counted(axes: Any, ndim: int) -> list[int] | None:
    """Axes from the front, sorted; None where they are not plain."""
    if type(axes) is not tuple or not axes or not all(type(a) is int and -ndim <= a < ndim for a in axes):
        return None
    found = sorted(a + ndim if a < 0 else a for a in axes)
    return found if len(set(found)) == len(found) else None


def kind_of(values: Sequence[Any], names: tuple[str, ...]) -> Kind:
    """The kind of arrays of these types. Raises NotFusable for shapes that do not broadcast."""
    ndim = len(full_shape(values))
    return Kind(ndim, names, tuple([chain.presence_of(x, ndim) for x in values]))
