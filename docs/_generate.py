"""Fills the pages with what the code says: MkDocs calls `on_page_markdown` for every page.

A line `{{ name }}` or `{{ name argument }}` alone is replaced by what the function `name` of this
file returns. A name that does not exist, or a function that fails, fails the build.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

_MARKER = re.compile(r"^\{\{ (\w+)(?: (.+?))? \}\}$", re.MULTILINE)
GENERATORS: dict[str, Callable[[str], str]] = {}


def generator(function: Callable[[str], str]) -> Callable[[str], str]:
    """Register a function under its name."""
    GENERATORS[function.__name__] = function
    return function


def on_config(config: Any) -> Any:
    """Find the packages of this checkout, installed or not. (MkDocs undoes what a hook does to the path while it is loaded.)"""
    for folder in (ROOT / "widgets", ROOT):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of one page."""
    return _MARKER.sub(lambda match: GENERATORS[match[1]](match[2] or ""), markdown)


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; bars inside a value are escaped."""
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def code(text: object) -> str:
    """Inline code, or nothing for nothing."""
    return f"`{text}`" if str(text) else ""


@generator
def opcodes(_: str) -> str:
    """Every opcode: byte, operands, effect, meaning."""
    from bcvm_core.isa.opcodes import TABLE

    def row(entry: Any) -> tuple[str, ...]:
        operands = ", ".join(f"{name}: {kind.value}" for name, kind in entry.operands)
        return f"`0x{entry.code:02X}`", f"**{entry.name}**", code(operands), code(entry.effect) if entry.effect != "-" else "", entry.doc

    return table(("code", "opcode", "operands", "effect", "meaning"), map(row, TABLE))


@generator
def operand_kinds(_: str) -> str:
    """What the operand positions hold; the comments of the enumeration are the text."""
    source = (ROOT / "bcvm_core/isa/opcodes.py").read_text(encoding="utf-8")
    found = re.findall(r'^    [A-Z_]+ = "([^"]+)"  # (.+)$', source, re.MULTILINE)
    return table(("kind", "holds"), ((code(kind), text) for kind, text in found))


def _loaded_rows() -> tuple[Any, ...]:
    importlib.import_module("bcvm_core")
    registry = importlib.import_module("bcvm_core.ops.registry")
    if not registry.rows():
        registry.load_families()
    return tuple(registry.rows())


@generator
def op_counts(_: str) -> str:
    """How many ops there are, by family."""
    rows = _loaded_rows()
    families = dict.fromkeys(row.family for row in rows)
    parts = ", ".join(f"{sum(row.family == family for row in rows)} {family}" for family in families)
    return f"{len(rows)} ops: {parts}."


@generator
def ops(_: str) -> str:
    """The op table, one section per family."""
    rows = _loaded_rows()
    out: list[str] = []
    for family in dict.fromkeys(row.family for row in rows):
        out.append(f"## {family}\n")
        members = (row for row in rows if row.family == family)
        out.append(table(("op", "written as", "meaning", "same bits as NumPy"), map(_op_row, members)))
        out.append("")
    return "\n".join(out)


def _op_row(row: Any) -> tuple[str, ...]:
    spellings = [_spelling(s) for s in row.spellings]
    return code(row.name), ", ".join(dict.fromkeys(filter(None, spellings))), row.doc, "yes" if row.exact else "canonical algorithm"


_SYNTAX = {
    "Add": "x + y", "Sub": "x - y", "Mult": "x * y", "Div": "x / y", "FloorDiv": "x // y", "Mod": "x % y", "Pow": "x ** y",
    "MatMult": "x @ y", "Lt": "x < y", "LtE": "x <= y", "Gt": "x > y", "GtE": "x >= y", "Eq": "x == y", "NotEq": "x != y",
    "USub": "-x", "UAdd": "+x", "Invert": "~x", "BitAnd": "x & y", "BitOr": "x | y", "BitXor": "x ^ y", "LShift": "x << y",
    "RShift": "x >> y", "Subscript": "x[i]",
}  # fmt: skip


def _spelling(spelling: Any) -> str:
    target = spelling.target.replace("bcvm_core.", "bcvm.").replace("numpy.", "np.", 1) if spelling.kind != "operator" else spelling.target
    name = target.rpartition(".")[2]
    if spelling.kind == "operator":
        return code(_SYNTAX.get(name, name))
    if target.startswith("np.ndarray."):
        return code(f"x.{name}" if spelling.kind == "attribute" else f"x.{name}()")
    return code(target)


@generator
def text_form(_: str) -> str:
    """The description of the text form that stands at the head of its module."""
    import inspect

    from bcvm_core.isa import text

    _, _, body = inspect.cleandoc(text.__doc__ or "").partition("::\n\n")
    block, _, rest = body.partition("\n\nOperands:")
    return f"```text\n{inspect.cleandoc(block)}\n```\n\nOperands:" + rest.replace("``", "`")


@generator
def policies(_: str) -> str:
    """The fusion policies that are shipped."""
    from bcvm_core.fusion import policies as fusion

    return table(("policy", "name", "covers"), ((code(policy), policy.name, policy.description) for policy in fusion.all_policies()))


@generator
def dis(target: str) -> str:
    """The listing that `bcvm dis` prints for `target`: a function in docs/examples and, after blanks, its --arg options."""
    from bcvm_core import cli
    from bcvm_core.isa import text

    place, *specs = target.split()
    name, _, function = place.partition(":")
    path = ROOT / "docs" / "examples" / name
    listing = text.disassemble(cli.lower_function(cli.load_function(path, function), specs))
    return f"```text\n{listing.replace(str(path), name).rstrip()}\n```"


@generator
def source(target: str) -> str:
    """A file of docs/examples, or one function of it."""
    import ast

    name, _, function = target.partition(":")
    text = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")
    if function:
        node = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == function)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return f"```python\n{text.rstrip()}\n```"


@generator
def commands(_: str) -> str:
    """The help text of every command, as the command prints it."""
    from bcvm_core import cli

    out: list[str] = []
    for name, parser in _parsers("bcvm", cli.build_parser()):
        out.append(f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    return "\n".join(out)


@generator
def magics(_: str) -> str:
    """The help texts of the magics, as `-h` prints them."""
    from bcvm_kernel.options import cell_parser, line_parser

    return "\n\n".join(f"```text\n{parser.format_help().rstrip()}\n```" for parser in (line_parser(), cell_parser()))


@generator
def sizes(_: str) -> str:
    """Encoded sizes of the fixed suite of models: once with hints against once per shape."""
    from bcvm_core.isa import sizes as measured
    from bcvm_core.isa.text import assemble

    suite = sorted((ROOT / "tests" / "isa" / "suite").glob("*.bc"))
    rows = []
    for one, two, eight in measured.table([assemble(path.read_text(encoding="utf-8"), filename=path.name) for path in suite]):
        saved = (f"{share:.0%}" for size in (two, eight) for share in (size.saved_of_files, size.saved_of_bundle))
        rows.append((one.model, one.once_bytes, one.files_bytes, *saved))
    head = ("model", "with hints, bytes", "at 1 shape, bytes", "2 shapes: saved", "2, one bundle", "8 shapes: saved", "8, one bundle")
    return table(head, rows)


def _parsers(name: str, parser: argparse.ArgumentParser) -> Iterable[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from _parsers(f"{name} {word}", inner)


@generator
def knobs(_: str) -> str:
    """The settings: field, environment variable, default, meaning, from the comments of `config.py`."""
    text = (ROOT / "bcvm_core/config.py").read_text(encoding="utf-8")
    found = re.findall(r"^    (\w+): ([^=#]+?) = ([^#]+?)  # ([A-Z][A-Z_]+)(=\S+?)?(?:: | |$)(.*)$", text, re.MULTILINE)
    assert found, "config.py has no documented field"
    rows = (
        (code(name), code(variable + value.rstrip(":")), code(default), meaning) for name, _, default, variable, value, meaning in found
    )
    return table(("knob", "environment variable", "default", "meaning"), rows)


@generator
def machine_figures(_: str) -> str:
    """The figures of a machine: name, unit, meaning, and the nominal value where it is one number."""
    from bcvm_core.fusion.machine import MEANINGS, NOMINAL

    def nominal(name: str) -> str:
        value = getattr(NOMINAL, name)
        return f"{value:g}" if isinstance(value, int | float) else ""

    rows = ((code(name), unit, meaning, nominal(name)) for name, (unit, meaning) in MEANINGS.items())
    return table(("figure", "unit", "meaning", "nominal"), rows)


@generator
def decision(name: str) -> str:
    """A decision for the nominal machine, as `bcvm.explain` prints it."""
    _loaded_rows()
    from bcvm_core.fusion import machines, splits
    from bcvm_core.fusion.groups import Group, Step, Value, attention
    from bcvm_core.tiers import attending

    image, bias = Value((32, 64, 224, 224)), Value((1, 64, 1, 1))
    steps = (Step("relu", (0,), 2), Step("add", (2, 1), 3), Step("sigmoid", (3,), 4))
    turned = Value((8, 64, 56, 56), in_order=False)
    values = (Value((8, 56, 56, 64)), Value((64, 64, 3, 3)), turned, Value((8, 64, 54, 54)))
    groups = {
        "chain": Group((image, bias, image, image, image), steps, (4,)),
        "attention-1": attention(1, 12, 128, 64),
        "attention-16": attention(16, 12, 128, 64),
        "attention-1-of-2": attention(1, 12, 128, 64),
        "transpose": Group(values, (Step("transpose", (0,), 2), Step("conv2d", (2, 1), 3)), (3,)),
    }
    cores = {"chain": 4, "attention-1-of-2": 2}.get(name, 32)
    figures = machines.InForce(machines.nominal(cores), "nominal")
    made = splits.decide(groups[name], figures, same_bits=name != "transpose", runs=name != "transpose", refused=attending.REFUSED)
    return "```text\n" + "\n".join(made.lines()) + "\n```"


@generator
def protocol_messages(_: str) -> str:
    """The messages of the dashboard, with their fields."""
    import inspect
    import typing

    from bcvm_widgets import protocol

    def row(name: str, found: Any) -> tuple[str, ...]:
        fields = ", ".join(code(field) for field in typing.get_type_hints(found))
        return f"**{name}**", fields, inspect.cleandoc(found.__doc__ or "").partition("\n")[0]

    return table(
        ("message or part", "fields", "meaning"), (row(name, found) for name, found in vars(protocol).items() if typing.is_typeddict(found))
    )


@generator
def dependencies(group: str) -> str:
    """A dependency list of pyproject.toml with the reason that stands beside each line."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(rf"^{re.escape(group)} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert match, f"pyproject.toml has no list {group}"
    found = re.findall(r'^  "([^"]+)",(?:\s+# (.+))?$', match[1], re.MULTILINE)
    return table(("package", "why"), ((code(spec), reason) for spec, reason in found))


