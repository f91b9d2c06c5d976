"""The machine in a few figures, and the time that they predict for a kernel.

A kernel needs the longer of two times, that of its arithmetic and that of its traffic, and a fixed time for the call (the roofline
model). The figures are measured once per machine (`measuring`, `machines`) or read from a file; `NOMINAL` stands in where nobody has
measured, and wherever a choice may not depend on the machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final

from ..dtypes import BY_NAME
from ..errors import BcvmError

ARITHMETIC, DIVISION, FUNCTION, PRODUCT = "arithmetic", "division", "function", "product"
KINDS: Final = (ARITHMETIC, DIVISION, FUNCTION, PRODUCT)
EXP_FLOPS: Final = 20.0  # what the op table counts for an exp: the price of every function is relative to it

MEANINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "cpu": ("", "the processor's name"),
        "versions": ("", "of NumPy and BCVM, whose kernels were measured"),
        "cores": ("", "cores that the process may use"),
        "gain": ("", "how many times as much all of them do in our kernels as one does"),
        "levels": (
            "bytes, GB/s",
            "caches and memory, the nearest first: size; bytes read and written per second by one core, by all",
        ),
        "arithmetic": ("GFLOP/s", "additions and multiplications of our kernels in the nearest cache, by element type, one core"),
        "product": ("GFLOP/s", "matrix products as BLAS runs them, by element type, all cores"),
        "divide_ns": ("ns", "one division of our kernels, by element type, one core"),
        "exp_ns": ("ns", "one exp of our kernels, by element type, one core"),
        "call_ns": ("ns", "a call of a fused kernel"),
        "op_ns": ("ns", "a call of one op by itself"),
        "handover_ns": ("ns", "what a large call costs more than a small one, since Python cuts it into pieces"),
        "wake_ns": ("ns", "until the other threads, when they are awake, have taken part in a call and are heard of"),
        "fresh_gbs": ("GB/s", "first writes to memory that the system has just given"),
        "noise": ("", "middle half of the measurements relative to their median, the median over all figures; 0: not measured"),
    }
)
"""Field of `Machine` -> its unit and its meaning."""


class MachineError(BcvmError):
    """Figures of a machine that cannot be: negative, missing, or with faster memory than cache."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of memory. `size`: bytes one core may keep there; None: as much as there is.

    `gbs`, `gbs_all`: bytes read plus bytes written per nanosecond, by one core and by all together.
    """

    name: str
    size: int | None
    gbs: float
    gbs_all: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Nanoseconds that a kernel should take: `total_ns` = max(compute, traffic) + overhead. `level` is where its working set lies."""

    compute_ns: float
    traffic_ns: float
    overhead_ns: float
    level: str

    @property
    def total_ns(self) -> float:
        return max(self.compute_ns, self.traffic_ns) + self.overhead_ns

    @property
    def bound(self) -> str:
        """What decides: "call", "compute" or "traffic"."""
        if self.overhead_ns >= max(self.compute_ns, self.traffic_ns):
            return "call"
        return "compute" if self.compute_ns >= self.traffic_ns else "traffic"


