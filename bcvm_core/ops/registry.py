"""The op table: what each op means, how users spell it, and how a call is matched to a row.

A row (`OpInfo`) is written once, in its family's file. Nothing lists ops a second time.

Calling convention of every implementation of an op (definition and kernels): required tensor
parameters by position, everything else by keyword; the result is what NumPy would return
(array, scalar, tuple, Python value). An implementation may raise `errors.Decline` to leave one
execution to Python; any other exception is the op's own.
"""

from __future__ import annotations

import ast
import importlib
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..errors import UnknownOpError


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class Param:
    """A canonical parameter. role: "tensor" (operand), "tensors" (one sequence of operands), "attr"."""

    name: str
    role: str = "attr"
    default: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way users write an op.

    `target` is "numpy.sum", "numpy.ndarray.sum" (method), "numpy.ndarray.T" with `kind="attribute"`,
    "operator.add" (the syntax), "bcvm_core.ops.relu", "mindspore.mint.sum", "mindspore.Tensor.sum".
    `signature` is the parameter list of that callable in Python's syntax (methods: without self,
    which is the first canonical operand unless `rename` says otherwise). `rename` maps the callable's parameter names to
    canonical ones where they differ; a parameter that is neither canonical nor renamed is not
    supported: a call that passes it goes to the host.

    A callable with overloads is a chain: a call that `signature` does not fit is tried with
    `otherwise`, whose row (`op`, by name) may be another one.

    Parameters that no row has: those of `extra` are passed along for the library's adapter, and those of
    `only` must have the value that stands there, which the adapter checks when the call runs (attribute "only").
    """

    target: str
    signature: str = ""
    rename: Mapping[str, str] = field(default_factory=dict)
    kind: str = "function"  # "function", "method", "attribute", "operator"
    fixed: Mapping[str, Any] = field(default_factory=dict)  # attributes the call does not give: defaults that differ from the row's
    extra: frozenset[str] = frozenset()
    only: Mapping[str, Any] = field(default_factory=dict)
    op: str = ""  # row of an alternative in a chain
    otherwise: Spelling | None = None


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One row of the op table; see the field comments."""

    name: str
    family: str
    params: tuple[Param, ...]
    definition: Callable[..., Any]  # the slow truth: NumPy, by the calling convention above
    doc: str
    spellings: tuple[Spelling, ...] = ()
    shape_rule: str = "elementwise"  # "elementwise" (broadcast), "reduce", "matmul", "conv", "view", "same", "create", "other"
    dtype_rule: str = "promote"  # "promote", "bool", "float" (ints become floats), "same", "attr" (dtype=), "index", "other"
    flops: Callable[..., float] | None = None  # flops(*shapes, **attrs); None: one per output element
    fuse: str = "none"  # "elementwise", "reduce", "matmul", "conv", "view", "none"
    policy: int = 0  # fusion policy under which a region with this op is marked; 0: none
    gradient: str | None = None  # formula per operand, None: not differentiable
    result: str = "tensor"  # "tensor", "python" (never a tensor: shapes, sizes, items), "any"
    exact: bool = True  # bits are those of the installed NumPy (so host and VM agree to the last bit)
    scalar: Callable[..., Any] | None = None  # what runs when no operand is a tensor (operator.add, ...)
    writes: bool = False  # modifies its first operand (setitem)
    fp_name: str | None = None  # the name NumPy gives in floating-point warnings; None: `name`
    pure_python: bool = False  # may run on Python values inside a region (len, tuple indexing)

    @property
    def operands(self) -> tuple[Param, ...]:
        """Required tensor parameters, passed by position."""
        return tuple(p for p in self.params if p.role != "attr" and p.default is REQUIRED)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A user-level call in canonical form; values are whatever was bound (AST nodes or run-time values)."""

    op: OpInfo
    operands: tuple[Any, ...]
    attrs: dict[str, Any]


_FAMILIES = (
    "elementwise",
    "elementwise_more",
    "activations",
    "rectifiers",
    "reduce",
    "moments",
    "linalg",
    "matrices",
    "conv",
    "shape",
    "create",
    "nn",
    "random",
    "layer_forms",
    "layer_forms_more",
)

_rows: dict[str, OpInfo] = {}
_functions: dict[int, tuple[Any, OpInfo, Spelling]] = {}
_methods: dict[tuple[str, str], tuple[OpInfo, Spelling]] = {}  # (personality, name)
_attributes: dict[tuple[str, str], tuple[OpInfo, Spelling]] = {}
_operators: dict[str, OpInfo] = {}
_pending: dict[str, list[tuple[OpInfo, Spelling]]] = {}  # top-level module not imported yet -> spellings
_signatures: dict[str, _Parameters] = {}
_RECEIVERS = {"numpy.ndarray": "numpy", "mindspore.Tensor": "mindspore"}  # owner of a method -> personality of its receivers

spelling_doors: dict[str, Callable[[], object]] = {}
"""Top-level module name -> function that adds that module's spellings. Called once the module is there and a callable is looked up."""

