"""The notebooks run as saved: by nbval (outputs equal), by nbconvert (no error), and they match their sources."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `lab`")

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
names = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def _run(*command: str, status: int = 0) -> str:
    """Run a Python module as a command; returns stdout."""
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=FOLDER.parent
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def _builder() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks_build", FOLDER / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == {path.stem for path in (FOLDER / "source").glob("*.md")}
    assert {"01_first_cells", "02_tour"} <= {path.stem for path in NOTEBOOKS}


@names
def test_a_notebook_holds_what_its_source_says(path: Path) -> None:
    wanted = _builder().read_source((FOLDER / "source" / f"{path.stem}.md").read_text())
    saved = nbformat.read(path, as_version=4)
    assert [(c.cell_type, c.source, c.metadata) for c in saved.cells] == [(c.cell_type, c.source, c.metadata) for c in wanted.cells], (
        "rebuild it: python notebooks/build.py"
    )
    assert saved.metadata.kernelspec.name == "bcvm"


@names
def test_links_between_notebooks_lead_somewhere(path: Path) -> None:
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    targets = re.findall(r"\]\(([^)#:]+)\)", "\n".join(cells))
    assert [target for target in targets if not (FOLDER / target).exists()] == []


@names
def test_a_notebook_is_saved_executed_and_without_traces_of_a_machine(path: Path) -> None:
    saved = nbformat.read(path, as_version=4)
    counts = [c.execution_count for c in saved.cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    text = path.read_text()
    for trace in ("/home/", "/root/", "/Users/", "site-packages", "ipykernel_"):
        assert trace not in text
    assert "widget-view" not in text  # it would show "Loading widget" for ever
    assert len(text) < 200_000


@pytest.mark.notebook
def test_nbval_finds_the_same_outputs_and_would_notice_others(kernel_installed: str, tmp_path: Path) -> None:
    """One run for all notebooks, and for one whose saved result is wrong."""
    wrong = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "", "language": "python"}})
    output = nbformat.v4.new_output("execute_result", data={"text/plain": "41"}, execution_count=1)
    wrong.cells = [nbformat.v4.new_code_cell("import numpy as np\nint((np.ones(3) * 14).sum())", outputs=[output], execution_count=1)]
    nbformat.write(wrong, tmp_path / "wrong.ipynb")
    options = ["-rf", "--color=no", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
    options += ["--nbval", "--nbval-kernel-name", kernel_installed, "--nbval-sanitize-with", str(Path(__file__).parent / "sanitize.cfg")]
    printed = _run("pytest", *options, *map(str, NOTEBOOKS), str(tmp_path), status=1)
    failed = [line for line in printed.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 1 and "wrong.ipynb" in failed[0], printed
    assert " passed" in printed


@names
@pytest.mark.notebook
def test_nbconvert_executes_and_exports(path: Path, kernel_installed: str) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    from nbconvert.preprocessors import ExecutePreprocessor

    notebook = nbformat.read(path, as_version=4)
    ExecutePreprocessor(timeout=120, kernel_name=kernel_installed).preprocess(notebook, {"metadata": {"path": str(FOLDER)}})
    for cell in notebook.cells:
        errors = [o.ename for o in cell.get("outputs", ()) if o.output_type == "error"]
        assert not errors or "raises-exception" in cell.metadata.get("tags", ())
        assert [o.text for o in cell.get("outputs", ()) if o.get("name") == "stderr"] == []  # warnings, for instance
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    heading = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    assert heading in page and "COND_JUMP" in page
