"""Runs the Python of a CALL_HOST: source -> code object once per block, then a call per execution.

A block of a function becomes a small function whose free variables are the frame's cells, so it
reads and writes the frame as the user's function would. A block that is the whole body of a
function, generator or coroutine becomes that function itself, with real locals. A block of a cell
runs as module code in the namespace. File name, lines and function name are the user's.
"""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import BcvmError
from ..frontend.naming import mangled, private_class
from ..frontend.quiet import compile_quietly
from ..isa.program import HostBlock, Program
from .frame import Frame
from .hostrewrite import SITE_MARK, SLICE_MARK, LeavingStatements, OwnScope, SiteCalls, StoredNames, parse_block

# Names of the scaffolding around a block; none that user code may mean.
_BLOCK = "_bcvm_block"
_MANGLING = "___"  # leading underscores of a class play no part in its private names
WHOLE_KINDS = frozenset({"generator", "coroutine", "async_generator"})
_FUTURE = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}


class Runner(Protocol):
    """What host code needs of the run it is part of."""

    def site(self, program: Program, operands: tuple[Any, ...]) -> tuple[Any] | None:
        """Run a sub-Program and give its value in a 1-tuple; None when the host must do the work."""

    def value_site(self, program: Program, block: int, site: int, kind: str) -> Callable[..., Any]:
        """What stands for a "value" site: called with the operands it gives a callable that gives the result."""


@dataclass(slots=True)
class HostCode:
    """A compiled block. `whole`: call it with the parameters' values; else it has none.

    `kinds`: of its "value" sites, "call" or "operator".
    """

    code: types.CodeType
    module_level: bool
    whole: bool
    kinds: dict[int, str]


class SiteCall:
    """What a nested site's constant becomes at run time; see `hostrewrite.SiteCalls`."""

    __slots__ = ("program", "run", "one")

    def __init__(self, program: Program, run: Runner, one: bool) -> None:
        self.program = program
        self.run = run.site
        self.one = one  # the program gives one value, not a tuple of targets

    def __matmul__(self, operands: tuple[Any, ...]) -> Any:
        outcome = self.run(self.program, operands)
        return (outcome[0],) if outcome is not None and self.one else outcome and outcome[0]


def is_whole_body(program: Program) -> bool:
    """Is the program one host block that is the function's whole body?"""
    if program.kind in WHOLE_KINDS:
        return True
    if program.kind != "function" or [i.opcode for i in program.instructions] != ["CALL_HOST", "RETURN"]:
        return False
    dest, block = program.instructions[0].operands
    return program.hosts[block].kind == "stmt" and dest is not None and program.instructions[1].operands == (dest,)


def run_block(frame: Frame, index: int, run: Runner) -> Any:
    """Execute block `index` of the frame's program and give its value; exceptions are the user's."""
    program = frame.program
    host = _compiled(program, index, frozenset(frame.closure))
    code = _with_sites(host, program, index, run) if program.hosts[index].sites else host.code
    if host.module_level:
        return exec(code, frame.globals)
    owner = private_class(program.name)
    names = {mangled(name, owner): name for name in (*frame.cells, *frame.closure)}
    cells = tuple(_cell(frame, names.get(name, name)) for name in code.co_freevars)
    function = types.FunctionType(code, frame.globals, code.co_name, None, cells)
    if host.whole:
        return function(*(frame.load(name) for name in program.params))
    try:
        return function()
    except NameError as error:
        failure = _as_local(error, frame, code)
        if failure is error:
            raise
    raise failure  # out of the handler, so that it keeps the user's context


def _as_local(error: NameError, frame: Frame, code: types.CodeType) -> NameError:
    """The frame's variables are free ones of the block; an unbound one must read as the local it is to the user."""
    tail = error.__traceback__
    while tail is not None and tail.tb_next is not None:
        tail = tail.tb_next
    if type(error) is not NameError or tail is None or tail.tb_frame.f_code is not code:
        return error
    for name in code.co_freevars:
        if name in frame.cells and str(error).startswith(f"cannot access free variable '{name}' where"):
            text = f"cannot access local variable '{name}' where it is not associated with a value"
            local = UnboundLocalError(text).with_traceback(error.__traceback__)
            local.__context__ = error.__context__
            local.__suppress_context__ = error.__suppress_context__
            return local
    return error


def _cell(frame: Frame, name: str) -> types.CellType:
    cell = frame.cells.get(name)
    if cell is None:
        cell = frame.closure.get(name)
    if cell is None:
        raise BcvmError(f"host code of {frame.program.name} reads {name!r}, which no enclosing scope has", where=frame.where())
    return cell


def _compiled(program: Program, index: int, free: frozenset[str]) -> HostCode:
    cache: dict[Any, HostCode] = program.notes.setdefault("vm.host", {})
    key = (index, free)
    found = cache.get(key)
    if found is None:
        found = cache[key] = compile_block(program, index, free)
    return found


def compile_block(program: Program, index: int, free: Iterable[str] = ()) -> HostCode:
    """The code object of a block. `free` are names that have cells outside of the frame."""
    block = program.hosts[index]
    body, kinds = _rewritten(program, block)
    _place(block, body)
    whole = is_whole_body(program)
    if whole:
        return HostCode(_function_code(program, body, free, whole=True), False, True, kinds)
    leaving = LeavingStatements()
    if block.kind == "stmt":
        body = [leaving.visit(s) for s in body]
    if program.kind == "cell" and block.kind == "stmt" and not leaving.leaves:
        code = compile_quietly(ast.Module(body, []), program.filename, "exec", _flags(program))
        return HostCode(code, True, False, kinds)
    own = OwnScope(program.params[0] if program.params else None, annotations=True)
    body = [own.visit(s) for s in body]
    return HostCode(_function_code(program, body, free, whole=False), False, False, kinds)


