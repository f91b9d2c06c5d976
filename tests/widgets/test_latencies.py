"""Dots of dispatches and compiles: all counted, few kept, percentiles of a fair sample, and the same content in words."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from collections.abc import Iterator

import pytest

from bcvm_core.events import Bound, HandedBack, Lowered, Selected, Spliced, bus
from bcvm_core.latencies import HISTORY, RECENT, SAMPLE, SPIKES, UNTIMED, WAITING, Latencies, Reservoir, words
from bcvm_core.tiers.clock import clock
from bcvm_core.watch import Watch
from bcvm_widgets import protocol, timing
from bcvm_widgets.reports import Report
from bcvm_widgets.sampling import Sampler

from .conftest import CELL, FUNCTION, Notebook
from .test_protocol import conforms


@pytest.fixture
def latencies() -> Iterator[Latencies]:
    before = bus._listeners  # what other tests of this process have left
    made = Latencies()
    made.open()
    assert len(bus._listeners) > len(before)
    yield made
    made.close()
    assert bus._listeners == before


def _select(us: float, op: str = "add") -> None:
    bus.emit(Selected(op, 0, f"{op}.numpy", "the only kernel", us, shapes="[2, 3]"))


def test_nothing_is_heard_while_it_is_closed() -> None:
    made = Latencies()
    _select(5.0)
    made.open()
    made.close()
    _select(5.0)
    assert not made.collect() and made.series() == []


def test_counts_means_and_the_slowest_are_of_all(latencies: Latencies) -> None:
    for k in range(5000):
        _select(float(k % 100 + 1))
        if k % 1000 == 0:
            latencies.collect()
    _select(9999.0, "exp")
    assert latencies.collect()
    (series,) = latencies.series()
    assert (series.kind, series.warm, series.count, series.worst_us) == ("selected", False, 5001, 9999.0)
    assert series.mean_us == pytest.approx((50 * sum(range(1, 101)) + 9999) / 5001)
    assert series.percentile(0.5) == pytest.approx(50.5, abs=6)
    assert series.percentile(0.99) == pytest.approx(99, abs=2)
    assert words(max(series.dots(), key=lambda dot: dot.us or 0).what) == ("exp by exp.numpy", "[2, 3]", "the only kernel")


def test_what_is_kept_is_bounded_and_holds_the_slowest_and_the_latest(latencies: Latencies) -> None:
    for k in range(40_000):
        _select(1e6 if k == 17 else 1.0)
        if k % 1000 == 0:
            latencies.collect()
    latencies.collect()
    (series,) = latencies.series()
    dots = series.dots()
    assert series.count == 40_000
    assert len(dots) <= RECENT + HISTORY + SPIKES
    assert 1e6 in [dot.us for dot in dots]
    assert [dot.number for dot in dots][-RECENT:] == list(range(40_000 - RECENT, 40_000))
    assert len([dot for dot in dots if dot.number < 30_000]) > HISTORY / 2  # what was long ago is there, too


def test_events_that_come_faster_than_they_are_taken_in_are_counted(latencies: Latencies) -> None:
    for _ in range(UNTIMED + 100):
        bus.emit(HandedBack("<bcvm region f:3>", "because"))
    latencies.collect()
    assert (latencies.lost, latencies.series()[0].count) == (100, UNTIMED + 100)
    bus.emit(HandedBack("<bcvm region f:3>", "because"))
    latencies.collect()
    assert (latencies.lost, latencies.series()[0].count) == (100, UNTIMED + 101)
    _select(5.0)  # a flood of one kind hides none of another
    latencies.collect()
    assert [series.count for series in latencies.series()] == [1, UNTIMED + 101]


def test_a_flood_of_events_leaves_a_small_message_and_little_memory(latencies: Latencies) -> None:
    tracemalloc.start()
    try:
        for k in range(100_000):
            bus.emit(HandedBack("<bcvm region f:3>", "because") if k % 2 else Bound(f"<bcvm region f:{k}>", (), "[...]", 0.0))
            if k % 20_000 == 0:
                latencies.collect()
        latencies.collect()
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
    message = timing.message(latencies)
    assert [series["count"] for series in message["series"]] == [50_000, 50_000]
    assert len(json.dumps(message)) < 60_000


def test_every_event_has_its_series_and_its_words(latencies: Latencies) -> None:
    for event in (
        Lowered("f", "f.py", 2, 900.0),
        Bound("<bcvm region f:3>", (), "[...]", 0.0),
        Spliced(("add", "exp"), 7, "contiguous", False, 120.0, "[4], [4]"),
        HandedBack("<bcvm region f:3>", "no tensor"),
    ):
        bus.emit(event)
    latencies.collect()
    found = {series.kind: words(series.dots()[0].what) for series in latencies.series()}
    assert list(found) == ["lowered", "bound", "fused", "python"]
    assert found["fused"] == ("add, exp", "[4], [4]", "pattern 7 (contiguous): the first call of this pattern")
    assert found["python"] == ("f, line 3", "", "left to Python: no tensor")
    assert [series.mean_us for series in latencies.series()] == [900.0, None, 120.0, None]


def test_a_recompiled_kernel_will_have_a_place() -> None:
    class Recompiled:
        ops, reason, duration_us = ("add",), "no better", 70_000.0

    made = Latencies()
    made.open()
    bus.emit(Recompiled())  # type: ignore[arg-type]
    made.collect()
    made.close()
    (figures,) = timing.message(made)["series"]
    assert (figures["kind"], figures["budget_mean_us"], timing.verdict(figures)) == ("recompiled", 80_000.0, "mean within 80 ms")


def test_a_reservoir_is_fair() -> None:
    kept = [0] * 40
    for seed in range(3000):
        sample = Reservoir(4, random.Random(seed))
        for start in range(0, 40, 8):
            sample.extend(range(start, start + 8))
        assert len(set(sample.items)) == 4 and sample.seen == 40
        for item in sample.items:
            kept[item] += 1
    assert min(kept) > 230 and max(kept) < 370  # 300 expected, 16 the standard deviation


def test_warm_calls_of_a_notebook_are_apart_from_cold_ones(notebook: Notebook) -> None:
    watch = Watch(notebook.session)
    watch.open()
    notebook.run(FUNCTION)
    notebook.run(CELL)
    sampler = Sampler(watch)
    first = sampler.sample().latencies
    watch.close()
    conforms(first, protocol.Latencies)
    kinds = {(series["kind"], series["warm"]): series for series in first["series"]}
    assert {("lowered", False), ("selected", True)} <= set(kinds)
    assert kinds["selected", True]["budget_p99_us"] is None
    dots = first["dots"]
    warm = [n for n, position in enumerate(dots["series"]) if first["series"][position]["warm"]]
    texts = [first["texts"][dots["text"][n]] for n in warm]
    assert ["step, line 6: tanh", "[4, 8], [8, 8]", "one of the first calls since measuring began: it may have waited for a kernel"] in [
        [call, "[4, 8], [8, 8]" if shapes else "", reason] for call, shapes, reason in texts
    ]
    assert kinds["selected", True]["count"] > len(warm)  # counts are of all calls
    assert json.loads(json.dumps(first)) == first
    assert sampler.sample().latencies is first  # nothing new


def test_a_slow_call_between_two_looks_is_a_dot(notebook: Notebook) -> None:
    watch = Watch(notebook.session)
    watch.open()
    notebook.run(FUNCTION)
    notebook.run(CELL)
    units = watch.units()
    watch.latencies.collect(watch.calls(units))
    called = next(c for c in watch.calls(units) if c.ops == ("tanh",))
    timing = clock.timing(called.site)
    assert timing is not None
    timing.add(5_000_000_000)
    timing.add(2_000)
    watch.latencies.collect(watch.calls(units))
    watch.close()
    series = next(s for s in watch.latencies.series() if s.warm)
    assert words(max(series.dots(), key=lambda dot: dot.us or 0).what).reason == "a warm call"
    assert series.worst_us == 5e6
    assert 5e6 in [dot.us for dot in series.dots()] and 2.0 in [dot.us for dot in series.dots()]


def test_percentiles_are_those_of_a_fair_sample() -> None:
    made = Latencies()
    made.open()
    for _ in range(3):
        for k in range(SAMPLE * 4):
            _select(float(k))
            if k % WAITING == 0:
                made.collect()
        made.collect()
    made.close()
    (series,) = made.series()
    assert series.percentile(0.5) == pytest.approx(SAMPLE * 2, rel=0.1)


def test_the_report_has_them_when_times_are_wanted(notebook: Notebook) -> None:
    watch = Watch(notebook.session)
    watch.open()
    notebook.run(FUNCTION)
    notebook.run(CELL)
    for us in (3.0, 5.0, 2500.0):
        _select(us)
    sample = Sampler(watch).sample()
    watch.close()
    text, html = str(Report(sample, times=True)), Report(sample, times=True).html()
    row = next(line for line in text.split("\n") if line.startswith("tier 1, select"))
    assert "P99 OVER 2 ms" in row and "slowest:" in text
    assert "<svg" in html and "P99 OVER 2\xa0ms" in html and "<script" not in html
    assert html == Report(sample, times=True).html()
    assert "tier 1" not in str(Report(sample)) and not re.search("<svg", Report(sample).html())
