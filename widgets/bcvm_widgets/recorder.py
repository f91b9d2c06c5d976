"""`with recording("run.json"):` the run of a block, whether or not a dashboard is open."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from .pump import Pump
from .runs import INTERVAL_MS, Run, RunError
from .sampling import Sampler
from .watching import status_of, watch


class Recording:
    """What `recording` gives. `run` can be read within the block and after it; the file is written at its end, also after an error."""

    def __init__(self, path: str | os.PathLike[str], functions: tuple[Any, ...]) -> None:
        self.path = Path(path)
        self.run = Run()
        self._watch = watch(functions)
        self._sampler = Sampler(self._watch)
        self._lock = threading.Lock()
        self._pump = Pump(self._tick, interval_s=INTERVAL_MS / 1000)

    def __enter__(self) -> Recording:
        """Begin. Raises RunError where no file could be written."""
        if not self.path.absolute().parent.is_dir() or self.path.is_dir():
            raise RunError(f"cannot write {self.path}: there is no such folder", fix="choose a folder that exists")
        self._watch.open(on_cell=self._pump.wake)
        self._pump.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.run.save(self.path)

    def stop(self) -> None:
        """Look once more, and no longer; `__exit__` also writes the file."""
        self._pump.stop()
        self._tick(at_once=True)
        self._watch.close()

    def _tick(self, *, at_once: bool = False) -> bool:
        with self._lock:
            status = status_of(self._watch)
            sample = self._sampler.sample(often=status["running"] and not at_once)
            messages = {f.name: getattr(sample, f.name) for f in fields(sample)}
            self.run.note(time.perf_counter() * 1000, {**messages, "status": status}, at_once=at_once)
            return status["running"]
