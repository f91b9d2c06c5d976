"""The engines that a cell can be compared under, and what their names mean.

`bcvm`     this kernel's tiers. Always part of a comparison.
`numpy`    the cell as it stands, in plain Python with NumPy, without BCVM. Not for cells that work on MindSpore tensors.
`pynative` MindSpore op by op, without BCVM. A cell that works on MindSpore tensors runs as it stands. In a cell of NumPy arrays, arrays are
           handed over as tensors, and names that stand for the module `numpy` stand for `mindspore.numpy`.
`jit`      as `pynative`, with the cell's statements as one function under `mindspore.jit` (definitions and imports run before it).
`torch`    as `pynative`, with PyTorch: arrays become its tensors, and `numpy` the NumPy-like interface that PyTorch carries.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from bcvm_core.errors import BcvmError

from .state import is_model, is_tensor, is_torch, of_notebook

if TYPE_CHECKING:
    from ..shell import CellDoor
    from .state import State

NEEDS = {"pynative": "mindspore", "jit": "mindspore", "torch": "torch"}


class UnfitError(BcvmError):
    """An engine can't run this cell, or isn't installed."""


class CellCode:
    """The statements of one cell, as IPython runs them: one by one, the last one shown if it is an expression."""

    def __init__(self, body: list[ast.stmt], filename: str, flags: int) -> None:
        self.body = body
        self.filename = filename
        self.flags = flags

    def plain(self, node: ast.AST) -> CodeType:
        """Compile a Module or an Interactive as Python does."""
        mode = "single" if isinstance(node, ast.Interactive) else "exec"
        return compile(node, self.filename, mode, self.flags, dont_inherit=True)  # type: ignore[no-any-return, call-overload]

    def nodes(self, body: list[ast.stmt] | None = None) -> Iterator[ast.AST]:
        """What IPython compiles: a Module for each statement, an Interactive for an expression at the end."""
        statements = self.body if body is None else body
        for n, statement in enumerate(statements):
            last = n == len(statements) - 1
            yield ast.Interactive([statement]) if last and isinstance(statement, ast.Expr) else ast.Module([statement], [])


class Engine:
    """Runs the cell in a namespace. `run` is called again and again from the same state; only it is timed."""

    vm = False  # whether BCVM is on meanwhile

    def __init__(self, name: str, cell: CellCode, state: State) -> None:
        self.name, self.cell, self.state = name, cell, state
        self._codes: list[CodeType] = []

    def prepare(self) -> None:
        """Before each run, when the state has been put back. Raises UnfitError where the engine has nothing to run."""

    def check(self, values: list[Any]) -> None:
        """After the first run, with what it left. Raises UnfitError when the engine took no part in it."""

    def close(self) -> None:
        """The comparison is over."""

    def run(self) -> None:
        """Run the cell."""
        if not self._codes:
            self._codes = [self.cell.plain(node) for node in self.cell.nodes()]
        for code in self._codes:
            exec(code, self.state.namespace)


class Numpy(Engine):
    """`numpy`."""

    def prepare(self) -> None:
        if any(is_tensor(value) or is_model(value) for value in self.state.values()):
            raise UnfitError("the cell works on MindSpore tensors", fix="the same cell without BCVM is `pynative`")

    def check(self, values: list[Any]) -> None:
        if any(is_tensor(value) for value in values):
            raise UnfitError("the cell works on MindSpore tensors", fix="the same cell without BCVM is `pynative`")


class Vm(Engine):
    """`bcvm`. Each statement is compiled when the one before it has run, when its names have the types it is linked for."""

    vm = True

    def __init__(self, name: str, cell: CellCode, state: State, door: CellDoor) -> None:
        super().__init__(name, cell, state)
        self._door = door

    def run(self) -> None:
        if self._codes:
            super().run()
            return
        codes = []
        for node in self.cell.nodes(self._door.grouped(self.cell.body)):
            codes.append(self._door.compile_node(node, self.cell.filename, self.cell.plain))
            exec(codes[-1], self.state.namespace)
        self._codes = codes


class Converted(Engine):
    """`pynative` and `torch`: arrays are another library's tensors, and `numpy` is its NumPy-like interface."""

    def prepare(self) -> None:
        library = NEEDS[self.name]
        try:
            importlib.import_module(library)
        except ImportError:
            raise UnfitError(f"{library} is not installed", fix=_FIXES[library]) from None
        if any(self._own(value) for value in self.state.values()):
            return  # the cell speaks this library itself
        self.convert(_interface(library))

    def _own(self, value: object) -> bool:
        return is_torch(value) if self.name == "torch" else is_tensor(value) or is_model(value)

    def convert(self, interface: Any) -> None:
        """Hand arrays over as tensors, in containers and objects, too."""
        seen: dict[int, Any] = {}
        namespace = self.state.namespace
        for name in self.state.names:
            if name in namespace:
                namespace[name] = _converted(namespace[name], interface, seen)
        body = [_Imports(interface.module).visit(node) for node in map(_copied, self.cell.body)]
        if not self._codes:
            self._codes = [self.cell.plain(node) for node in self.cell.nodes(body)]

    def check(self, values: list[Any]) -> None:
        if not any(self._own(value) for value in values):
            raise UnfitError(f"no {NEEDS[self.name]} tensor took part: the cell makes its arrays by other means than the name of `numpy`")


_FIXES = {"mindspore": "pip install 'bcvm[mindspore]'", "torch": "pip install torch"}


class _Interface:
    """What stands for `numpy`, and how an array becomes a tensor."""

    def __init__(self, module: str, tensor: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        self.module = module
        self.stands_for_numpy = importlib.import_module(module)
        self.tensor = tensor


def _interface(library: str) -> _Interface:
    if library == "mindspore":
        return _Interface("mindspore.numpy", sys.modules["mindspore"].Tensor)
    found = _Interface("torch._numpy", lambda array: None)
    found.tensor = lambda array: found.stands_for_numpy.asarray(sys.modules["torch"].from_numpy(array.copy()))
    return found


def _converted(value: Any, interface: _Interface, seen: dict[int, Any]) -> Any:
    """`value` with tensors for its arrays; lists, dicts and objects keep their identity, and the state puts them back."""
    if id(value) in seen:
        return seen[id(value)]
    if value is np:
        return interface.stands_for_numpy
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        seen[id(value)] = interface.tensor(value)
        return seen[id(value)]
    seen[id(value)] = value
    if type(value) is tuple:
        return tuple(_converted(each, interface, seen) for each in value)
    if type(value) is list:
        value[:] = [_converted(each, interface, seen) for each in value]
    elif isinstance(value, dict):
        _convert_items(value, interface, seen)
    elif of_notebook(value) and hasattr(value, "__dict__") and not isinstance(value, type | ModuleType):
        _convert_items(vars(value), interface, seen)
    return value


def _convert_items(target: dict[Any, Any], interface: _Interface, seen: dict[int, Any]) -> None:
    for key, each in list(target.items()):
        target[key] = _converted(each, interface, seen)


def _copied(node: ast.stmt) -> ast.stmt:
    return ast.parse(ast.unparse(node)).body[0]


class _Imports(ast.NodeTransformer):
    """`import numpy as np` imports what stands for it."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            if alias.name == "numpy":
                alias.name, alias.asname = self.module, alias.asname or "numpy"
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.module == "numpy" and not node.level:
            node.module = self.module
        return node
