"""Ten thousand shapes: memory stays where it was after the first five hundred, and no shape needs a kernel of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bcvm_core as bcvm

CODE = """
import json
import bcvm_core as bcvm
from bcvm_core.cache.memory import code_cache
from bcvm_core.codegen.stencils import arena
from tests.bench.code_memory import resident_kb
from tests.bench.many_shapes import measure
assert bcvm.ready()
found = {}
def look(done):
    figures = code_cache.figures()
    spliced = sum(n for reason, n in figures.misses.items() if not reason.startswith("no kernel"))
    found[done] = (resident_kb(), figures.entries, spliced, arena.shared().used_bytes)
measure(10_000, look, {500, 5000, 10_000})
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_ten_thousand_shapes_take_no_memory_after_the_first_five_hundred(repository: Path) -> None:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    done = subprocess.run([sys.executable, "-c", CODE], cwd=repository, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    settled, middle, last = (json.loads(done.stdout)[key] for key in ("500", "5000", "10000"))
    assert middle[1:] == last[1:], "kernels and code are those of the first shapes"
    assert last[1] <= 5, "the first chain; one for rows, one for a single row; two that run until kernels over rows are there"
    assert last[0] - settled[0] < 4096, f"{last[0] - settled[0]} KB more after 10,000 shapes than after 500"
    assert last[0] - middle[0] < 2048