@dataclass(frozen=True, slots=True)
class Machine:
    """What BCVM knows of a machine; `MEANINGS` has the unit and meaning of each field. Raises MachineError for figures that cannot be."""

    cpu: str
    versions: str
    cores: int
    gain: float
    levels: tuple[Level, ...]
    arithmetic: Mapping[str, float]
    product: Mapping[str, float]
    divide_ns: Mapping[str, float]
    exp_ns: Mapping[str, float]
    call_ns: float
    op_ns: float
    handover_ns: float
    wake_ns: float
    fresh_gbs: float
    noise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("arithmetic", "product", "divide_ns", "exp_ns"):
            table = MappingProxyType(dict(getattr(self, name)))
            _need(all(map(_positive, table.values())) and "float32" in table, f"{name} needs a positive figure for float32")
            object.__setattr__(self, name, table)
        for name in ("call_ns", "op_ns", "handover_ns", "wake_ns", "fresh_gbs"):
            _need(_positive(getattr(self, name)), f"{name} must be positive")
        _need(type(self.cores) is int and self.cores >= 1, "cores must be 1 or more")
        _need(_positive(self.gain) and 1 <= self.gain <= self.cores, "gain lies between 1 and cores")
        _need(bool(self.levels) and self.levels[-1].size is None, "the last level must be memory, whose size is null")
        _need(all(_positive(level.gbs) and level.gbs_all >= level.gbs for level in self.levels), "all cores move no fewer bytes than one")
        for near, far in zip(self.levels, self.levels[1:], strict=False):
            _need(near.size is not None and near.size > 0 and (far.size is None or far.size > near.size), f"{far.name} must be the larger")
            _need(far.gbs <= near.gbs and far.gbs_all <= near.gbs_all, f"{far.name} cannot be faster than {near.name}")

    # -- the model --------------------------------------------------------------------------------

    def level_of(self, working_set: float, threads: int = 1) -> Level:
        """Where so many bytes lie; each thread brings the caches of its core, but for the last one, which all share."""
        caches = self.levels[:-1]
        for level in caches:
            shared = level is caches[-1] and len(caches) > 2
            if level.size is not None and working_set <= level.size * (1 if shared else threads):
                return level
        return self.levels[-1]

    def flops_per_ns(self, kind: str, dtype: str, threads: int = 1) -> float:
        """The rate of one kind of work over one element type."""
        if kind == PRODUCT:
            return _by_type(self.product, dtype) * min(threads, self.cores) / self.cores
        if kind == ARITHMETIC:
            one = _by_type(self.arithmetic, dtype)
        elif kind == DIVISION:
            one = 1 / _by_type(self.divide_ns, dtype, slower_is_more=True)
        else:
            one = EXP_FLOPS / _by_type(self.exp_ns, dtype, slower_is_more=True)
        return one * self.gain_of(threads)

    def gain_of(self, threads: int) -> float:
        """How many times as much so many threads do as one: 1 for one, `gain` for all cores."""
        others = max(1, self.cores - 1)
        return 1.0 + (self.gain - 1.0) * (min(threads, self.cores) - 1) / others

    def bytes_per_ns(self, working_set: float, threads: int = 1) -> float:
        """How fast bytes of a working set move."""
        level = self.level_of(working_set, threads)
        return min(level.gbs * self.gain_of(threads), level.gbs_all)

    def roofline(
        self,
        flops: float | Mapping[str, float],
        nbytes: float,
        *,
        working_set: float | None = None,
        fresh: float = 0.0,
        dtype: str = "float32",
        threads: int = 1,
        overhead_ns: float | None = None,
    ) -> Prediction:
        """The time of one kernel.

        `flops`: floating-point operations, or those of each of `KINDS`. `nbytes`: bytes read and written. `working_set`: bytes between
        which the kernel goes back and forth (default: `nbytes`). `fresh`: bytes that are written where nobody has written before.
        `overhead_ns`: the call itself (default: `call_ns`).
        Raises ValueError for negative or non-finite work.
        """
        parts = flops if isinstance(flops, Mapping) else {ARITHMETIC: flops}
        held = nbytes if working_set is None else working_set
        if not all(math.isfinite(v) and v >= 0 for v in (*parts.values(), nbytes, held, fresh)) or threads < 1:
            raise ValueError("work is finite and not negative, and threads are at least 1")
        threads = min(threads, self.cores)
        compute = sum(amount / self.flops_per_ns(kind, dtype, threads) for kind, amount in parts.items() if amount)
        traffic = nbytes / self.bytes_per_ns(held, threads) + fresh / self.fresh_gbs
        return Prediction(compute, traffic, self.call_ns if overhead_ns is None else overhead_ns, self.level_of(held, threads).name)

    def with_one_core(self) -> Machine:
        """One of its cores, as a machine: what a call that stays in one thread has."""
        product = {dtype: rate / self.cores for dtype, rate in self.product.items()}
        return replace(self, cores=1, gain=1.0, product=product)

    # -- written forms ----------------------------------------------------------------------------

    def to_json(self) -> str:
        """The figures as JSON, in the form that `from_json` and BCVM_MACHINE take."""
        body: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        body["levels"] = [{f.name: getattr(level, f.name) for f in fields(level)} for level in self.levels]
        return json.dumps({k: dict(v) if isinstance(v, Mapping) else v for k, v in body.items()}, indent=2)

    def text(self) -> str:
        """The figures for people."""
        lines = [f"{self.cpu}, {self.cores} cores, together {self.gain:.3g} times one ({self.versions})"]
        for level in self.levels:
            size = f"{_size(level.size):>9}" if level.size is not None else " " * 9
            lines.append(f"  {level.name:<8}{size}  copies at {level.gbs:7.1f} GB/s, all cores {level.gbs_all:7.1f}")
        for name, unit in (("arithmetic", "GFLOP/s"), ("product", "GFLOP/s"), ("divide_ns", "ns"), ("exp_ns", "ns")):
            figures = "  ".join(f"{dtype} {value:.3g}" for dtype, value in getattr(self, name).items())
            lines.append(f"  {name.removesuffix('_ns'):<11} {unit:<8} {figures}")
        lines.append(
            f"  calls: a kernel {self.call_ns:.0f} ns, one op {self.op_ns:.0f} ns, a large call {self.handover_ns / 1000:.1f} us more"
        )
        lines.append(f"  sharing out {self.wake_ns / 1000:.1f} us; first writes to fresh memory {self.fresh_gbs:.1f} GB/s")
        if self.noise:
            lines.append(f"  noise while measuring: {self.noise:.0%}")
        return "\n".join(lines)


