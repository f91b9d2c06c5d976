"""Where a function's variables live: in registers where only instructions touch them, else in the frame.

A name starts as a register's. When something is met that rules that out (host code or an inner
function touches it, it may be unbound at a read), it is *exposed* and the function is generated
again with that name in the frame; two or three rounds settle it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from .codebuilder import CodeBuilder
from .scopes import Scope


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at a place: names bound on every path; whether the place can be reached."""

    bound: frozenset[str]
    reachable: bool


class Variables:
    """Reads and writes of names. `exposed`: names that live in the frame; `grew`: another round is needed."""

    def __init__(self, scope: Scope, builder: CodeBuilder, *, namespace: bool, exposed: Iterable[str] = ()) -> None:
        self.scope = scope
        self.builder = builder
        self.namespace = namespace
        self.local = set() if namespace else set(scope.local)
        self.exposed = set(exposed)
        self.grew = False
        self.homes: dict[str, int] = {}  # register of a name that lives in one
        self.bound: set[str] = set()
        self.known: dict[str, int] = {}  # register that holds the present value of a name in the frame
        self.read_names: set[str] = set()

    def of_the_frame(self, name: str) -> bool:
        """Is it a variable of this function, or of this cell?"""
        return name in self.local or (self.namespace and (name in self.scope.stores or name not in _BUILTINS))

    def in_register(self, name: str) -> bool:
        return name in self.local and name not in self.exposed

    def expose(self, names: Iterable[str]) -> None:
        """These names must live in the frame."""
        new = {n for n in names if n in self.local} - self.exposed
        if new:
            self.exposed |= new
            self.grew = True

    def home(self, name: str) -> int:
        """The register of a name that lives in one."""
        if name not in self.homes:
            self.homes[name] = self.builder.register()
        return self.homes[name]

    def read(self, name: str, at: ast.AST) -> int:
        """A register with the value of a name."""
        self.read_names.add(name)
        if self.in_register(name):
            if name not in self.bound and self.builder.reachable:
                self.expose([name])
            return self.home(name)
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = self.builder.register()
            self.builder.emit("LOAD_VAR", found, name, at=at)
        return found

    def target(self, name: str) -> int | None:
        """The register to compute a new value of `name` in; None when any will do."""
        return self.home(name) if self.in_register(name) else None

    def write(self, name: str, register: int, at: ast.AST) -> None:
        """Bind `name` to the value in `register`."""
        if self.in_register(name):
            if self.home(name) != register:
                self.builder.emit("MOVE", self.home(name), register, at=at)
        else:
            self.builder.emit("STORE_VAR", name, register, at=at)
            # The home of another name may change later; only a register of its own can be remembered.
            if register in self.homes.values():
                self.known.pop(name, None)
            else:
                self.known[name] = register
        self.bound.add(name)

    def is_private(self, register: int, node: ast.expr) -> bool:
        """Can `register` be overwritten while `node` is evaluated? Not when the node reads the name that lives there."""
        names = {n for n, home in self.homes.items() if home == register}
        if register in self.known.values():
            return False
        return not names or not any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))

    # -- paths ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return Snapshot(frozenset(self.bound), self.builder.reachable)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from an earlier place."""
        self.bound = set(snapshot.bound)
        self.known.clear()

    def join(self, *others: Snapshot) -> None:
        """Paths meet here: a name is bound when it is on every path that gets here."""
        paths = [s.bound for s in others if s.reachable]
        if self.builder.reachable:
            paths.append(frozenset(self.bound))
        if paths:
            self.bound = set(frozenset.intersection(*paths))
        self.known.clear()

    def forget(self) -> None:
        """Others may have written variables of the frame."""
        self.known.clear()


_BUILTINS = frozenset(dir(__import__("builtins")))
