"""A process of the stress test: threads that make calls at random and compare the bits, a fork now and then, and a watch over all.

`python -m tests.stress.worker TASK STATUS`: `TASK` is a file of JSON; what becomes of it is written to the file `STATUS` twice a second.
It ends with 0 when it is asked to (SIGTERM), 3 after a wrong result, 4 when a thread hangs; standard error has the story.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bcvm_core.codegen.stencils import arena
from bcvm_core.jit import jit
from bcvm_core.tiers import hot, race, recompile
from tests.bench.code_memory import resident_kb
from tests.stress import calls

WRONG, HUNG = 3, 4
_FORK_EVERY_S = 2.0
_IN_CHILD = 3  # calls


class Process:
    """The state of one worker process."""

    def __init__(self, task: dict[str, Any], status: Path) -> None:
        self.expected: list[str] = task["expected"]
        self.hang_s: float = task["hang_s"]
        self.base, self.seed, self.threads = task["base"], task["seed"], task["threads"]
        self.status = status
        self.stop = threading.Event()
        self.beats = [time.monotonic()] * self.threads
        self.calls = [0] * self.threads
        self.forks = 0
        self.functions: dict[Any, Any] = {}

    # -- calls ------------------------------------------------------------------------------------

    def check(self, number: int) -> None:
        """One call. Raises AssertionError where its bits are others than they should be."""
        function, operands = calls.call(self.base + number)
        jitted = self.functions.get(function) or self.functions.setdefault(function, jit(function))
        found = calls.digest(jitted(*operands))
        assert found == self.expected[number], f"call {self.base + number}, {function.__name__}{[x.shape for x in operands]}: other bits"

    def thread(self, which: int) -> None:
        """Calls until the end."""
        choose = random.Random(f"{self.seed} {which} {os.getpid()}")
        forked = time.monotonic()
        try:
            with np.errstate(all="ignore"):
                while not self.stop.is_set():
                    number = choose.randrange(len(self.expected))
                    for _ in range(40 if which == 1 else choose.choice((1, 1, 2, 15))):  # tier 3 wants many in a row
                        self.check(number)
                        self.calls[which] += 1
                        self.beats[which] = time.monotonic()
                    if choose.random() < 0.01:  # everything of this function goes, and comes back
                        self.functions.pop(calls.FUNCTIONS[number % len(calls.FUNCTIONS)], None)
                    if which == 0 and time.monotonic() - forked > _FORK_EVERY_S:
                        self.fork(choose)
                        forked = time.monotonic()
        except BaseException:
            self.end(WRONG, traceback.format_exc())

    # -- forks ------------------------------------------------------------------------------------

    def fork(self, choose: random.Random) -> None:
        """Let a child make some calls, while the other threads of this process go on."""
        numbers = [choose.randrange(len(self.expected)) for _ in range(_IN_CHILD)]
        child = os.fork()
        if not child:
            self.child(numbers)
        while True:
            pid, code = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            time.sleep(0.01)
        self.forks += 1
        self.beats[0] = time.monotonic()
        if code not in (0, signal.SIGKILL):  # killed from outside: that happens here
            self.end(WRONG, f"a forked child ended with {os.waitstatus_to_exitcode(code)}, calls {[self.base + n for n in numbers]}")

    def child(self, numbers: list[int]) -> NoReturn:
        """In the child: it says nothing but by its exit status and standard error."""
        code = WRONG
        try:
            faulthandler.dump_traceback_later(self.hang_s / 2, exit=True)
            for number in numbers:
                self.check(number)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    # -- the watch --------------------------------------------------------------------------------

    def end(self, code: int, text: str) -> NoReturn:
        """Tell the story and go."""
        print(text, file=sys.stderr, flush=True)
        self.write()
        os._exit(code)

    def write(self) -> None:
        """What is known up to now."""
        kept = [v for v in hot.verdicts() if v.state == hot.KEPT]
        found = {
            "pid": os.getpid(),
            "calls": sum(self.calls),
            "forks": self.forks,
            "rss_kb": resident_kb(),
            "code": arena.shared().used_bytes if arena.is_open() else 0,
            "searches": recompile.figures.searches,
            "recompiled": len(kept),
            "threads": threading.active_count(),
            "files": len(os.listdir("/proc/self/fd")),
        }
        beside = self.status.with_suffix(".new")
        beside.write_text(json.dumps(found))
        os.replace(beside, self.status)

    def watch(self) -> None:
        """Until the end: figures, and an eye on every thread."""
        while not self.stop.wait(0.5):
            self.write()
            late = [k for k, at in enumerate(self.beats) if time.monotonic() - at > self.hang_s]
            if late:
                faulthandler.dump_traceback(all_threads=True)
                self.end(HUNG, f"threads {late} have done nothing for {self.hang_s:g} s")

    def run(self) -> int:
        """The whole of it."""
        threads = [threading.Thread(target=self.thread, args=(k,), name=f"calls-{k}") for k in range(self.threads)]
        signal.signal(signal.SIGTERM, lambda *_: self.stop.set())
        for thread in threads:
            thread.start()
        self.watch()
        for thread in threads:
            thread.join(self.hang_s)
            if thread.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                self.end(HUNG, "a thread did not end")
        self.write()
        return 0


def _no_room(*_args: Any, **_attrs: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def main() -> int:
    """See above."""
    faulthandler.enable()  # also for SIGABRT, by which whoever started this asks where it is
    task = json.loads(Path(sys.argv[1]).read_text())
    race.ENOUGH = 10.0  # most candidates take the place: what is tested is the exchange, not what it gains
    if task.get("full"):
        tempfile.mkstemp = _no_room
    return Process(task, Path(sys.argv[2])).run()


if __name__ == "__main__":
    sys.exit(main())
