"""From a function object (or a cell) to its Program: analysis, sites inside host code, generation."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import LoweringError
from ..frontend.annotations import TensorSpec, hints_of
from ..frontend.generator import Analysed, generate
from ..frontend.hostblocks import FoundSite, SiteFinder
from ..frontend.lowering import RegionCode
from ..frontend.regions import MISSING, Classifier, Kind, is_tensor_value, kind_of_value
from ..frontend.scopes import Scope
from ..frontend.source import FunctionSource, copy_tree, find
from ..isa.hints import ShapeHint, infer
from ..isa.program import Arg, Instruction, Program
from ..ops import registry
from .former import FormerContext, Relower, SiteKey
from .linked import Linker
from .rewrite import RegionFormer
from .signing import sign
from .twin import make_twin

Lookup = Callable[[str], Any]


@dataclass(slots=True)
class _Collector:
    """A site factory that only notes which sites a rewrite would make."""

    dead: set[SiteKey] = field(default_factory=set)
    regions: list[tuple[SiteKey, RegionCode, Relower]] = field(default_factory=list)
    values: list[tuple[SiteKey, str | None]] = field(default_factory=list)

    def region(self, key: SiteKey, code: RegionCode, relower: Relower) -> str:
        self.regions.append((key, code, relower))
        return "\0site"

    def value(self, key: SiteKey, kind: str, op: str | None) -> str:
        if kind not in ("inplace", "store"):  # statements; their effect is what Python's is as well
            self.values.append((key, op))
        return "\0value"


def _value(key: SiteKey, op: str | None, filename: str) -> FoundSite:
    """One op whose operands the host evaluates. Which op a call is may be known only when it runs: then there is no code yet."""
    _, *span = key
    code = [Instruction("RETURN", (None,))]
    names: tuple[str, ...] = ()
    if op is not None:
        names = tuple(f"a{i}" for i in range(max(len(registry.row(op).operands), 1)))
        loads = [Instruction("LOAD_VAR", (i, name)) for i, name in enumerate(names)]
        args = tuple(Arg(False, i) for i in range(len(names)))
        code = [*loads, Instruction("CALL_OP", (len(names), op, 0, args)), Instruction("RETURN", (len(names),))]
    program = Program("value", names, tuple(code), "region", filename=filename, first_line=span[0])
    return FoundSite("value", (span[0], span[1], span[2], span[3]), program)


def _site(key: SiteKey, code: RegionCode, relower: Relower) -> FoundSite:
    form, *span = key
    targets = () if form == "tree" else ("return",) if code.value else code.outputs
    return FoundSite(form, (span[0], span[1], span[2], span[3]), _annotated(code, relower), targets)


def _annotated(code: RegionCode, relower: Relower) -> Program:
    """A region's program with what the interpreter asks before it runs it; see `execution.Execution.site`."""

    def for_personality(name: str) -> Program | None:
        other = relower(name)
        return None if other is None or other.inputs != code.inputs else _annotated(other, relower)

    notes = {
        "vm.functions": code.function_pcs,
        "vm.members": code.member_pcs,
        "vm.callables": dict(zip(code.callables, code.callable_values, strict=True)),
        "vm.relower": for_personality,
    }
    return replace(code.program, notes={**code.program.notes, **notes})


def site_finder(node: ast.AST, name: str, filename: str, lookup: Lookup, seeds: Mapping[str, Kind], *, cell: bool) -> SiteFinder:
    """Finds the regions that the linked form would make inside host code, so that both forms run the same kernels."""

    def find_sites(what: Sequence[ast.stmt] | ast.expr, bound: frozenset[str]) -> list[FoundSite]:
        collector = _Collector()
        context = FormerContext(name, filename, lookup, collector, seeds=dict(seeds), namespace_scope=cell)
        former = RegionFormer(node, context, bound=bound)
        if isinstance(what, ast.expr):
            former.expression(copy_tree(what))
        else:
            former.block([copy_tree(s) for s in what])
        regions = [_site(*found) for found in collector.regions]
        return sorted([*regions, *(_value(key, op, filename) for key, op in collector.values)], key=lambda site: site.span)

    return find_sites


