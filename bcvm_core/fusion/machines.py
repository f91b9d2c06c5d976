"""Which figures of a machine are in force: those of a given file, those measured here once, or the nominal ones.

A measurement is kept in BCVM's cache folder under a name made of what it depends on: processor, caches, cores, versions, and whether
kernels are machine code. Asking which figures are in force never measures; `measured` does, where nothing is kept yet.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from .. import config
from ..codegen import store
from ..codegen.stencils import kernel, threads
from .hardware import cache_sizes, cpu_name, versions
from .machine import NOMINAL, Machine, MachineError, from_json

_log = logging.getLogger("bcvm")
_MAGIC: Final = b"BCVMMCH1"


@dataclass(frozen=True, slots=True)
class InForce:
    """The figures that decisions are made by. `source`: "nominal", "measured", or the path of the file they are from."""

    machine: Machine
    source: str


_known: dict[tuple[str | None, str | None], InForce] = {}  # by settings: the file and the cache folder


def in_force() -> InForce:
    """The figures that count under the present settings. Raises MachineError where a file is given that can't be used."""
    settings = (config.current.machine, config.current.cache_dir)
    found = _known.get(settings)
    if found is None:
        found = _known[settings] = _look(settings[0])
    return found


def usable() -> InForce:
    """As `in_force`; the nominal figures, with a warning in the log, where a file is given that can't be used."""
    try:
        return in_force()
    except MachineError as error:
        _log.warning("times are predicted by nominal figures: %s", error)
        found = _known[config.current.machine, config.current.cache_dir] = _nominal()
        return found


def _nominal() -> InForce:
    return InForce(nominal(threads.cores()), "nominal")


def _look(given: str | None) -> InForce:
    if given is not None:
        return InForce(from_file(Path(given)), given)
    kept = read()
    return _nominal() if kept is None else InForce(kept, "measured")


def nominal(cores: int) -> Machine:
    """The nominal machine with so many cores."""
    levels = tuple(replace(level, gbs_all=min(level.gbs_all, level.gbs * cores)) for level in NOMINAL.levels)
    product = {dtype: rate * cores / NOMINAL.cores for dtype, rate in NOMINAL.product.items()}
    return replace(NOMINAL, cores=cores, gain=float(cores), levels=levels, product=product)


def from_file(path: Path) -> Machine:
    """The figures in a file of JSON. Raises MachineError."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"cannot read the figures in {path}: {error}", fix="unset BCVM_MACHINE, or name a file") from None


def measured(*, again: bool = False, progress: Callable[[Sequence[int]], Iterable[int]] = lambda rounds: rounds) -> tuple[Machine, bool]:
    """The figures of this machine, and whether they were measured just now; `again`: whatever is kept. `progress` wraps the rounds."""
    kept = None if again else read()
    if kept is not None:
        return kept, False
    from .measuring import measure

    found = measure(progress=progress)
    write(found)
    _known.clear()
    return found, True


def path() -> Path:
    """Where the measurement of this machine is kept (it need not exist)."""
    return store.cache_root() / "machine" / f"{_key()}.bin"


def read() -> Machine | None:
    """The measurement that is kept; None when there is none, or it is damaged (the next one replaces it)."""
    body = store.read_sealed(path(), _MAGIC)
    if body is None:
        return None
    try:
        return from_json(body.decode("utf-8"))
    except (MachineError, UnicodeDecodeError):
        return None


def write(machine: Machine) -> bool:
    """Keep a measurement; False when the folder can't be written."""
    return store.write_sealed(path(), machine.to_json().encode("utf-8"), _MAGIC)


def forget() -> None:
    """Look at the files again when figures are asked for next."""
    _known.clear()


def _key() -> str:
    parts = (sys.platform, cpu_name(), store.cpu_level(), *map(str, cache_sizes()), str(threads.cores()), versions(), kernel.engine()[0])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
