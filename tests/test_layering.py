"""The floors: every import goes to a lower floor or stays on its own, nothing goes round in circles, optional parts stay at their doors."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# The longest prefix decides. A module that is listed nowhere fails `test_every_module_has_a_floor`.
FLOORS: dict[str, int] = {
    "bcvm_core.version": 0,
    "bcvm_core.errors": 0,
    "bcvm_core.config": 0,
    "bcvm_core.dtypes": 0,
    "bcvm_core.events": 0,
    "bcvm_core.fpstatus": 0,
    "bcvm_core.grouping": 0,
    "bcvm_core.locks": 0,
    "bcvm_core.isa": 1,
    "bcvm_core.ops": 2,
    "bcvm_core.frontend": 3,
    "bcvm_core.devices": 4,
    "bcvm_core.codegen": 4,
    "bcvm_core.fusion": 5,
    "bcvm_core.tiers": 5,
    "bcvm_core.cache": 5,
    "bcvm_core.vm": 6,
    "bcvm_core.jit": 7,
    "bcvm_core.lower": 7,
    "bcvm_core.modes": 7,
    "bcvm_core.session": 7,
    "bcvm_core.watch": 7,
    "bcvm_core.glossary": 7,
    "bcvm_core.latencies": 7,
    "bcvm_core.splitting": 7,
    "bcvm_core.machinecode": 7,
    "bcvm_core.comparing": 7,
    "bcvm_core.clamp": 7,
    "bcvm_core.warmup": 7,
    "bcvm_core.profiler": 7,
    "bcvm_core.progress": 7,
    "bcvm_core.tracing": 7,
    "bcvm_core.workload": 7,
    "bcvm_core.budget": 7,
    "bcvm_core.caching": 7,
    "bcvm_core.cachewatch": 7,
    "bcvm_core.mindspore": 7,
    "bcvm_core.coverage": 7,
    "bcvm_core.explaining": 7,
    "bcvm_core.cli": 7,
    "bcvm_core.doctor": 7,
    "bcvm_core.dap": 7,
    "bcvm_core.readiness": 7,
    "bcvm_core.testing": 7,
    "bcvm_core": 7,  # the package itself: it hands out the doors
    "bcvm_widgets": 8,
    "bcvm_kernel": 9,
}

# Calls upstairs, made lazily: `bcvm kernel install` hands over to the kernel's own installer, `bcvm report` to the views' static forms.
UPSTAIRS = {("bcvm_core.cli", name) for name in ("bcvm_kernel", "bcvm_widgets.page", "bcvm_widgets.reports", "bcvm_widgets.runs")}

DOOR = 7
# What floors 8 and 9 import of the core: the doors, the words of floor 0 and the text form; names for annotations may come from anywhere.
ALSO_READ = ("bcvm_core.isa.text",)

# Packages that a module may import when it is loaded; everything else that is not in the standard library is imported lazily.
ALWAYS = {"numpy", "ml_dtypes", "platformdirs"}
AT_THEIR_DOOR: dict[str, set[str]] = {
    "bcvm_core.codegen": {"llvmlite"},
    "bcvm_core.mindspore": {"mindspore"},
    "bcvm_kernel": {"IPython", "ipykernel", "comm", "jupyter_client", "jupyter_core", "traitlets", "tornado", "zmq"},
    "bcvm_widgets": {"anywidget", "ipywidgets", "traitlets"},
}

# Never loaded by `import bcvm_core`: slow, optional, or both.
NOT_LOADED = set(
    "mindspore IPython ipykernel ipywidgets jupyter_client jupyter_core jupyterlab traitlets zmq tornado pandas matplotlib scipy torch"
    " triton cupy cuda tvm plotly anywidget argparse".split()
)


@dataclass(frozen=True)
class Import:
    """One import statement: who, what, where; `lazy` when it runs only inside a function."""

    importer: str
    target: str
    line: int
    lazy: bool
    typing_only: bool


def _sources() -> dict[str, Path]:
    out: dict[str, Path] = {}
    for base, package in ((ROOT, "bcvm_core"), (ROOT, "bcvm_kernel"), (ROOT / "widgets", "bcvm_widgets")):
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


SOURCES = _sources()


class _Imports(ast.NodeVisitor):
    """Collects the imports of one module, with relative names made absolute."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module, self.is_package = module, is_package
        self.lazy = self.typing_only = False
        self.found: list[Import] = []

    def _add(self, target: str, node: ast.stmt) -> None:
        self.found.append(Import(self.module, target, node.lineno, self.lazy, self.typing_only))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.module.split(".")
            keep = len(parts) - node.level + (1 if self.is_package else 0)
            base = ".".join([*parts[:keep], *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            self._add(inner if inner in SOURCES else base, node)

    def _visit_function(self, node: ast.AST) -> None:
        before, self.lazy = self.lazy, True
        self.generic_visit(node)
        self.lazy = before

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function

    def visit_If(self, node: ast.If) -> None:
        before = self.typing_only
        self.typing_only = before or "TYPE_CHECKING" in ast.unparse(node.test)
        for child in node.body:
            self.visit(child)
        self.typing_only = before
        for child in node.orelse:
            self.visit(child)


def _imports(module: str) -> list[Import]:
    path = SOURCES[module]
    visitor = _Imports(module, path.name == "__init__.py")
    visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
    return visitor.found


ALL = [found for module in SOURCES for found in _imports(module)]
OURS = ("bcvm_core", "bcvm_kernel", "bcvm_widgets")


def floor_of(module: str) -> int | None:
    """The floor of a module by the longest listed prefix; the bare package's entry holds for itself alone."""
    name = module
    while name:
        if name in FLOORS and (name == module or name != "bcvm_core"):
            return FLOORS[name]
        name = name.rpartition(".")[0]
    return None


def _place(found: Import) -> str:
    return f"{found.importer} line {found.line} imports {found.target}"


def test_every_module_has_a_floor() -> None:
    assert [m for m in SOURCES if floor_of(m) is None] == []


def test_imports_go_down_or_stay() -> None:
    wrong = []
    for found in ALL:
        if found.target.partition(".")[0] not in OURS:
            continue
        mine, theirs = floor_of(found.importer), floor_of(found.target)
        assert mine is not None and theirs is not None, _place(found)
        if theirs > mine and not (found.lazy and (found.importer, found.target) in UPSTAIRS):
            wrong.append(f"{_place(found)}: floor {mine} to floor {theirs}")
    assert wrong == []


def test_kernel_and_widgets_use_only_doors() -> None:
    wrong = []
    for found in ALL:
        mine, theirs = floor_of(found.importer), floor_of(found.target)
        if mine is None or theirs is None or mine <= DOOR or found.target.partition(".")[0] != "bcvm_core":
            continue
        if theirs not in (0, DOOR) and found.target not in ALSO_READ and not found.typing_only:
            wrong.append(f"{_place(found)}: not a door")
    assert wrong == []


def test_optional_packages_are_imported_lazily() -> None:
    wrong = []
    for found in ALL:
        top = found.target.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names or found.lazy or found.typing_only or top in ALWAYS:
            continue
        if not any(found.importer.startswith(door) and top in packages for door, packages in AT_THEIR_DOOR.items()):
            wrong.append(_place(found))
    assert wrong == []


def _reachable(graph: dict[str, set[str]], start: str) -> Iterator[str]:
    seen: set[str] = set()
    todo = list(graph.get(start, ()))
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            yield module
            todo.extend(graph.get(module, ()))


def test_no_module_imports_itself_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for found in ALL:
        if not found.lazy and not found.typing_only and found.target in SOURCES and found.target != found.importer:
            graph.setdefault(found.importer, set()).add(found.target)
    circles = sorted(module for module in graph if module in _reachable(graph, module))
    assert circles == []


@pytest.mark.parametrize("statement", ["import bcvm_core", "import bcvm_core.cli"])
def test_importing_the_core_loads_nothing_slow(statement: str) -> None:
    allowed = {"argparse"} if "cli" in statement else set()
    code = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(set(done.stdout.split()) & (NOT_LOADED - allowed)) == []


def test_files_are_rooms_not_halls() -> None:
    long = {module: lines for module, path in SOURCES.items() if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 600}
    assert long == {}


def test_the_visitor_sees_what_it_should() -> None:
    visitor = _Imports("bcvm_core.isa.text", False)
    visitor.visit(
        ast.parse("from ..errors import Where\nfrom . import hints\ndef f():\n    import mindspore.ops\nif TYPE_CHECKING:\n    import x\n")
    )
    assert [(i.target, i.lazy, i.typing_only) for i in visitor.found] == [
        ("bcvm_core.errors", False, False),
        ("bcvm_core.isa.hints", False, False),
        ("mindspore.ops", True, False),
        ("x", False, True),
    ]