instance_doors: dict[type, Callable[[Any], tuple[OpInfo, Spelling] | None]] = {}
"""Class of callable objects -> the row and spelling of one of them, as its attributes say now; None: they say what no row has.

Subclasses are not asked about: they may call anything.
"""


@dataclass(frozen=True, slots=True)
class _Parameters:
    """A parsed `Spelling.signature`."""

    every: tuple[str, ...]  # all names in order
    positional: tuple[str, ...]
    names: frozenset[str]  # that may be passed by keyword
    required: frozenset[str]
    star: str | None


def _parse_signature(text: str) -> _Parameters:
    args = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    positional = [a.arg for a in args.posonlyargs + args.args]
    optional = set(positional[len(positional) - len(args.defaults) :]) if args.defaults else set()
    keyword = [a.arg for a in args.kwonlyargs]
    optional |= {k for k, d in zip(keyword, args.kw_defaults, strict=True) if d is not None}
    names = frozenset(positional + keyword)
    star = args.vararg.arg if args.vararg else None
    every = (*positional, *filter(None, [star]), *keyword)
    return _Parameters(every, tuple(positional), names - {a.arg for a in args.posonlyargs}, names - optional, star)


def _parameters(signature: str) -> _Parameters:
    """A signature, parsed once."""
    parsed = _signatures.get(signature)
    if parsed is None:
        parsed = _signatures[signature] = _parse_signature(signature)
    return parsed


def parameter_names(signature: str) -> tuple[str, ...]:
    """The names of all parameters of a `Spelling.signature`, in order."""
    return _parameters(signature).every


def register(row: OpInfo) -> None:
    """Add a row. Its name and spellings must be new."""
    if row.name in _rows:
        raise ValueError(f"op {row.name} is listed twice")
    _rows[row.name] = row
    for spelling in row.spellings:
        add_spelling(row, spelling)


def add_spelling(row: OpInfo, spelling: Spelling) -> None:
    """Make `spelling` mean `row`; modules that are not imported yet are resolved when they are."""
    if spelling.kind == "operator":
        _operators[spelling.target.rpartition(".")[2]] = row
        return
    owner, _, name = spelling.target.rpartition(".")
    if spelling.kind in ("method", "attribute"):
        table = _methods if spelling.kind == "method" else _attributes
        table[_RECEIVERS[owner], name] = (row, spelling)
    elif spelling.kind == "function":
        root = spelling.target.partition(".")[0]
        if root in ("numpy", "builtins", "math"):
            _resolve_function(row, spelling)
        else:
            _pending.setdefault(root, []).append((row, spelling))


def _resolve_function(row: OpInfo, spelling: Spelling) -> None:
    module, _, name = spelling.target.rpartition(".")
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return  # this version of the library has no such callable
    _functions.setdefault(id(value), (value, row, spelling))


def _open_doors() -> None:
    for root in [r for r in spelling_doors if r in sys.modules]:
        spelling_doors.pop(root)()


def _resolve_pending() -> None:
    _open_doors()
    for root in [r for r in _pending if r in sys.modules]:
        for row, spelling in _pending.pop(root):
            _resolve_function(row, spelling)


