"""The stress test in small, and that it sees what it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bcvm_core.codegen.stencils import target
from tests.stress import calls, disk, worker

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked up in /proc"),
    pytest.mark.skipif(target.host() is None, reason="no stencils for this processor"),
]


@pytest.mark.slow
def test_threads_processes_and_kills_on_a_damaged_cold_cache() -> None:
    report = disk.run(disk.Options(seconds=9.0, calls=300, kills_s=1.0, damage_s=0.1, hang_s=100.0))
    print(report)
    assert "no other bits, no hang" in report


def test_one_wrong_bit_ends_a_worker(tmp_path: Path, repository: Path) -> None:
    task = {"expected": ["0" * 16], "base": 0, "seed": 0, "threads": 2, "hang_s": 60.0}
    (tmp_path / "task.json").write_text(json.dumps(task))
    command = [sys.executable, "-m", "tests.stress.worker", str(tmp_path / "task.json"), str(tmp_path / "status.json")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == worker.WRONG
    assert f"call 0, {calls.FUNCTIONS[0].__name__}" in done.stderr and "other bits" in done.stderr
