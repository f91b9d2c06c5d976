"""The compile worker: a process that makes candidates, one request after the other, and ends with its parent.

It is told by whoever starts it (`worker.py`) where modules are, its end of a socket pair and its parent's pid. Interrupts of the terminal
are not for it, and whatever the machine has to do goes first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from .. import loader
from ..stencils.graph import NotFusable
from . import check, wire
from .backend import CANDIDATES, Job, open_at

_NICE: Final = 10
_LOOK_S: Final = 2.0  # how often a worker without work looks whether its parent is there (a fork of the parent may hold the socket open)


class Answer(NamedTuple):
    """What a search gave: candidates as (name, object, ms it took), others as (name, why not), and the processor time of it all."""

    candidates: list[tuple[str, bytes, float]]
    refused: list[tuple[str, str]]
    cpu_s: float


def main(descriptor: int, parent: int) -> None:
    """Serve until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    with socket.socket(fileno=descriptor) as link:
        try:
            from .. import compiler

            compiler.start()
            wire.send(link, "ready")
            while True:
                while not wire.waiting(link, _LOOK_S):
                    if os.getppid() != parent:
                        return
                number, place, job = wire.receive(link)
                wire.send(link, (number, answer(place, job)))
        except wire.ClosedError:
            return


def answer(place: str, job: Job) -> Answer:
    """Let the back end at a place make candidates, and try them."""
    started = time.process_time()
    made: list[tuple[str, bytes, float]] = []
    refused: list[tuple[str, str]] = []
    try:
        found = open_at(place).candidates(job)
        for _ in range(CANDIDATES):
            begun = time.perf_counter()
            candidate = next(found, None)
            if candidate is None:
                break
            took = 1000 * (time.perf_counter() - begun)
            reason = tried(candidate.body, job)
            if reason:
                refused.append((candidate.name, reason))
            else:
                made.append((candidate.name, candidate.body, took))
    except NotFusable as error:
        refused.append((place, str(error)))
    except Exception as error:  # a back end is anybody's code
        refused.append((place, f"{type(error).__name__}: {error}"))
    return Answer(made, refused, time.process_time() - started)


def tried(body: bytes, job: Job) -> str:
    """Run a candidate once on every kind of piece: why it may not be used, "" where nothing speaks against it. Here it may crash."""
    try:
        start = loader.load(body)["start"]
    except (loader.LoadError, KeyError) as error:
        return f"not of the kind that can be loaded: {error}"
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(start)
    constants = check.constants(job.lowered)
    for piece in check.pieces(job):
        context = check.context(piece)
        run(ctypes.addressof(context), piece.count, ctypes.addressof(constants))
        if not piece.intact():
            return f"it wrote beyond the end of an output of {piece.count} elements"
    return ""


def serve(arguments: Sequence[str]) -> None:
    """The entry of the process."""
    main(int(arguments[0]), int(arguments[1]))