def _rewritten(program: Program, block: HostBlock) -> tuple[list[ast.stmt], dict[int, str]]:
    body = parse_block(block.kind, block.source)
    if not block.sites:
        return body, {}
    calls = SiteCalls(block.sites, [program.nested[s.program].params for s in block.sites])
    return calls.block(body), calls.kinds


def _place(block: HostBlock, body: list[ast.stmt]) -> None:
    """Move positions to where the block stands in the file: a statement's lines were dedented, an expression's were not."""
    for statement in body:
        for node in ast.walk(statement):
            if hasattr(node, "col_offset"):
                everywhere = block.kind == "stmt"
                node.col_offset += block.column if everywhere or node.lineno == 1 else 0  # type: ignore[attr-defined]
                node.end_col_offset += block.column if everywhere or node.end_lineno == 1 else 0  # type: ignore[attr-defined]
                node.lineno += block.line - 1  # type: ignore[attr-defined]
                node.end_lineno += block.line - 1  # type: ignore[attr-defined]


def _flags(program: Program) -> int:
    return sum(_FUTURE.get(name, 0) for name in program.notes.get("future", ()))


def _simple_name(program: Program) -> str:
    return "<module>" if program.kind == "cell" else program.name.rpartition(".")[2] or program.name


def _function_code(program: Program, body: list[ast.stmt], free: Iterable[str], whole: bool) -> types.CodeType:
    """Compile `body` as a function within the scopes it needs: free variables around it, its class for private names."""
    frame_names = set() if program.kind == "cell" or whole else {*program.params, *program.local_names}
    outside = sorted(set(free) | frame_names)
    if not whole or not (program.params or program.local_names):  # a whole body without locals is a cell's: its names are global
        body = _prelude(body, set(outside)) + body
    owner = private_class(program.name)
    function = _function_node(program, body or [ast.Pass()], program.params if whole else ())
    inner: ast.stmt = function
    if owner is not None:
        inner = ast.ClassDef(name=_MANGLING + owner.lstrip("_"), bases=[], keywords=[], body=[inner], decorator_list=[])
    scope = ast.FunctionDef(name="scope", args=_arguments(mangled(n, owner) for n in outside), body=[inner], decorator_list=[])
    module = ast.Module([scope], [])
    for node in ast.walk(module):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = program.first_line or 1  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not hasattr(node, "type_params"):
            node.type_params = []  # type: ignore[union-attr]  # from 3.12 on
    top = compile_quietly(module, program.filename, "exec", _flags(program))
    code = _find(top, function.name)
    name = _simple_name(program)
    around = "" if name == "<module>" else f"{program.name}.<locals>."
    code = _renamed(code, f"{code.co_qualname}.<locals>.", around)
    return code.replace(co_name=name, co_qualname=around.removesuffix(".<locals>.") or name)


def _renamed(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """`code` with the qualified names of functions and classes made in it as they are in the user's own code."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _renamed(constant, old, new)
            constants.append(inner.replace(co_qualname=inner.co_qualname.replace(old, new, 1)))
        elif type(constant) is str and constant.startswith(old):  # a class body stores its own
            constants.append(constant.replace(old, new, 1))
        else:
            constants.append(constant)
    return code.replace(co_consts=tuple(constants))


def _prelude(body: list[ast.stmt], outside: set[str]) -> list[ast.stmt]:
    stored = StoredNames(body)
    stored.names.discard("_bcvm_result")
    lines: list[ast.stmt] = []
    nonlocal_names = sorted(stored.names & outside)
    global_names = sorted((stored.names | stored.declared) - outside)
    if nonlocal_names:
        lines.append(ast.Nonlocal(nonlocal_names))
    if global_names:
        lines.append(ast.Global(global_names))
    return lines


def _arguments(names: Iterable[str]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])


def _function_node(program: Program, body: list[ast.stmt], params: Iterable[str]) -> Any:
    kind = ast.AsyncFunctionDef if program.kind in ("coroutine", "async_generator") else ast.FunctionDef
    return kind(name=_BLOCK, args=_arguments(params), body=body, decorator_list=[])


def _find(code: types.CodeType, name: str) -> types.CodeType:
    """The innermost of our scaffolding: module -> scope -> (class ->) function."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and code.co_name != "<module>":
                return constant
            return _find(constant, name)
    raise BcvmError(f"host code of {name} did not compile to a function")


def _with_sites(host: HostCode, program: Program, index: int, run: Runner) -> types.CodeType:
    """A copy of the block's code whose site marks are calls bound to this run."""
    calls: dict[str, Any] = {SLICE_MARK: slice}
    for k, site in enumerate(program.hosts[index].sites):
        if site.form == "value":
            calls[f"{SITE_MARK}{k}"] = run.value_site(program, index, k, host.kinds.get(k, "call"))
        else:
            one = site.form == "tree" or site.targets == ("return",)
            calls[f"{SITE_MARK}{k}"] = SiteCall(program.nested[site.program], run, one)
    return _replace(host.code, calls)


def _replace(code: types.CodeType, calls: Mapping[str, Any]) -> types.CodeType:
    constants = tuple(
        _replace(c, calls) if isinstance(c, types.CodeType) else calls.get(c, c) if type(c) is str else c for c in code.co_consts
    )
    return code.replace(co_consts=constants)