@generator
def deviations(_: str) -> str:
    """Where BCVM differs from MindSpore on purpose."""
    module = importlib.import_module("bcvm_core.mindspore.deviations")
    return str(module.as_markdown())


@generator
def mint(_: str) -> str:
    """Every `mint` function and what becomes of it on the CPU."""
    return str(importlib.import_module("bcvm_core.mindspore.mint_table").as_markdown())


@generator
def primitives(_: str) -> str:
    """The classes of primitive objects and their ops."""
    return str(importlib.import_module("bcvm_core.mindspore.primitive_lines").as_markdown())


@generator
def op_coverage(part: str) -> str:
    """A part of the page "Op coverage"."""
    _loaded_rows()
    page = importlib.import_module("bcvm_core.coverage.page")
    return str(getattr(page, part)())


def _onnx_nodes() -> dict[str, Any]:
    return dict(json.loads((ROOT / "tests" / "onnx_nodes" / "measured.json").read_text(encoding="utf-8")))


@generator
def onnx_counts(_: str) -> str:
    """How many node tests of ONNX agree, and over how many op types."""
    found = _onnx_nodes()
    types = found["types"].values()
    agreeing, written_out = sum(row["agree"] for row in types), sum(row["written_out"] for row in types)
    return (
        f"onnx {found['onnx']}: {found['agree']} tests of {sum(row['agree'] > 0 for row in types)} op types agree ({agreeing} of the ops "
        f"themselves, {written_out} of ops written out in other ops); {found['left_out']} are left out, each with its reason."
    )


@generator
def onnx_nodes(_: str) -> str:
    """By ONNX op type: the ops it runs as, tests that agree, tests left out with the reason."""

    def row(name: str, found: dict[str, Any]) -> tuple[object, ...]:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in found["left_out"].items())
        return name, ", ".join(map(code, found["ops"])), found["agree"] or "", found["written_out"] or "", reasons

    head = ("ONNX op", "runs as", "agree", "agree, written out", "left out")
    return table(head, (row(name, found) for name, found in _onnx_nodes()["types"].items()))


@generator
def selection_program(op: str) -> str:
    """A selection program with its explanation, as `bcvm pool OP --select` prints it."""
    import contextlib
    import io

    from bcvm_core import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["pool", op, "--select"]) == 0
    return f"```text\n{out.getvalue().rstrip()}\n```"