def from_json(text: str) -> Machine:
    """The machine of a JSON text. Raises MachineError when it is not one."""
    try:
        body = json.loads(text)
        body["levels"] = tuple(Level(**level) for level in body["levels"])
        return Machine(**body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MachineError(f"no figures of a machine: {error}", fix="`bcvm machine --json` prints the form") from None


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise MachineError(what)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _by_type(table: Mapping[str, float], dtype: str, *, slower_is_more: bool = False) -> float:
    """A figure for an element type; one that was not measured is as fast as float32, scaled by its width (never faster)."""
    found = table.get(dtype)
    if found is not None:
        return found
    wide = max(1.0, BY_NAME[dtype].numpy.itemsize / 4)
    return table["float32"] * wide if slower_is_more else table["float32"] / wide


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"


NOMINAL: Final = Machine(
    cpu="nominal",
    versions="no measurement",
    cores=32,
    gain=32.0,
    levels=(
        Level("L1", 32 << 10, 150.0, 4800.0),
        Level("L2", 1 << 20, 60.0, 1920.0),
        Level("L3", 32 << 20, 25.0, 400.0),
        Level("memory", None, 10.0, 100.0),
    ),
    arithmetic={"float32": 20.0, "float64": 10.0, "float16": 10.0, "bfloat16": 10.0},
    product={"float32": 2560.0, "float64": 1280.0},
    divide_ns={"float32": 0.3, "float64": 0.8, "float16": 0.5, "bfloat16": 0.5},
    exp_ns={"float32": 0.6, "float64": 1.2, "float16": 1.0, "bfloat16": 1.0},
    call_ns=100.0,
    op_ns=800.0,
    handover_ns=30_000.0,
    wake_ns=10_000.0,
    fresh_gbs=2.0,
)
"""A server processor of 32 cores, in round figures. Choices between kernels whose bits differ are made for it, on every machine."""
