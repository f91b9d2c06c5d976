"""`bcvm.warmup`: kernels chosen and spliced for typical shapes before the first request comes.

A function's regions are run on arrays of ones, in the order of the source: what one of them gives is what those after it take. The
function itself is not run, nor is anything of it that is Python: no statement of the user's, no branch taken, nothing printed, no
attribute read. A region whose inputs only Python could give is bound and spliced for the element type, as far as that is possible
without values.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from . import dtypes as names
from .errors import Decline, HintError, LoweringError
from .frontend.annotations import annotations_of
from .isa.hints import Aligned, ShapeHint
from .jit import linker_of
from .progress import Bar, bar
from .readiness import ready
from .vm.linked import Linker
from .vm.region import Region

TYPICAL: Final = (1, 4, 8, 16)
_ELSE: Final = 16  # a free dim that nobody has given a size
Shape = tuple[int, ...]


@dataclass(slots=True)
class Warmed:
    """What a warm-up has done. `left`: regions that wait for their first call, as "line: reason"."""

    shapes: int = 0
    regions: int = 0
    kernels: int = 0
    seconds: float = 0.0
    left: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.regions} regions ready for {self.shapes} shapes, {self.kernels} kernels spliced, in {self.seconds:.3f} s"]
        return "\n".join([*lines, *(f"  line {line} waits for its first call: {reason}" for line, reason in sorted(self.left.items()))])


def warmup(
    function: Any,
    shapes: Iterable[int | Shape | Mapping[str, int | Shape]] = TYPICAL,
    dtypes: Any = None,
    *,
    progress: bool | Bar | None = None,
    wait_s: float = 180.0,
) -> Warmed:
    """Fill the caches of a jitted function for `shapes`, and say what was done.

    Each of `shapes` is a size (of the first dim that the annotations leave open), a shape (of every tensor parameter), or sizes and shapes
    by parameter. `dtypes`: one element type, or those by parameter; else that of the annotation or of what came before, else float32.
    `progress`: False for no bar, True for one even if nobody looks, or what wraps the list of shapes as `tqdm.tqdm` does. Stencils that
    are being compiled are waited for, `wait_s` at the longest.
    Raises LoweringError for what is not jitted, HintError where shapes don't follow or break the function's own hints.
    """
    linker = linker_of(getattr(function, "__func__", function))
    if linker is None:
        name = getattr(function, "__qualname__", repr(function))
        raise LoweringError(f"{name} does not run through the VM", fix="decorate it with @bcvm.jit; call a Cell once instead")
    started = time.perf_counter()
    parameters = _Parameters(function, linker, dtypes)
    examples = [parameters.example(shape) for shape in shapes]
    ready(wait_s)
    done, spliced = Warmed(), _kernels(linker)
    good: set[int] = set()
    for example in bar("warm-up", progress)(examples):
        good |= _walk(linker, example, done)
        done.shapes += 1
    done.regions, done.kernels = len(good), _kernels(linker) - spliced
    done.seconds = time.perf_counter() - started
    return done


def _regions(linker: Linker) -> list[Region]:
    return [site for site in linker.table.live if isinstance(site, Region)]


def _kernels(linker: Linker) -> int:
    """Fused kernels that its regions have."""
    sites = [site for region in _regions(linker) for site in region.fused]
    return sum(pattern.kernel is not None for site in sites for pattern in list(site.patterns.values()))


def _walk(linker: Linker, example: Mapping[str, Any], done: Warmed) -> set[int]:
    """Warm the regions one after the other; the ids of those that ran."""
    known, good = dict(example), set()
    first = next((v for v in known.values() if type(v) is np.ndarray), None)
    for region in _regions(linker):
        line = region.key[1]
        try:
            given = region.warm([_value(linker, known, name) for name in region.code.inputs])
        except Decline as error:
            done.left[line] = str(error)
        except Exception as error:  # of an op: these shapes are none for this branch
            done.left[line] = f"{type(error).__name__}: {error}"
        else:
            good.add(id(region))
            done.left.pop(line, None)
            known.update(_named(region, given))
            continue
        for name in region.code.outputs:
            known.pop(name, None)
        if first is not None:
            region.prepare(first.dtype)
    return good


def _value(linker: Linker, known: Mapping[str, Any], name: str) -> Any:
    """The value of an input. Raises Decline for what only Python could give."""
    if name in known:
        return known[name]
    value = linker.lookup(name) if name.isidentifier() and name not in linker.original.co_varnames else None
    if type(value) in (np.ndarray, int, float, bool):
        return value
    raise Decline(f"{name} comes from Python")


def _named(region: Region, given: Any) -> dict[str, Any]:
    """What a region gave, by the names that it is bound to."""
    outputs = region.code.outputs
    if region.code.value or not outputs:
        return {}
    values = given if isinstance(given, tuple) else (given,)
    return dict(zip(outputs, values, strict=False))


class _Parameters:
    """The parameters of a function: which are tensors, of which shape and element type."""

    def __init__(self, function: Any, linker: Linker, dtypes: Any) -> None:
        self.name = linker.name
        annotated, observed = annotations_of(function), linker.observed.specs
        parameters = inspect.signature(function).parameters.values()
        self.fixed = {p.name: p.default for p in parameters if p.default is not p.empty}
        required = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        tensors = [name for name in (*required, *self.fixed) if name in annotated or name in observed]
        self.tensors = tensors or [name for name in required if name != "self"]
        self.hints: dict[str, ShapeHint] = {}
        self.seen: dict[str, ShapeHint] = {name: spec.hint for name, spec in observed.items()}
        self.types: dict[str, Any] = {}
        for name in self.tensors:
            if name in annotated:
                self.hints[name] = annotated[name].hint
            own = annotated[name].dtype_name if name in annotated else None
            spec = observed.get(name)
            given = dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes
            self.types[name] = _dtype(given if given is not None else own or (spec.dtype if spec is not None else "float32"))

    def example(self, shape: int | Shape | Mapping[str, int | Shape]) -> dict[str, Any]:
        """Arguments for one of the user's shapes. Raises HintError."""
        bindings: dict[str, int] = {}
        made = dict(self.fixed)
        for name in self.tensors:
            given = shape.get(name) if isinstance(shape, Mapping) else shape
            if given is None and name in self.fixed:
                continue
            dims = tuple(given) if isinstance(given, tuple | list) else self._dims(name, given, bindings)
            hint = self.hints.get(name)
            reason = hint.match(dims, bindings) if hint is not None else None
            if reason is not None:
                raise HintError(
                    f"{self.name}: {dims} for {name!r} breaks its hint {hint}: {reason}", fix="give shapes that the annotation allows"
                )
            made[name] = np.ones(dims, self.types[name])
        return made

    def _dims(self, name: str, size: int | None, bindings: dict[str, int]) -> Shape:
        """A shape from a size: the first open dim of all has it, named dims agree, others are as they were seen."""
        hint, seen = self.hints.get(name), self.seen.get(name)
        if hint is None or hint.any_leading:
            hint = seen
        if hint is None or hint.any_leading:
            raise HintError(
                f"{self.name}: the shape of {name!r} doesn't follow from the size {size}", fix="annotate it, or give whole shapes"
            )
        out: list[int] = []
        for k, dim in enumerate(hint.dims):
            before = seen.dims[k] if seen is not None and len(seen.dims) == len(hint.dims) else None
            if isinstance(dim, int):
                out.append(dim)
                continue
            found = bindings.get(dim) if isinstance(dim, str) else None
            if found is None:
                found = size if k == 0 and size is not None else before if isinstance(before, int) else _ELSE
            if isinstance(dim, Aligned):
                found = -(-found // dim.multiple) * dim.multiple
            if isinstance(dim, str):
                bindings[dim] = found
            out.append(found)
        return tuple(out)


def _dtype(given: Any) -> Any:
    """The NumPy type of a name or a dtype. Raises HintError."""
    if isinstance(given, str) and given in names.BY_NAME:
        return names.BY_NAME[given].numpy
    try:
        return np.dtype(given)
    except TypeError as error:
        raise HintError(f"{given!r} is no element type of tensors", fix=f"use one of {', '.join(names.BY_NAME)}") from error
