"""Environments of the peers, made at their first use under `build/peers`, and the workers that run in them.

`BCVM_BENCH_PEERS` names another folder. A peer that cannot be installed is left out, with a line that says why.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
FOLDER = Path(os.environ.get("BCVM_BENCH_PEERS") or _ROOT / "build" / "peers")
_INSTALL_S = 1800


class PeerError(Exception):
    """A peer is not there, or could not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Program:
    """A peer: what is installed for it, and how its worker is started. `own`: it may run in our environment."""

    name: str
    script: str
    requires: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    own: str = ""  # the module that must be there for that


PROGRAMS = (
    Program("BCVM", "with_bcvm", own="bcvm_core"),
    Program("BCVM, NumPy's text", "with_bcvm_numpy_text", own="bcvm_core"),
    Program("NumPy", "with_numpy", own="numpy"),
    Program("numexpr", "with_numexpr", ("numexpr",)),
    Program("numba", "with_numba", ("numba",)),
    Program("JAX jit", "with_jax", ("jax",)),
    Program("torch eager", "with_torch", ("torch", "numpy")),
    Program("torch.compile", "with_torch", ("torch", "numpy"), ("compile",)),
    Program("BCVM on MindSpore", "with_mindspore", ("mindspore==2.10.*", "numpy<2"), ("bcvm",), own="mindspore"),
    Program("MindSpore PyNative", "with_mindspore", ("mindspore==2.10.*", "numpy<2"), own="mindspore"),
    Program("ms.jit", "with_mindspore", ("mindspore==2.10.*", "numpy<2"), ("jit",), own="mindspore"),
)
BY_NAME = {program.name: program for program in PROGRAMS}


def interpreter(program: Program) -> str:
    """The Python of a peer's environment, which is made when there is none. Raises PeerError."""
    if program.own and importlib.util.find_spec(program.own) is not None:
        return sys.executable
    if not program.requires or "bcvm" in program.arguments:
        raise PeerError(f"{program.own} is not installed")
    folder = FOLDER / program.requires[0].partition("=")[0]
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():
        print(f"(installing {', '.join(program.requires)} into {folder})", flush=True)
        try:
            venv.create(folder, with_pip=True)
            _pip(python, program.requires)
        except (OSError, subprocess.SubprocessError, PeerError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise PeerError(f"could not be installed ({str(error).strip().splitlines()[-1][:120]})") from error
        stamp.touch()
    return str(python)


def environment_of(program: Program) -> dict[str, str]:
    """What a peer's process sees: this checkout where it runs in our environment, nothing of the caller's path in one of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))}
    if interpreter(program) != sys.executable:
        environment.pop("PYTHONPATH")
    return environment


def _pip(python: Path, requires: tuple[str, ...]) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode:
        raise PeerError(done.stderr or "pip failed")


class Process:
    """A worker that is alive. `ask` raises PeerError with what the peer said."""

    def __init__(self, program: Program) -> None:
        self.program = program
        environment = environment_of(program)
        command = [interpreter(program), str(_HERE / f"{program.script}.py"), *program.arguments]
        log = open(FOLDER / f"{program.script}{''.join(program.arguments)}.log", "w")  # noqa: SIM115  # the child's
        with log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1, env=environment
            )
        self.versions: str = self.ask("versions")

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to one request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise PeerError(f"{do}: the worker ended (see {FOLDER})")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{do}: {answer['error']}")
        return answer["is"]

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def start(names: tuple[str, ...], left_out: dict[str, str]) -> list[Process]:
    """The workers of these peers; who cannot take part is noted in `left_out`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = []
    for name in names:
        if name in left_out:
            continue
        try:
            found.append(Process(BY_NAME[name]))
        except PeerError as error:
            left_out[name] = str(error)
            print(f"left out: {name}: {error}", flush=True)
    return found
