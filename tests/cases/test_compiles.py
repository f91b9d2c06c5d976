"""The recorded cases about compiles: one that is slow (c56), and a cache on disk that was damaged (c50)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from bcvm_core.codegen import store
from bcvm_core.codegen.stencils import target

pytestmark = [pytest.mark.slow, pytest.mark.skipif(target.host() is None, reason="no kernels for this processor")]


# -- c56 ---------------------------------------------------------------------------------------------


def test_c56_a_request_with_an_unseen_shape_does_not_wait_for_the_compiler(tmp_path: Path, repository: Path) -> None:
    for attempt in range(3):  # other programs make a call late now and then; waiting for a compiler would show each time
        found = _served(tmp_path / str(attempt), repository)
        calls, interpreted = found["calls"], found["interpreted"]
        late = [(k, n, took) for k, (n, took, _) in enumerate(calls) if took > 3 * interpreted[str(n)] + 0.020]
        if not late:
            break
    assert not late, f"interpreted: {interpreted}"
    assert found["within"], "compiles went on meanwhile"
    assert len(found["started"]) == len(set(found["started"])), "no version is compiled twice"
    for number in (51, 201):
        assert calls[number][2] == calls[number - 1][2], "the second call of a shape asks for nothing more"
    assert found["apart"] < 1e-6


def _served(folder: Path, repository: Path) -> dict[str, Any]:
    """The figures of a process of its own, on a cold cache."""
    env = os.environ | {"BCVM_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.cases.slow_compiler"]
    done = subprocess.run(command, env=env, cwd=repository, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- c50 ---------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
unpickled = []
sys.addaudithook(lambda name, arguments: unpickled.append(name) if name.startswith("pickle.") else None)
import numpy as np
import bcvm_core as bcvm
from bcvm_core.codegen import store

@bcvm.jit
def f(x):
    return x * x + 1

@bcvm.jit
def g(x):
    return x - 4

x = np.array([1.0, 2.0, 3.0])
f(x)
assert bcvm.ready()
print([int(v) for v in f(x)])
print([int(v) for v in g(x)])
print(json.dumps({"counts": dict(store.counts), "unpickled": unpickled, "fused": bcvm.cache_info().as_dict()["memory"]["entries"]}))
"""


def _process(folder: Path) -> dict[str, Any]:
    """Run the program on a cache; it must print what it should, with at most one warning."""
    path = folder.parent / "program.py"
    path.write_text(PROGRAM)
    env = os.environ | {"BCVM_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, second, rest = done.stdout.splitlines()
    assert (first, second) == ("[2, 5, 10]", "[-3, -2, -1]")
    assert done.stderr.count("Warning") <= 1, done.stderr
    found: dict[str, Any] = json.loads(rest)
    assert found["unpickled"] == []
    return found


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_c50_a_damaged_cache_is_rebuilt_and_never_believed(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = _process(folder)
    kernels = folder / "kernels" / store.key()
    names = {path.name for path in kernels.glob("*.obj")}
    assert names and first["counts"][store.WRITTEN] == len(names)
    whole = {name: (kernels / name).read_bytes() for name in names}
    one = kernels / "stencils_float64.obj"
    assert one.name in names

    def every_half() -> None:
        for name in names:
            _halve(kernels / name)

    damages: dict[str, tuple[Callable[[], object], int]] = {  # and how many objects are damaged by it
        "every entry cut to half its length": (every_half, len(names)),
        "one entry empty": (lambda: os.truncate(one, 0), 1),
        "one byte flipped": (lambda: _flip(one), 1),
        "one file deleted": (one.unlink, 0),
        "a file of somebody else": (lambda: (kernels / "garbage.tmp").write_bytes(b"garbage"), 0),
    }
    for how, (damage, count) in damages.items():
        damage()
        found = _process(folder)
        assert found["counts"].get(store.DAMAGED, 0) == count, how
        assert {name: (kernels / name).read_bytes() for name in names} == whole, f"{how}: the entries are as before"
        third = _process(folder)["counts"]
        assert third[store.HIT] >= len(names) and not third.get(store.DAMAGED) and not third.get(store.WRITTEN), how
    assert {path.name for path in kernels.glob("*.obj")} == names
