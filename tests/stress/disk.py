"""Many threads and processes on one cold code cache, some killed at random: `python -m tests.stress.disk [--minutes N] [--seed N]`.

Processes of many threads call functions on random shapes, with everything hot for tier 3, few kernels kept, and forks now and then. The
cache on disk is empty at first, and its files are damaged all the time; processes are killed and started again, all but the first, whose
memory is looked at. Every result is compared with bits computed beforehand. Afterwards nothing of theirs may be left: no process,
no unfinished file for good, and one more process must find or make a whole cache, with the objects that an undisturbed one has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

from tests.stress import damage

ROOT = Path(__file__).resolve().parents[2]
MARK = "BCVM_STRESS"  # in the environment of all processes of a run
_TICK_S = 0.05
_GROWTH_KB = 12 << 10
_SETTLED_S = 150.0  # before the middle of a shorter run the compiler is still at work
_SETTINGS = {
    "BCVM_HOT_THRESHOLD_MS": "0",
    "BCVM_CACHE_SIZE": "24",
    "BCVM_CACHE_TTL": "0.2",  # the timer is always at it
    # The C library's own pools, one per thread, grow for minutes even where plain NumPy runs these calls: here memory goes back at once.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


class StressError(AssertionError):
    """Something that must not be."""


@dataclass(slots=True)
class Options:
    """How hard. `kills_s`, `damage_s`: mean seconds between two."""

    seconds: float = 300.0
    seed: int = 0
    processes: int = 4
    threads: int = 8
    calls: int = 1500
    kills_s: float = 4.0
    damage_s: float = 0.4
    hang_s: float = 120.0


@dataclass(slots=True)
class Slot:
    """One worker after the other. `earlier`: calls of those that are gone."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    found: dict[str, Any] = field(default_factory=dict)
    earlier: int = 0
    heard: float = 0.0


