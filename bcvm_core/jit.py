"""`jit`: a function whose tensor work runs through the VM, alike in everything else.

The returned function is a twin of the given one: same name, signature, defaults, closure cells,
docstring and source. It carries `stats()`, `explain()`, `program()` and `dis()`.
"""

from __future__ import annotations

import logging
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

from . import config, modes
from .errors import BcvmError, LoweringError
from .frontend import source
from .vm import twin
from .vm.linked import Linker

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__bcvm__"
_VIEWS = ("stats", "explain", "program", "dis")
_log = logging.getLogger("bcvm")


@overload
def jit(function: F, /) -> F: ...
@overload
def jit(*, strict: bool = False) -> Callable[[F], F]: ...


def jit(function: Any = None, /, *, strict: bool = False) -> Any:
    """Run the tensor work of `function` through the VM.

    Use as ``@jit`` or ``@jit(strict=True)``. What is no tensor work runs as the Python it is, with
    full semantics. Under `strict` a callable of the op table that would run on the host raises
    StrictError instead, and a function that cannot be lowered raises LoweringError; otherwise such a
    function is returned as it is. An `nn.Cell` is returned itself: its calls run as under `enable`.
    """
    if function is None:
        return lambda f: _lowered_any(f, strict)
    return _lowered_any(function, strict)


def _lowered_any(function: Any, strict: bool) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_lowered(function.__func__, strict))
    if modes.is_model(function):
        return modes.choose(function)
    return _lowered(function, strict)


def _lowered(function: Any, strict: bool) -> Any:
    if getattr(function, "__bcvm_nojit__", False):
        return function
    try:
        return _twin_of(function, strict)
    except BcvmError as error:
        if strict or not isinstance(error, LoweringError):
            raise
        return function
    except Exception as error:  # a fault of ours must not become the user's
        if strict:
            raise LoweringError(f"{getattr(function, '__qualname__', function)} could not be lowered: {error!r}") from error
        _log.debug("could not lower %r", function, exc_info=True)
        return function


def _twin_of(function: Any, strict: bool) -> Any:
    known = _own_linker(function)
    if known is not None and known.strict == strict:
        if "stats" in function.__dict__:
            return function
        if known.adopted and known.is_fresh():  # just now, by the cell that holds the `def`
            result = twin.make_twin(function, function.__code__)
            _attach(result, known)
            return result
    if _ATTRIBUTE in getattr(function, "__dict__", ()) and isinstance(function, types.FunctionType):
        function = twin.make_twin(function, function.__code__ if known is None else known.original)
        _strip(function)
    found = source.find(function)
    linker = Linker(function, found, strict=strict)
    _check_shapes(linker, function)
    result = twin.make_twin(function, linker.link())
    _attach(result, linker)
    return result


def _check_shapes(linker: Linker, function: types.FunctionType) -> None:
    """Give annotated functions their entry check."""
    try:
        from .frontend.annotations import hints_of
    except ImportError:
        return
    from .vm.entry import EntryCheck

    hints = hints_of(function)
    if hints:
        linker.hints = dict(hints)
        linker.check_entry = EntryCheck(linker.name, linker.filename, function.__code__.co_firstlineno, linker.hints)


def _attach(function: types.FunctionType, linker: Linker) -> None:
    """Hang the read-only views on the function."""
    linker.functions.add(function)
    function.__dict__[_ATTRIBUTE] = linker
    for name in _VIEWS:
        function.__dict__.setdefault(name, _View(name, function, linker))


class _View:
    """A method of a jitted function. It holds the function weakly: what its code holds goes when it goes."""

    def __init__(self, name: str, function: types.FunctionType, linker: Linker) -> None:
        self.name = name
        self.function = weakref.ref(function)
        self.linker = linker

    def __call__(self, *args: Any) -> Any:
        if self.name == "stats":
            return self.linker.stats
        if self.name == "explain":
            return self.linker.explain(decisions=True)
        function = self.function() or self.linker.prototype()
        return _dis(function, *args) if self.name == "dis" else program_of(function, *args)

    def __reduce__(self) -> Any:
        return type(None), ()  # a function pickled by value is plain where it arrives


def _dis(function: Any, *args: Any) -> str:
    from .isa.text import disassemble

    return disassemble(program_of(function, *args))


def program_of(function: Any, *args: Any) -> Any:
    """The Program of a function; `args` are example values or `TensorSpec`s from which hints and signatures follow.

    Raises LoweringError when the function's source cannot be found.
    """
    from .lower import lower

    return lower(function, *args)


def nojit(function: F) -> F:
    """Keep a function as plain Python wherever BCVM would lower it."""
    known = _own_linker(function)
    if known is not None and isinstance(function, types.FunctionType):
        function.__code__ = known.original
        _strip(function)
    function.__bcvm_nojit__ = True  # type: ignore[attr-defined]
    return function


def adopt(function: Any) -> Any:
    """Link a function in place: what the kernel does with functions defined in cells.

    The same function object gets the linked code, so that identity, decorators and pickling are
    untouched. Never raises: what cannot be linked stays as it is.
    """
    if type(function) is not types.FunctionType or getattr(function, "__bcvm_nojit__", False) or not config.current.enabled:
        return function
    try:
        linker = Linker(function, source.find(function))
        linker.adopted = True
        _check_shapes(linker, function)
        code = linker.link()
        if code is not function.__code__:
            function.__code__ = code
            linker.functions.add(function)
        function.__dict__[_ATTRIBUTE] = linker
    except Exception:  # an adopted function is the user's; any fault of ours leaves it alone
        return function
    return function


def adopt_again(function: Any, linker: Linker) -> bool:
    """Adopt a function made from the code object that `linker` links already; False when it must be linked anew.

    What was taken out of the code or found unsafe gets another chance, and so do other shape hints and globals.
    """
    code = linker.code
    if type(function) is not types.FunctionType or getattr(function, "__bcvm_nojit__", False) or not config.current.enabled:
        return False
    if code is None or function.__code__ is not linker.original or function.__globals__ is not linker.globals:
        return False
    if function.__code__.co_freevars or linker.table.dead or linker.unsafe or not _same_hints(function, linker):
        return False
    if code is not function.__code__:
        function.__code__ = code
        linker.functions.add(function)
    function.__dict__[_ATTRIBUTE] = linker
    return True


def _same_hints(function: types.FunctionType, linker: Linker) -> bool:
    from .frontend.annotations import hints_of

    try:
        return dict(hints_of(function) or {}) == linker.hints
    except Exception:  # a malformed one: linking says so
        return False


def _own_linker(function: Any) -> Linker | None:
    """The linker of this very function; `functools.wraps` hangs that of a jitted function on its wrapper, too."""
    known = linker_of(function)
    return known if known is not None and getattr(function, "__code__", None) in (known.code, known.original) else None


def _strip(function: types.FunctionType) -> None:
    for name in (_ATTRIBUTE, *_VIEWS):
        function.__dict__.pop(name, None)


def linker_of(function: Any) -> Linker | None:
    """The linker behind a jitted or adopted function."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Linker) else None
