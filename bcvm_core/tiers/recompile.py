"""Tier 3: kernels that stay hot are made anew by an optimising back end, and exchanged where that is surely worth it.

A thread of this module lets the compile worker make candidates for a hot kernel, checks them against the present code, bit by bit, and
lets both run pieces of the user's next calls (`race.py`). A candidate that takes at most 85% of the time takes the place, by one store
that calls see or don't; otherwise the class is marked "not worth optimising". No call ever waits for any of this.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Final

from .. import config, locks
from ..codegen.loader import LoadError, assembled
from ..codegen.search import backend, check, worker
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils import offsets as c
from ..codegen.stencils.driver import driver
from ..codegen.stencils.graph import NotFusable
from ..codegen.store import cpu_level
from ..events import FellBack, Recompiled, bus
from .hot import ABANDONED, DROPPED, KEPT, HotClass
from .log import logger
from .race import ENOUGH, Race, Runner

DEADLINE_S: Final = 10.0  # of one search; the worker is killed then
CPU_SHARE: Final = 0.05  # of the worker, of the time since it was first asked
_ALLOWANCE_S: Final = 2.0  # that it has at first


@dataclass(slots=True)
class Figures:
    """What tier 3 has done in this process."""

    searches: int = 0
    postponed: int = 0  # searches that would have been too much for the machine
    worker_cpu_s: float = 0.0
    since: float = 0.0


figures = Figures()
_requests: queue.SimpleQueue[tuple[weakref.ref[kernels.FusedKernel], HotClass, int]] = queue.SimpleQueue()
_thread: threading.Thread | None = None
_lock = locks.lock()
_finishing = locks.lock()
_busy = 0


def ask(kernel: kernels.FusedKernel, found: HotClass, mask: int) -> None:
    """Let candidates be made for a class of a kernel. Returns at once."""
    global _thread, _busy
    verdict = found.verdict
    with _lock:
        if found.asked:
            return
        found.asked = True
        verdict.state, verdict.reason, verdict.profile = "searching", "", []
        _busy += 1
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_serve, name="bcvm-recompile", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # the interpreter is shutting down, or there are no more threads
                _thread = None
                verdict.state, _busy = "", _busy - 1  # and nothing is asked for any more
                return
    _requests.put((weakref.ref(kernel), found, mask))


def wait(seconds: float = 60.0) -> bool:
    """Wait until nothing is being searched for; False when the time is up first. For tests and those who measure."""
    deadline = time.monotonic() + seconds
    while _busy:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _serve() -> None:
    global _busy
    while True:
        reference, found, mask = _requests.get()
        try:
            _search(reference, found, mask)
        except Exception as error:  # of ours: the kernel stays as it is
            _give_up(found, f"{type(error).__name__}: {error}")
            logger.debug("[BCVM] Recompile failed", exc_info=True)
        found.asked = False
        del reference, found  # while this thread waits it keeps nothing
        with _lock:
            _busy -= 1


def _search(reference: weakref.ref[kernels.FusedKernel], found: HotClass, mask: int) -> None:
    """One request, from the job to the race."""
    kernel, verdict = reference(), found.verdict
    if kernel is None:
        verdict.state = ""
        return
    if _too_much():
        figures.postponed += 1
        verdict.state = ""
        return
    job = backend.Job(kernel.lowered, mask, len(kernel.inputs), cpu_level())
    del kernel  # it may go while the compile runs
    place = backend.place_of(config.current.search)
    if place is None:
        _give_up(found, f"no back end {config.current.search!r}; known: {', '.join(backend.names())}")
        return
    started = time.perf_counter()
    figures.searches += 1
    try:
        answer = worker.shared().request(place, job, DEADLINE_S)
    except worker.WorkerError as error:
        _give_up(found, f"compile_{error.kind}: {error}")
        return
    verdict.compile_ms = 1000 * (time.perf_counter() - started)
    figures.worker_cpu_s += answer.cpu_s
    kernel = reference()
    if kernel is None:
        verdict.state = ""
        return
    runners, refused = _candidates(kernel, job, answer)
    verdict.profile = [f"{name}: [REJECTED] {reason}" for name, reason in refused]
    if not runners:
        _drop(found, "no candidate may be used")
        return
    verdict.state = "measuring"
    found.race = Race(kernel.code(mask), runners)


def _too_much() -> bool:
    now = time.monotonic()
    figures.since = figures.since or now
    return figures.worker_cpu_s > _ALLOWANCE_S + CPU_SHARE * (now - figures.since)


def _candidates(kernel: kernels.FusedKernel, job: backend.Job, answer: Any) -> tuple[list[Runner[Any]], list[tuple[str, str]]]:
    """Those that do exactly what the present code does, in memory; the others with the reason."""
    runners: list[Runner[Any]] = []
    refused = list(answer.refused)
    for name, body, took_ms in answer.candidates:
        try:
            image, functions = assembled(body)
            code = kernels.Placed(image, functions["start"], kernel.code(job.repeated).context_bytes)
        except (LoadError, NotFusable, KeyError) as error:
            refused.append((name, str(error)))
            continue
        reason = differs(kernel, job, code)
        if reason:
            refused.append((name, reason))
        else:
            runners.append(Runner(f"{name} (made in {took_ms:.0f} ms)", code))
    return runners, refused


def differs(kernel: kernels.FusedKernel, job: backend.Job, code: kernels.Placed) -> str:
    """In what a candidate differs from the present code; "" where it does the same on all the data of `check`."""
    present, mode = kernel.code(job.repeated), driver().mode()
    for piece in check.pieces(job):
        count = len(piece.sizes)
        strides = [[0 if job.repeated >> k & 1 else size] for k, size in enumerate(piece.sizes)]
        runs = []
        for each in (present, code):
            piece.clear()
            common = (each, kernel.constants, [0] * count, piece.sizes, mode)
            word, status = kernel.run_piece(common, (piece.pointers, [piece.count], strides))
            runs.append((piece.results(), bool(word), status & c.EVENTS))
            if not piece.intact():
                return f"it wrote beyond the end of an output of {piece.count} elements"
        for what, old, new in zip(("other bits", "other events noted", "other events"), *runs, strict=True):
            if old != new:
                return f"{what} on {piece.count} elements"
    return ""


def finish(found: HotClass, race: Race[Any]) -> None:
    """A race is over: its winner runs from now on, or nothing changes."""
    with _finishing:
        if found.race is not race:
            return
        found.race = None
        winner, verdict = race.winner, found.verdict
        verdict.profile = [*verdict.profile, *(runner.text() for runner in race.runners)]
        if winner is None:
            best = min((runner.ratio for runner in race.runners), default=1.0)
            _drop(found, f"the best candidate takes {best:.2f} of the time, and is not surely under {ENOUGH:.2f}")
            return
        found.code = winner.code
        verdict.state, verdict.reason = KEPT, winner.text()
        _announce(found, winner.name)


def _drop(found: HotClass, reason: str) -> None:
    found.verdict.state, found.verdict.reason = DROPPED, reason
    found.verdict.back_off()
    _announce(found, "")


def _give_up(found: HotClass, reason: str) -> None:
    found.verdict.state, found.verdict.reason = ABANDONED, reason
    found.verdict.back_off()
    if bus.active:
        bus.emit(FellBack(found.verdict.ops, reason))
    logger.debug("[BCVM] Recompile of %s abandoned: %s", "+".join(found.verdict.ops), reason)


def _announce(found: HotClass, kept: str) -> None:
    verdict = found.verdict
    if bus.active:
        bus.emit(Recompiled(verdict.ops, bool(kept), verdict.reason, 1000 * verdict.compile_ms, verdict.elements, kept))
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("[BCVM] Recompile %s: %s, %s", "+".join(verdict.ops), verdict.state, verdict.reason)


def _after_fork() -> None:
    """The child has no such thread; what was on its way is not waited for."""
    global _requests, _thread, _busy
    _requests, _thread, _busy = queue.SimpleQueue(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
