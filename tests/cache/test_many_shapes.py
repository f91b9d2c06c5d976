"""Ten thousand shapes: memory stays where it was after the first five hundred, and no shape needs a kernel of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def _found(code: str, repository: Path) -> Any:
    """What a program prints in a process of its own."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_ten_thousand_shapes_take_no_memory_after_the_first_five_hundred(repository: Path) -> None:
    found = _found(CODE, repository)
    settled, middle, last = (found[key] for key in ("500", "5000", "10000"))
    assert middle[1:] == last[1:], "kernels and code are those of the first shapes"
    assert last[1] <= 5, "the first chain; one for rows, one for a single row; two that run until kernels over rows are there"
    assert last[0] - settled[0] < 4096, f"{last[0] - settled[0]} KB more after 10,000 shapes than after 500"
    assert last[0] - middle[0] < 2048


CONVOLUTIONS = """
import json
import bcvm_core as bcvm
from bcvm_core.codegen.onednn import library, primitives
from tests.bench.code_memory import resident_kb
from tests.bench.many_shapes import images
assert bcvm.ready()
found = {"oneDNN": library.library() is not None}
def look(done): found[done] = resident_kb(), primitives.figures()["primitives"]
images(3500, look, {1500, 2500, 3500})
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_images_of_many_sizes_take_no_memory_beyond_the_primitives_that_are_kept(repository: Path) -> None:
    found = _found(CONVOLUTIONS, repository)
    if not found["oneDNN"]:
        pytest.skip("there is no oneDNN")
    (settled, kept), (middle, _), (last, kept_last) = (found[key] for key in ("1500", "2500", "3500"))
    assert kept == kept_last, "as many as may be kept"
    assert min(middle, last) - settled < 6144, f"{settled}, {middle}, {last} KB"
