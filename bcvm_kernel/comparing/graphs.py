"""`jit`: the cell's statements as one function under `mindspore.jit`."""

from __future__ import annotations

import ast
import linecache
import os
import symtable
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from .engines import Converted, UnfitError, _copied, _Imports
from .state import is_tensor

_RESULT = "bcvm_result"
_HOISTED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Jit(Converted):
    """Definitions and imports run before the function, as plain Python. MindSpore finds its globals in the notebook."""

    _function: Callable[..., Any] | None = None
    _module = _path = ""

    def convert(self, interface: Any) -> None:
        self._module = interface.module
        super().convert(interface)

    def run(self) -> None:
        namespace = self.state.namespace
        body = [_Imports(self._module).visit(_copied(node)) if self._module else node for node in self.cell.body]
        if self._function is None:
            self._before = [self.cell.plain(ast.Module([node], [])) for node in body if isinstance(node, _HOISTED)]
        for code in self._before:
            exec(code, namespace)
        if self._function is None:
            self._function = self._compiled([node for node in body if not isinstance(node, _HOISTED)])
        found = self._function(*(namespace[name] for name in self._inputs))
        namespace.update(zip(self._outputs, found, strict=True))
        if _RESULT in self._outputs:
            sys.displayhook(namespace.pop(_RESULT))

    def _compiled(self, body: list[ast.stmt]) -> Callable[..., Any]:
        if not body:
            raise UnfitError("the cell has only definitions")
        if isinstance(body[-1], ast.Expr):
            body = [*body[:-1], ast.copy_location(ast.Assign([ast.Name(_RESULT, ast.Store())], body[-1].value), body[-1])]
        statements = "".join(f"    {line}\n" for node in body for line in ast.unparse(node).splitlines())
        scope = symtable.symtable(f"def cell():\n{statements}", "<cell>", "exec").get_children()[0]
        namespace = self.state.namespace
        bound = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_local()}
        used = {symbol.get_name() for symbol in scope.get_symbols()}
        self._inputs = sorted(name for name in used if name in namespace and (name in bound or is_tensor(namespace[name])))
        self._outputs = sorted(bound)
        last = f"    return ({''.join(f'{name}, ' for name in self._outputs)})\n"
        return self._made(f"def cell({', '.join(self._inputs)}):\n{statements}{last}")

    def _made(self, text: str) -> Callable[..., Any]:
        handle, path = tempfile.mkstemp(prefix="bcvm-jit-", suffix=".py", text=True)
        with os.fdopen(handle, "w", encoding="utf-8") as file:  # the compiler's own messages look it up
            file.write(text)
        self._path = path
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        made: dict[str, Any] = {}
        exec(compile(text, path, "exec", self.cell.flags, dont_inherit=True), self.state.namespace, made)
        jitted: Callable[..., Any] = sys.modules["mindspore"].jit(made["cell"])
        return jitted

    def close(self) -> None:
        """Take the file away again."""
        if self._path:
            linecache.cache.pop(self._path, None)
            os.unlink(self._path)