class Stress:
    """A run, in a folder of its own."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.choose = random.Random(options.seed)
        self.mark = f"{os.getpid()}-{options.seed}"
        self.cache, self.quiet = folder / "cache", folder / "quiet"
        self.slots = [Slot(k) for k in range(options.processes)]
        self.counts: Counter[str] = Counter()
        self.memory: list[tuple[float, int]] = []  # seconds, KB of the first worker
        self.starts = 0

    def environment(self, cache: Path, **more: str) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "widgets"), *filter(None, [os.environ.get("PYTHONPATH")])])
        # One run stood still in np.matmul after a fork, perhaps since OpenBLAS stops its threads there: here it has none.
        own = {"PYTHONPATH": path, "BCVM_CACHE_DIR": str(cache), MARK: self.mark, "OPENBLAS_NUM_THREADS": "1"}
        return {**os.environ, **own, **more}

    def settle(self, cache: Path, known: Path | None = None) -> dict[str, Any]:
        """What a process that nobody disturbs says: digests, and the state of the cache. Raises StressError."""
        command = [sys.executable, "-m", "tests.stress.settled", str(self.options.calls), str(self.base), str(known or "")]
        done = subprocess.run(command, env=self.environment(cache), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise StressError(f"an undisturbed process ended with {done.returncode}:\n{done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    @property
    def base(self) -> int:
        return self.options.seed * 1_000_000

    # -- workers ----------------------------------------------------------------------------------

    def start(self, slot: Slot) -> None:
        """A worker, now and then on a disk that is full."""
        self.starts += 1
        full = slot.number > 0 and self.choose.random() < 0.1
        task = {
            "expected": self.expected,
            "base": self.base,
            "seed": self.starts,
            "threads": self.options.threads,
            "hang_s": self.options.hang_s,
            "full": full,
        }
        path = self.folder / f"task-{slot.number}.json"
        path.write_text(json.dumps(task))
        self.counts["on a full disk"] += full
        slot.earlier += slot.found.get("calls", 0)
        slot.found, slot.heard = {}, time.monotonic()
        self.status(slot).unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.stress.worker", str(path), str(self.status(slot))]
        with self.log(slot).open("ab") as log:
            slot.process = subprocess.Popen(command, env=self.environment(self.cache, **_SETTINGS), cwd=ROOT, stdout=log, stderr=log)

    def status(self, slot: Slot) -> Path:
        return self.folder / f"status-{slot.number}.json"

    def log(self, slot: Slot) -> Path:
        return self.folder / f"log-{slot.number}.txt"

    def hear(self, slot: Slot) -> None:
        """What a worker says of itself. Raises StressError where it ended by itself, or says nothing for long."""
        process = slot.process
        assert process is not None
        with suppress(OSError, ValueError):
            found = json.loads(self.status(slot).read_text())
            if found["pid"] == process.pid and found != slot.found:
                slot.found, slot.heard = found, time.monotonic()
        if process.poll() is not None:
            raise StressError(f"worker {slot.number} ended with {process.returncode}:\n{self.log(slot).read_text()[-6000:]}")
        if time.monotonic() - slot.heard > self.options.hang_s:
            self.silent(slot)

    def silent(self, slot: Slot) -> NoReturn:
        """A worker that says nothing any more tells where its threads are."""
        assert slot.process is not None
        slot.process.send_signal(signal.SIGABRT)
        time.sleep(2)
        raise StressError(f"worker {slot.number} is silent:\n{self.log(slot).read_text()[-12000:]}")

    def kill(self) -> None:
        """One of the workers but the first, or the compile process of any."""
        slot = self.choose.choice(self.slots[1:] or self.slots)
        assert slot.process is not None
        if self.choose.random() < 0.2:
            compilers = [pid for pid in self.left() if pid not in [s.process.pid for s in self.slots if s.process is not None]]
            if compilers:
                with suppress(ProcessLookupError):
                    os.kill(self.choose.choice(compilers), signal.SIGKILL)
                    self.counts["compile processes and forks killed"] += 1
            return
        slot.process.kill()
        slot.process.wait()
        self.counts["killed"] += 1
        self.start(slot)

    def left(self) -> list[int]:
        """All processes of this run that are there."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if f"{MARK}={self.mark}\0".encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it. Raises StressError."""
        self.expected = self.settle(self.quiet)["digests"]
        try:
            for slot in self.slots:
                self.start(slot)
            while not all(slot.found for slot in self.slots):  # on a busy machine a start takes long
                time.sleep(_TICK_S)
                for slot in self.slots:
                    self.hear(slot)
            started = time.monotonic()
            while (spent := time.monotonic() - started) < self.options.seconds:
                time.sleep(_TICK_S)
                self.tick(spent)
            self.finish()
        finally:
            for pid in self.left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.look_at_memory()
        self.look_at_files()

    def tick(self, spent: float) -> None:
        for slot in self.slots:
            self.hear(slot)
        if self.slots[0].found:
            self.memory.append((spent, self.slots[0].found["rss_kb"]))
        if self.choose.random() < _TICK_S / self.options.damage_s:
            way = damage.one(self.cache / "kernels", self.choose)
            self.counts[f"damage: {way}"] += bool(way)
        if self.choose.random() < _TICK_S / self.options.kills_s:
            self.kill()

    def finish(self) -> None:
        """Ask all to end; nothing of theirs may go on."""
        for slot in self.slots:
            self.hear(slot)
            assert slot.process is not None
            slot.process.terminate()
        for slot in self.slots:
            assert slot.process is not None
            try:
                code = slot.process.wait(2 * self.options.hang_s)
            except subprocess.TimeoutExpired:
                self.silent(slot)
            if code not in (0, -signal.SIGTERM):  # one that was just started has no handler yet
                raise StressError(f"worker {slot.number} ended with {code}:\n{self.log(slot).read_text()[-6000:]}")
            with suppress(OSError, ValueError):
                slot.found = json.loads(self.status(slot).read_text())
        deadline = time.monotonic() + 20  # compile processes look every two seconds whether their parent is there
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        if self.left():
            raise StressError(f"processes that outlive their parents: {[_command(pid) for pid in self.left()]}")

    def look_at_memory(self) -> None:
        """The first worker's, from the middle of the run on."""
        end = self.memory[-1][0] if self.memory else 0.0
        if self.options.seconds < _SETTLED_S:
            return
        early = median(kb for at, kb in self.memory if 0.4 * end < at < 0.6 * end)  # medians: what calls hold just now comes and goes
        late = median(kb for at, kb in self.memory if at > 0.8 * end)
        if late - early > _GROWTH_KB:
            raise StressError(f"memory grew from {early:,} to {late:,} KB")

    def look_at_files(self) -> None:
        """What is on disk when all is over, and after one more process."""
        folders = [p for p in (self.cache / "kernels").iterdir() if p.is_dir()]
        if len(folders) != 1:
            raise StressError(f"folders: {folders}")
        unfinished = sorted(folders[0].glob("*.tmp"))
        self.counts["unfinished files of killed writers"] = len(unfinished)
        for path in unfinished:
            os.utime(path, (0, 0))  # as after an hour
        found = self.settle(self.cache, self.quiet / "kernels" / folders[0].name)
        if found["digests"] != self.expected:
            raise StressError("the cache that is left gives other bits")
        if found["wrong"]:
            raise StressError(f"files that are not what they should be: {found['wrong']}")

    def report(self) -> str:
        """What happened, in a few lines."""
        calls = [slot.earlier + slot.found.get("calls", 0) for slot in self.slots]
        first = self.slots[0].found
        lines = [
            f"{sum(calls):,} calls in {self.options.seconds:g} s by {self.options.processes} processes of {self.options.threads} threads:"
            " no other bits, no hang",
            f"processes started: {self.starts}; " + ", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items())),
        ]
        if self.memory and first:
            marks = [self.memory[int(k * (len(self.memory) - 1) / 5)] for k in range(6)]
            lines.append("first process: " + ", ".join(f"{kb / 1024:.0f} MB at {at:.0f} s" for at, kb in marks))
            lines.append(", ".join(f"{name}: {first[name]:,}" for name in ("forks", "code", "searches", "recompiled", "threads", "files")))
        return "\n".join(lines)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[-200:]
    return str(pid)


def run(options: Options) -> str:
    """A run in a folder of its own, which stays where something went wrong; the report. Raises StressError."""
    folder = Path(tempfile.mkdtemp(prefix="bcvm-stress-"))
    stress = Stress(options, folder)
    try:
        stress.run()
    except StressError as error:
        raise StressError(f"{error}\n{stress.report()}\n(seed {options.seed}; logs are in {folder})") from error
    shutil.rmtree(folder)
    return stress.report()


def main() -> None:
    """Print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.disk")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(run(Options(seconds=60 * given.minutes, seed=given.seed)))


if __name__ == "__main__":
    main()
