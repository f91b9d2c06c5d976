"""The documentation builds strictly, fetches nothing from elsewhere, and prints what the code prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built documentation."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_pages_are_filled_in(site: Path) -> None:
    from bcvm_core.isa.opcodes import TABLE

    pages = {path.name: path.read_text(encoding="utf-8") for path in site.glob("*.html")}
    assert [name for name, text in pages.items() if "{{" in text] == []
    assert [row.name for row in TABLE if row.name not in pages["bytecode.html"]] == []
    listings = [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<pre.*?</pre>", pages["bytecode.html"], re.DOTALL)]
    assert any("LOAD_TENSOR  r0, x, [B, C, H, W]" in text for text in listings)
    assert any(".program NAME(param, ...)" in text for text in listings)


@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    outside = []
    for path in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", path.read_text(encoding="utf-8")):
            if re.search(r'(?:src|href)="(?:https?:)?//', tag) and 'rel="canonical"' not in tag:
                outside.append((path.name, tag))
    assert outside == []


def test_the_readme_prints_what_the_command_prints(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its example, saved under the name that it uses, and the listing below it."""
    from bcvm_core import cli

    readme = (repository / "README.md").read_text(encoding="utf-8")
    source = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    (listing,) = re.findall(r"```text\n(\.program.*?)```", readme, re.DOTALL)
    (command,) = re.findall(r"^`(bcvm dis .*?)` prints:$", readme, re.MULTILINE)
    (tmp_path / "example.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert cli.main(shlex.split(command)[1:]) == 0
    assert _without_numbers(capsys.readouterr().out) == _without_numbers(listing)


def _without_numbers(listing: str) -> str:
    """Signatures are numbered in the order in which a process meets them."""
    numbers: dict[str, str] = {}
    return re.sub(r"\b0x[0-9A-F]{4}\b", lambda found: numbers.setdefault(found[0], f"sig{len(numbers)}"), listing).rstrip()


def test_the_first_steps_run(repository: Path) -> None:
    """The calls of the page "Getting started", after its example."""
    from bcvm_core import cli

    page = (repository / "docs" / "start.md").read_text(encoding="utf-8")
    calls = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    function = cli.load_function(repository / "docs" / "examples" / "dynamic.py", "dynamic_forward")
    exec(calls, {"dynamic_forward": function})
    assert function.stats().call_host == 0
    assert function.stats().call_op == 4


def test_links_between_files_lead_somewhere(repository: Path) -> None:
    broken = []
    for page in (repository / "README.md", repository / "README.zh.md", repository / "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (repository / target).exists():
                broken.append((page.name, target))
    assert broken == []
