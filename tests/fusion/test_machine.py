"""The figures of a machine and the times that they predict."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core.fusion import machines
from bcvm_core.fusion.machine import KINDS, MEANINGS, NOMINAL, Level, Machine, MachineError, from_json
from bcvm_core.fusion.machines import InForce

GIVEN = machines.from_file(Path(__file__).parent / "machine.json")
MACHINES = st.sampled_from([GIVEN, NOMINAL, machines.nominal(1)])
AMOUNTS = st.floats(0, 1e12)


def test_every_figure_has_a_unit_and_a_meaning() -> None:
    assert {f.name for f in dataclasses.fields(Machine)} == set(MEANINGS)
    assert all(meaning for _, meaning in MEANINGS.values())


@pytest.mark.parametrize("machine", [GIVEN, NOMINAL, machines.nominal(1), machines.nominal(64)])
def test_the_written_form_is_the_machine(machine: Machine) -> None:
    assert from_json(machine.to_json()) == machine
    assert f"{machine.cores} cores" in machine.text()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cores": 0}, "cores"),
        ({"gain": 5.0}, "gain"),
        ({"gain": 0.5}, "gain"),
        ({"call_ns": 0.0}, "call_ns"),
        ({"wake_ns": float("nan")}, "wake_ns"),
        ({"exp_ns": {"float64": 1.0}}, "exp_ns"),
        ({"arithmetic": {"float32": -1.0}}, "arithmetic"),
        ({"levels": ()}, "last level"),
        ({"levels": (Level("L1", 1 << 15, 10.0, 10.0),)}, "last level"),
        ({"levels": (Level("L1", 1 << 15, 10.0, 5.0), Level("memory", None, 5.0, 5.0))}, "all cores"),
        ({"levels": (Level("L1", 1 << 15, 10.0, 10.0), Level("memory", None, 20.0, 20.0))}, "faster"),
        ({"levels": (Level("L2", 1 << 15, 10.0, 10.0), Level("L1", 1 << 12, 9.0, 9.0), Level("memory", None, 5.0, 5.0))}, "larger"),
    ],
)
def test_figures_that_cannot_be_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(MachineError, match=why):
        dataclasses.replace(GIVEN, **change)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"levels": 3}', '{"levels": [{"name": "L1"}]}', GIVEN.to_json().replace("cpu", "gpu")]
)
def test_a_text_that_is_no_machine_is_refused(text: str) -> None:
    with pytest.raises(MachineError, match="no figures of a machine"):
        from_json(text)


# -- the model ------------------------------------------------------------------------------------


def test_a_prediction_in_numbers() -> None:
    small = GIVEN.roofline(2000.0, 4000.0)
    assert (small.compute_ns, small.traffic_ns, small.overhead_ns, small.level, small.bound) == (100.0, 40.0, 100.0, "L1", "call")
    assert small.total_ns == 200.0
    far = GIVEN.roofline({"function": 20e6, "arithmetic": 2e6}, 80e6, dtype="float64")
    assert (far.compute_ns, far.traffic_ns, far.level, far.bound) == (1.2e6, 8e6, "memory", "traffic")
    every = GIVEN.roofline({"product": 640e6}, 4e6, threads=4, overhead_ns=0.0)
    assert (every.compute_ns, every.traffic_ns, every.level) == (2e6, 20e3, "L2")  # four cores bring four second-level caches
    assert GIVEN.roofline({"product": 640e6}, 0, threads=1, overhead_ns=0.0).compute_ns == 8e6
    assert GIVEN.roofline({"division": 1000.0}, 0, dtype="float64", overhead_ns=0.0).total_ns == 1000.0


def test_types_that_were_not_measured_are_never_faster() -> None:
    for kind in KINDS:
        assert GIVEN.flops_per_ns(kind, "int64") == GIVEN.flops_per_ns(kind, "float32") / 2
        assert GIVEN.flops_per_ns(kind, "bool") == GIVEN.flops_per_ns(kind, "float32")


@given(MACHINES, st.sampled_from(KINDS), AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(1, 64), st.sampled_from(["float32", "float64"]))
def test_more_work_never_takes_less_time(
    machine: Machine, kind: str, flops: float, more: float, nbytes: float, held: float, threads: int, dtype: str
) -> None:
    def total(flops: float, nbytes: float, held: float) -> float:
        return machine.roofline({kind: flops}, nbytes, working_set=held, threads=threads, dtype=dtype).total_ns

    base = total(flops, nbytes, held)
    assert base >= machine.call_ns
    assert total(flops + more, nbytes, held) >= base
    assert total(flops, nbytes + more, held) >= base
    assert total(flops, nbytes, held + more) >= base
    assert machine.roofline({kind: flops}, nbytes + more).total_ns >= machine.roofline({kind: flops}, nbytes).total_ns


@given(MACHINES, AMOUNTS, AMOUNTS, st.integers(1, 63))
def test_more_threads_never_take_longer_at_the_same_overhead(machine: Machine, flops: float, nbytes: float, threads: int) -> None:
    fewer, more = (machine.roofline(flops, nbytes, threads=count).total_ns for count in (threads, threads + 1))
    assert more <= fewer * (1 + 1e-12)


@pytest.mark.parametrize("bad", [{"flops": -1.0}, {"nbytes": float("nan")}, {"working_set": float("inf")}, {"threads": 0}])
def test_work_that_cannot_be_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="work is finite"):
        GIVEN.roofline(**{"flops": 1.0, "nbytes": 1.0, **bad})


def test_the_nominal_machine_shrinks_to_the_cores_there_are() -> None:
    one = machines.nominal(1)
    assert (one.cores, one.gain) == (1, 1.0)
    assert all(level.gbs_all == level.gbs for level in one.levels)
    assert machines.nominal(NOMINAL.cores) == NOMINAL


def test_figures_in_force_name_their_source(figures: InForce) -> None:
    assert figures.machine == GIVEN


@pytest.mark.parametrize("machine", [GIVEN, NOMINAL])
def test_one_core_of_a_machine_is_as_fast_as_one_thread_of_it(machine: Machine) -> None:
    one = machine.with_one_core()
    assert one.cores == 1 and one.gain == 1
    for kind in KINDS:
        assert one.roofline({kind: 1e6}, 1e5).total_ns == pytest.approx(machine.roofline({kind: 1e6}, 1e5, threads=1).total_ns)