def row(name: str) -> OpInfo:
    """The row called `name`. Raises UnknownOpError with the nearest names."""
    found = _rows.get(name)
    if found is None:
        import difflib

        near = difflib.get_close_matches(name, _rows, n=3)
        raise UnknownOpError(f"unknown op {name!r}", fix=f"did you mean {', '.join(near)}?" if near else "`bcvm pool` lists all ops")
    return found


def rows() -> tuple[OpInfo, ...]:
    """All rows, in the order of the families."""
    return tuple(_rows.values())


def by_callable(value: Any) -> tuple[OpInfo, Spelling] | None:
    """The row a function or class stands for, by identity; that of an object, by its class (`instance_doors`)."""
    found = _functions.get(id(value))
    if found is None and (_pending or spelling_doors):
        _resolve_pending()
        found = _functions.get(id(value))
    if found is not None and found[0] is value:
        return found[1], found[2]
    door = instance_doors.get(type(value))
    return None if door is None else door(value)


def by_method(name: str, personality: str = "numpy") -> tuple[OpInfo, Spelling] | None:
    """The row that the method `name` stands for; `personality` says whose tensors the receiver is one of ("numpy", "mindspore")."""
    if spelling_doors and personality != "numpy":
        _open_doors()
    return _methods.get((personality, name))


def by_attribute(name: str, personality: str = "numpy") -> tuple[OpInfo, Spelling] | None:
    """The row that reading the attribute `name` of a tensor stands for; `personality` as in `by_method`."""
    if spelling_doors and personality != "numpy":
        _open_doors()
    return _attributes.get((personality, name))


def takes(spelling: Spelling, personality: str | None) -> bool:
    """Whether a function spelled so computes with tensors of that personality; NumPy's functions turn MindSpore's into arrays first."""
    return personality in (None, "numpy") or not spelling.target.startswith(("numpy.", "math."))


maker_dialects: set[str] = set()
"""Dialects of spellings that make tensors of their library where no operand is one."""


def needs(spelling: Spelling) -> str | None:
    """Whose tensors must be among the operands of a call spelled so: other operands the library's own function reads in its own way."""
    library = spelling.target.startswith("mindspore.") and spelling.fixed.get("dialect") not in maker_dialects
    return "mindspore" if library else None


def has_needed(spelling: Spelling, values: Iterable[Any]) -> bool:
    """Whether the tensors that a spelling `needs` are among values and sequences of them."""
    needed = needs(spelling)
    return needed is None or any(personality_of(type(v)) == needed for value in values for v in _each(value))


def is_bound_to_library(function: Any) -> bool:
    """Whether a function computes with tensors of its own library only."""
    found = by_callable(function)
    return found is not None and needs(found[1]) is not None


def _each(value: Any) -> Sequence[Any]:
    return value if type(value) in (list, tuple) else (value,)


_personalities: weakref.WeakKeyDictionary[type, str | None] = weakref.WeakKeyDictionary()


def personality_of(tp: type) -> str | None:
    """Whose semantics the tensors of a type have; None for types that are no tensors BCVM knows."""
    try:
        return _personalities[tp]
    except KeyError:
        found = _personalities[tp] = _personality(tp)
        return found


def claim(tp: type, personality: str) -> None:
    """Values of this type are tensors with that library's semantics."""
    _personalities[tp] = personality


def _personality(tp: type) -> str | None:
    if issubclass(tp, np.ndarray | np.generic):
        return "numpy"
    return "mindspore" if any(base.__name__ == "Tensor" and base.__module__ == "mindspore.common.tensor" for base in tp.__mro__) else None


def method_spelling_for(tp: type, name: str) -> tuple[OpInfo, Spelling] | None:
    """`by_method` for the actual type of a receiver: for front ends that bind late."""
    personality = personality_of(tp)
    return None if personality is None else by_method(name, personality)


def attribute_spelling_for(tp: type, name: str) -> tuple[OpInfo, Spelling] | None:
    """`by_attribute` for the actual type of a receiver."""
    personality = personality_of(tp)
    return None if personality is None else by_attribute(name, personality)


def by_operator(name: str) -> OpInfo | None:
    """The row of a syntax operator by the name of its AST class: "Add", "Lt", "USub", "Subscript"."""
    return _operators.get(name)


