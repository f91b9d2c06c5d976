"""Processes that know the package's modules without starting all of it; among them one that makes the object of a loop and ends.

A child that was forked while another thread of its parent compiled has LLVM's locks, and those of half-done imports, as they were: it may
never use LLVM itself. So a process of its own makes for it what it needs.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .loops import Loop

_BOOT: Final = (  # the package's own start is left out: such a process needs little of it
    "import importlib,json,sys,types\n"
    "sys.path[:]=json.loads(sys.argv[1])\n"
    "p=types.ModuleType('bcvm_core');p.__path__=[sys.argv[2]];sys.modules['bcvm_core']=p\n"
    "importlib.import_module(sys.argv[3]).serve(sys.argv[4:])\n"
)


def command(module: str, *arguments: object) -> list[str]:
    """The command line that calls `serve(arguments)` of a module in a process of its own."""
    return [sys.executable, "-I", "-c", _BOOT, json.dumps(sys.path), str(Path(__file__).parents[1]), module, *map(str, arguments)]


def body_of(loop: Loop, seconds: float) -> bytes:
    """The object of a loop, made by another process. Raises OSError, RuntimeError with what went wrong."""
    kind = type(loop)
    try:
        done = subprocess.run(
            command(__name__, kind.__module__, kind.__qualname__, loop.op, loop.dtype),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.SubprocessError as error:
        raise RuntimeError(f"compile_timeout: it took longer than {seconds:g} s") from error
    if done.returncode:
        raise RuntimeError([f"status {done.returncode}", *done.stderr.decode(errors="replace").strip().splitlines()][-1])
    return done.stdout


def serve(arguments: Sequence[str]) -> None:
    """The entry of that process: the object goes to standard output."""
    module, name, op, dtype = arguments
    loop: Loop = getattr(importlib.import_module(module), name)(op, dtype)
    body = loop.body()
    with os.fdopen(os.dup(1), "wb") as out:
        out.write(body)