def lookup_of(function: types.FunctionType) -> Lookup:
    """What global, free and builtin names of a function mean now."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def lookup(name: str) -> Any:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                return MISSING
        if name in function.__globals__:
            return function.__globals__[name]
        return vars(builtins).get(name, MISSING)

    return lookup


def analyse_function(
    function: types.FunctionType,
    arguments: Mapping[str, Any] | None = None,
    *,
    hints: Mapping[str, ShapeHint] | None = None,
    source: FunctionSource | None = None,
) -> Analysed:
    """What `generate` needs. `arguments`: example values by parameter name. Raises LoweringError without source."""
    if not registry.rows():
        registry.load_families()
    source = source or source_of(function)
    lookup = lookup_of(function)
    seeds = {name: Kind.TENSOR if isinstance(value, TensorSpec) else kind_of_value(value) for name, value in (arguments or {}).items()}
    scope = Scope(source.node)
    personality = personality_of_arguments((arguments or {}).values())
    classifier = Classifier(scope, lookup, seeds=seeds, personality=personality)
    return Analysed(
        node=source.node,
        scope=scope,
        classifier=classifier,
        name=function.__qualname__,
        filename=source.filename,
        text=source.text,
        hints=dict(hints or {}),
        find_sites=site_finder(source.node, function.__qualname__, source.filename, lookup, seeds, cell=False),
        free=frozenset(function.__code__.co_freevars),
        future=tuple(n for n in __future__.all_feature_names if getattr(__future__, n).compiler_flag & function.__code__.co_flags),
    )


def source_of(function: types.FunctionType) -> FunctionSource:
    """The source of a function; of a linked one, that of the code it was linked from. Raises LoweringError."""
    linker = function.__dict__.get("__bcvm__")
    if isinstance(linker, Linker) and function.__code__ in (linker.code, linker.original):
        return linker.source
    return find(function)


def personality_of_arguments(values: Any) -> str:
    """Whose tensors a function is called with: "numpy", or that of the first foreign tensor."""
    found = [registry.personality_of(type(v)) for v in values]
    return next((p for p in found if p not in (None, "numpy")), None) or "numpy"


def program_of(function: types.FunctionType, arguments: Mapping[str, Any] | None = None, **options: Any) -> Program:
    """The Program of a function; see `analyse_function`."""
    return generate(analyse_function(function, arguments, **options))


def lower_function(function: Any, args: Sequence[Any] = (), *, example: Mapping[str, Any] | None = None) -> Program:
    """The Program of a function for reading, saving and the reference interpreter.

    `args` (or `example`, by name) are values or TensorSpecs, from which hints and signatures follow;
    annotations go before them, and without either a linked function goes by what it has met so far.
    Raises LoweringError when the function's source cannot be found.
    """
    plain = plain_function(function)
    given = dict(zip(parameter_names(plain), args, strict=False)) if example is None else dict(example)
    linker = getattr(function, "__bcvm__", None)
    if not given and isinstance(linker, Linker):
        given = dict(linker.observed.specs)
    hints = {name: found for name, value in given.items() if (found := _hint_of(value)) is not None}
    hints.update(hints_of(plain))
    return sign(program_of(plain, given, hints=hints), given)


def plain_function(function: Any) -> types.FunctionType:
    """The Python function behind a method or a jitted function. Raises LoweringError when there is none."""
    found = getattr(function, "__func__", function)
    if not isinstance(found, types.FunctionType):
        raise LoweringError(f"{type(function).__name__} objects have no Python code to lower", fix="pass a plain function")
    linker = getattr(found, "__bcvm__", None)
    if isinstance(linker, Linker) and found.__code__ in (linker.code, linker.original):  # `functools.wraps` copies it, too
        return make_twin(found, linker.original)
    return found


def parameter_names(function: types.FunctionType) -> tuple[str, ...]:
    """Parameters in the order in which `lower` and `run` take them: positional ones, `*args`, keyword-only ones, `**kwargs`."""
    code = function.__code__
    names = code.co_varnames
    positional, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    star = int(bool(code.co_flags & inspect.CO_VARARGS))
    packed = names[keyword : keyword + star + int(bool(code.co_flags & inspect.CO_VARKEYWORDS))]
    return (*names[:positional], *packed[:star], *names[positional:keyword], *packed[star:])


def _hint_of(value: Any) -> ShapeHint | None:
    if isinstance(value, TensorSpec):
        return value.hint
    return infer(value.shape) if is_tensor_value(value) else None


def analyse_cell(text: str, namespace: dict[str, Any], *, filename: str = "<cell>", name: str = "cell") -> Analysed:
    """What `generate` needs of a whole cell, whose names live in `namespace`. Raises SyntaxError."""
    if not registry.rows():
        registry.load_families()
    module = ast.parse(text, filename)

    def lookup(wanted: str) -> Any:
        return namespace[wanted] if wanted in namespace else vars(builtins).get(wanted, MISSING)

    scope = Scope(module)
    classifier = Classifier(scope, lookup, namespace_scope=True)
    finder = site_finder(module, name, filename, lookup, {}, cell=True)
    return Analysed(module, scope, classifier, name, filename, text, "cell", {}, finder)


def program_of_cell(text: str, namespace: dict[str, Any], **options: Any) -> Program:
    """The Program of a cell."""
    return generate(analyse_cell(text, namespace, **options))
