"""The messages hold what the types say, and both sides speak the same version."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import types
import typing
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from bcvm_widgets import protocol
from bcvm_widgets.sampling import Sampler
from bcvm_widgets.watching import watch

from .conftest import CELL, FUNCTION, Notebook

STATIC = Path(protocol.__file__).parent / "static"


def script() -> str:
    """The view's module, every file of it."""
    live = pytest.importorskip("bcvm_widgets.live", reason="the dashboard needs the extra `lab`")
    text = str(live.script())
    assert all(path.read_text(encoding="utf-8") in text for path in STATIC.glob("*.js"))
    return text


def conforms(value: Any, expected: Any, path: str = "") -> None:
    """Fails unless `value` is of the type, to the last field."""
    origin = get_origin(expected)
    if typing.is_typeddict(expected):
        hints = get_type_hints(expected)
        assert isinstance(value, dict) and set(value) == set(hints), (path, value)
        for name, hint in hints.items():
            conforms(value[name], hint, f"{path}.{name}")
    elif origin is list:
        assert isinstance(value, list), path
        for n, item in enumerate(value):
            conforms(item, get_args(expected)[0], f"{path}[{n}]")
    elif origin is dict:
        for key, item in value.items():
            conforms(key, get_args(expected)[0], f"{path} key")
            conforms(item, get_args(expected)[1], f"{path}[{key!r}]")
    elif origin is typing.Literal:
        assert value in get_args(expected), (path, value)
    elif origin in (types.UnionType, typing.Union):
        if value is not None:
            conforms(value, next(t for t in get_args(expected) if t is not type(None)), path)
    else:
        assert type(value) is expected, (path, value)


def test_every_message_is_what_its_type_says(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    sample = Sampler(watch(())).sample()
    conforms(sample.listing, protocol.Listing)
    conforms(sample.choices, protocol.Choices)
    conforms(sample.figures, protocol.Figures)
    assert json.loads(json.dumps([sample.listing, sample.choices, sample.figures])) == [sample.listing, sample.choices, sample.figures]
    for unit in sample.listing["units"]:
        for part in (sample.choices["units"], sample.figures["units"]):
            found: Any = part[unit["key"]]
            for kind in ("lines", "instructions"):
                columns = found[kind].values() if isinstance(found[kind], dict) else [found[kind]]
                assert all(len(column) == len(unit[kind]) for column in columns)


def test_the_empty_messages_are_complete() -> None:
    conforms(protocol.empty_listing(), protocol.Listing)
    conforms(protocol.empty_choices(), protocol.Choices)
    conforms(protocol.empty_figures(), protocol.Figures)
    conforms(protocol.idle_status(), protocol.Status)
    conforms(protocol.empty_latencies(), protocol.Latencies)
    conforms(protocol.empty_fusion(), protocol.Fusion)
    conforms(protocol.empty_code(), protocol.Code)
    conforms(protocol.empty_diff(), protocol.Diff)


@pytest.mark.parametrize("command", get_args(protocol.CommandName))
def test_commands_are_understood(command: str) -> None:
    assert protocol.is_command({"version": protocol.VERSION, "command": command, "view": "a", "cell": 3, "added later": 1})


@pytest.mark.parametrize(
    "content",
    [
        None,
        "pause",
        {},
        {"version": protocol.VERSION, "command": "explode", "view": "a", "cell": 0},
        {"version": protocol.VERSION + 1, "command": "pause", "view": "a", "cell": 0},
        {"version": protocol.VERSION, "command": "pause", "cell": 0},
        {"version": protocol.VERSION, "command": "stop", "view": "a"},
        {"version": protocol.VERSION, "command": "stop", "view": "a", "cell": "3"},
        {"version": protocol.VERSION, "command": ["pause"], "view": "a", "cell": 0},
    ],
)
def test_anything_else_is_not(content: Any) -> None:
    assert not protocol.is_command(content)


def test_the_script_speaks_this_version() -> None:
    text = script()
    assert f"const VERSION = {protocol.VERSION};" in text
    kinds = re.findall(r"^  (\w+): \{", text[text.index("const KINDS") : text.index("const WARM_MARKS")], re.MULTILINE)
    assert kinds == list(get_args(protocol.DotKind))
    block = text[text.index("const TIERS") : text.index("};", text.index("const TIERS"))]
    keys = {key.strip('"') for key in re.findall(r"^  (\w+|\"\"): \{", block, re.MULTILINE)}
    assert keys == set(get_args(protocol.Tier))
    sent = set(re.findall(r'this\.send\("(\w+)"\)', text)) | set(re.findall(r'\? "(pause)" : "(resume)"', text)[0])
    assert sent == set(get_args(protocol.CommandName))


def test_the_script_fetches_nothing() -> None:
    text = script()
    assert not re.search(r"^import |\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket|innerHTML|eval\(", text, re.MULTILINE)
    addresses = set(re.findall(r"https?://[^\"'` ]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not [path.name for path in STATIC.glob("*.css") if "url(" in path.read_text(encoding="utf-8")]


def test_the_script_parses(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the browser test runs the script")
    module = tmp_path / "dashboard.mjs"
    module.write_text(script(), encoding="utf-8")
    done = subprocess.run([node, "--check", str(module)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