def bind(op: OpInfo, spelling: Spelling, args: Sequence[Any], kwargs: Mapping[str, Any], self_value: Any = REQUIRED) -> BoundCall | None:
    """Match a call to the canonical parameters; None when the call uses what the row does not support.

    Works on AST nodes and on values alike: nothing is looked at. `self_value` is the receiver of a method.
    """
    bound = _bind_one(op, spelling, args, kwargs, self_value)
    if bound is None and spelling.otherwise is not None:
        return bind(row(spelling.otherwise.op), spelling.otherwise, args, kwargs, self_value)
    return bound


def _bind_one(op: OpInfo, spelling: Spelling, args: Sequence[Any], kwargs: Mapping[str, Any], self_value: Any) -> BoundCall | None:
    parsed = _parameters(spelling.signature)
    given: dict[str, Any] = {}
    extra: tuple[Any, ...] | None = None
    if len(args) > len(parsed.positional):
        if parsed.star is None:
            return None
        extra = tuple(args[len(parsed.positional) :])
    given.update(zip(parsed.positional, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in parsed.names:
            return None
        given[name] = value
    if not parsed.required <= given.keys():
        return None
    canonical: dict[str, Any] = {}
    if self_value is not REQUIRED:
        canonical[spelling.rename.get("self", op.params[0].name)] = self_value
    star = spelling.rename.get(parsed.star, parsed.star) if parsed.star is not None else None
    if star is not None:
        canonical[star] = extra or ()
    for name, value in given.items():
        name = spelling.rename.get(name, name)
        if name in canonical:
            return None  # two names of one parameter
        canonical[name] = value
    known = {p.name for p in op.params}
    if not known.issuperset(canonical) and not (known | spelling.extra | spelling.only.keys()).issuperset(canonical):
        return None
    try:
        operands = tuple(canonical.pop(p.name) for p in op.operands)
    except KeyError:
        return None
    if star is not None and extra is None:
        canonical.pop(star, None)  # nothing variadic was passed: as if the call did not name it
    fixed = spelling.fixed
    if spelling.only and not spelling.only.keys().isdisjoint(canonical):
        fixed = _limited(spelling, canonical)
    if fixed:
        canonical = _with_fixed(fixed, canonical, (*args, *kwargs.values(), self_value))
    return BoundCall(op, operands, canonical)


def _limited(spelling: Spelling, given: dict[str, Any]) -> Mapping[str, Any]:
    """The fixed attributes of a call that gives parameters of `only`; constants that have the value are taken out of `given`."""
    limits = []
    for name, value in spelling.only.items():
        node = given.get(name)
        if isinstance(node, ast.Constant) and node.value is value:
            del given[name]
        elif name in given:
            limits.append((name, value))
    return {**spelling.fixed, "only": tuple(limits)} if limits else spelling.fixed


def _with_fixed(fixed: Mapping[str, Any], given: dict[str, Any], values: Iterable[Any]) -> dict[str, Any]:
    """Add the fixed attributes that a call does not give; as syntax nodes where the call is one."""
    place = next((v for v in values if isinstance(v, ast.expr)), None)
    missing = {name: value for name, value in fixed.items() if name not in given}
    if place is not None:
        missing = {name: ast.copy_location(ast.Constant(value), place) for name, value in missing.items()}
    return {**given, **missing}


Executor = Callable[[OpInfo, Iterable[Any], Mapping[str, Any]], Any]


def _run_definition(op: OpInfo, operands: Iterable[Any], attrs: Mapping[str, Any]) -> Any:
    return op.definition(*operands, **attrs)


executor: Executor = _run_definition  # replaced by the kernel pool once a door is imported


def run(op: OpInfo, operands: Iterable[Any], attrs: Mapping[str, Any]) -> Any:
    """Run an op eagerly, as `bcvm.ops` functions do outside a program."""
    return executor(op, operands, attrs)


def load_families() -> None:
    """Import every family's file once and register its rows."""
    for family in _FAMILIES:
        module = importlib.import_module(f"{__package__}.{family}")
        for entry in module.ROWS:
            register(entry)
