"""The cache view: what its messages hold, that its commands act, and the same content in text, HTML and SVG."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import bcvm_core as bcvm
from bcvm_core import config
from bcvm_core.cache.memory import CodeCache, Limits, code_cache
from bcvm_core.cachewatch import CacheWatch, Memory, State
from bcvm_core.watch import Watch
from bcvm_widgets import cache_forms, cache_messages, caching, protocol
from bcvm_widgets.cache_messages import Cache, CacheCommand, is_cache_command
from bcvm_widgets.caching import CacheView
from bcvm_widgets.reports import Report
from bcvm_widgets.sampling import Sampler
from tests.cache.test_memory import FakeUse

from .conftest import Notebook
from .test_protocol import conforms, script

pytestmark = pytest.mark.fused
FUNCTION = """
import numpy as np

def act(x):
    return np.tanh(np.maximum(x * 2.0, 0.0) + 1.0)

def rest(x):
    return np.minimum(x - 3.0, 1.0) * 0.5
"""
CELL = "x = np.ones((4, 6), np.float32)\nfor k in range(5):\n    y = act(x)\n    z = rest(x)"


@pytest.fixture
def sampler(notebook: Notebook) -> Iterator[Sampler]:
    """Of an open dashboard; the cache is empty."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    code_cache.clear()
    notebook.run(FUNCTION)
    watch = Watch(notebook.session)
    watch.cache = CacheWatch(moment_s=None)
    watch.open()
    watch.cache.look()
    yield Sampler(watch)
    watch.close()
    code_cache._pins.clear()
    for entry in code_cache.entries():
        code_cache.unpin(entry.name)
    code_cache.clear()


def command(name: str, key: str = "", size: int = 1, ttl_s: float = 0.0) -> CacheCommand:
    made = {"version": protocol.VERSION, "command": name, "view": "a", "key": key, "size": size, "ttl_s": ttl_s}
    assert is_cache_command(made)
    return made


def test_the_message_is_what_the_cache_says(notebook: Notebook, sampler: Sampler) -> None:
    notebook.run(CELL)
    found = sampler.sample().cache
    conforms(found, protocol.Cache)
    assert json.loads(json.dumps(found)) == found
    figures = code_cache.figures()
    assert (found["entries"], found["hits"], found["misses"]) == (2, figures.hits, figures.misses)
    assert (found["size"], found["ttl_s"], found["limit_bytes"]) == tuple(figures.limits)
    rows = {row["label"]: row for row in found["rows"]}
    row = rows["multiply+maximum+add+tanh"]
    assert (row["hits"], row["sites"], row["where"], row["state"]) == (5, 1, "act, line 4", "running")
    assert (row["operands"], row["shapes"]) == ("float32:contiguous", "[4, 6]")
    assert row["name"] in {entry.name for entry in code_cache.entries()}
    memory = found["memory"]
    assert memory is not None and all(memory["cells"][first] > 0 and first <= last for first, last in row["cells"])
    assert found["recorded_calls"] == 10


def test_nothing_new_is_the_same_message_and_whoever_comes_new_gets_the_time(sampler: Sampler, notebook: Notebook) -> None:
    notebook.run(CELL)
    sampler.sample()
    before = sampler.sample().cache
    assert sampler.sample().cache is before
    sampler.cache.renew()
    after = sampler.sample().cache
    assert after is not before and {**after, "at_s": 0} == {**before, "at_s": 0}


def test_commands_act_on_the_cache_and_say_so(sampler: Sampler, notebook: Notebook) -> None:
    notebook.run(CELL)
    rows = {row["label"]: row["name"] for row in sampler.sample().cache["rows"]}
    act, rest = rows["multiply+maximum+add+tanh"], rows["subtract+minimum+multiply"]
    view = sampler.cache
    assert view.act(command("pin", act))["text"] == "multiply, maximum, add, tanh is pinned"
    refused = view.act(command("evict", act))
    assert (refused["done"], refused["text"]) == (False, "multiply+maximum+add+tanh is pinned; unpin it first")
    found = view.look()
    assert found["rows"][0]["name"] == act and found["rows"][0]["pinned"] and found["pinned"] == 1
    assert view.act(command("clear"))["text"] == "1 kernel evicted; what is pinned or runs stays"
    assert [row["name"] for row in view.look()["rows"]] == [act]
    assert not view.act(command("pin", rest))["done"]
    notebook.run("z = rest(x)")
    assert "is evicted; its next call makes it again" in view.act(command("evict", rest))["text"]
    assert "no longer pinned" in view.act(command("unpin", act))["text"]
    gone = view.look()["gone"]
    assert [(g["label"], g["reason"]) for g in gone[:2]] == [
        ("subtract+minimum+multiply", "by hand"),
        ("subtract+minimum+multiply", "cleared"),
    ]
    conforms(refused, protocol.CacheAnswer)


def test_a_what_if_is_answered_and_kept_for_the_report(sampler: Sampler, notebook: Notebook) -> None:
    nothing = sampler.cache.act(command("whatif", size=1, ttl_s=60))
    assert not nothing["done"] and nothing["what_if"] is None
    notebook.run(CELL)
    sampler.sample()
    answer = sampler.cache.act(command("whatif", size=1, ttl_s=60))
    conforms(answer, protocol.CacheAnswer)
    found = answer["what_if"]
    assert found is not None
    assert (found["size"], found["ttl_s"], found["calls"], found["hits"], found["spliced"], found["again"]) == (1, 60.0, 10, 0, 10, 8)
    assert (found["now"], found["now_ttl_s"]) == ({"size": 200, "hits": 8}, 300.0)
    assert found["sizes"] == [{"size": 1, "hits": 0}, {"size": 2, "hits": 8}]
    sample = sampler.sample()
    assert sample.cache["what_if"] == found
    assert "as it is now, max_size=200 and ttl=300: 8 hits" in str(Report(sample, times=True))
    assert "0 (0.0%) would have been hits with max_size=1 and ttl=60: 10 made code, 8 of them again" in str(Report(sample, times=True))


def _cache(size: int, count: int) -> Cache:
    """The message of a cache that has been given `count` kernels."""
    now = [0.0]
    cache = CodeCache(lambda: Limits(size, 300.0, 1 << 20), lambda: now[0])
    uses = []
    for number in range(count):
        now[0] += 0.01
        uses.append(FakeUse())
        cache.add(number, uses[-1], protocol_about(number))
    figures, entries, gone = cache.seen()
    watch = CacheWatch()
    rows = tuple(watch._row(entry, now[0], figures.limits, None) for entry in entries)
    return caching.message(State(now[0], figures, rows, tuple(gone), Memory(900_000, ((300, 90), (5000, 7000)), 10)), (0, 0.0))


def protocol_about(number: int) -> Any:
    from bcvm_core.cache.memory import About

    return About(f"add+op{number}", "float32:contiguous", "[2]")


def test_a_message_is_bounded_and_says_what_is_left_out() -> None:
    found = _cache(1000, 900)
    conforms(found, protocol.Cache)
    assert (len(found["rows"]), found["left_out"], found["entries"]) == (caching.ROWS, 800, 900)
    assert found["rows"][0]["label"] == "add+op899", "the latest used"
    assert len(json.dumps(found)) < 50_000
    assert "800 more kernels are not shown" in cache_forms.text(found) and "800 more" in cache_forms.as_html(found)
    found = _cache(50, 900)
    assert len(found["gone"]) == caching.GONE and found["gone"][0]["number"] == sum(found["evictions"].values())


def test_pinned_kernels_are_never_left_out() -> None:
    cache = CodeCache(lambda: Limits(1000, 300.0, 1 << 20), lambda: 0.0)
    uses = [FakeUse() for _ in range(300)]
    for number, use in enumerate(uses):
        cache.add(number, use, protocol_about(number))
    cache.keep(0)
    figures, entries, gone = cache.seen()
    rows = tuple(CacheWatch()._row(entry, 0.0, figures.limits, None) for entry in entries)
    found = caching.message(State(0.0, figures, rows, tuple(gone), None), (0, 0.0))
    assert found["rows"][0]["label"] == "add+op0" and found["memory"] is None


@pytest.mark.parametrize("gaps", [(), ((64, 64),), ((128, 900), (2000, 4000), (50_000, 300_000), (899_000, 1000))])
@pytest.mark.parametrize("end", [64, 900_000])
def test_the_map_adds_up(gaps: tuple[tuple[int, int], ...], end: int) -> None:
    gaps = tuple(gap for gap in gaps if sum(gap) <= end)
    memory = Memory(end, gaps, 7)
    found = caching._memory(memory)
    conforms(found, protocol.CacheMemory)
    assert 1 <= len(found["cells"]) <= caching.CELLS
    assert found["used_bytes"] + found["free_bytes"] == end
    sizes = [min(found["cell_bytes"], end - n * found["cell_bytes"]) for n in range(len(found["cells"]))]
    used = sum(percent * size / 100 for percent, size in zip(found["cells"], sizes, strict=True))
    assert used == pytest.approx(found["used_bytes"], abs=end * 0.005 + 1)
    free = [n for n, percent in enumerate(found["cells"]) if percent == 0]
    assert all(any(at <= n * found["cell_bytes"] and (n + 1) * found["cell_bytes"] <= at + size for at, size in gaps) for n in free[:-1])


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"version": protocol.VERSION, "command": "explode", "view": "a", "key": "", "size": 1, "ttl_s": 1},
        {"version": protocol.VERSION + 1, "command": "clear", "view": "a", "key": "", "size": 1, "ttl_s": 1},
        {"version": protocol.VERSION, "command": "pin", "view": "a", "key": 7, "size": 1, "ttl_s": 1},
        {"version": protocol.VERSION, "command": "pin", "view": 1, "key": "", "size": 1, "ttl_s": 1},
        {"version": protocol.VERSION, "command": "whatif", "view": "a", "key": "", "size": 0, "ttl_s": 1},
        {"version": protocol.VERSION, "command": "whatif", "view": "a", "key": "", "size": 1.5, "ttl_s": 1},
        {"version": protocol.VERSION, "command": "whatif", "view": "a", "key": "", "size": 1, "ttl_s": -1},
        {"version": protocol.VERSION, "command": "whatif", "view": "a", "key": "", "size": 1, "ttl_s": float("inf")},
        {"version": protocol.VERSION, "command": "whatif", "view": "a", "key": "", "size": 1, "ttl_s": "1"},
        {"version": protocol.VERSION, "command": ["clear"], "view": "a", "key": "", "size": 1, "ttl_s": 1},
    ],
)
def test_anything_else_is_no_command(content: Any) -> None:
    assert not is_cache_command(content)


def test_the_script_sends_these_commands_and_knows_these_states() -> None:
    text = script()
    sent = set(re.findall(r'this\.order\("(\w+)"', text))
    assert sent == set(protocol.get_args(cache_messages.CacheCommandName))
    block = text[text.index("const STATES") : text.index("};", text.index("const STATES"))]
    states = set(re.findall(r"^  (\w+): \{", block, re.MULTILINE))
    assert states == {*protocol.get_args(cache_messages.CacheState), "evicted"}
    fields = set(re.findall(r"\bmessage\.(\w+)", text[text.index("class CacheTable") : text.index("class MachineView {")]))
    assert fields <= set(protocol.Cache.__annotations__), "the script asks for nothing that is not sent"
    of_rows = set(re.findall(r"\b(?:row|data)\.(\w+)", text[text.index("const opsOf") : text.index("class CacheTable")]))
    assert of_rows <= set(protocol.CacheRow.__annotations__) | {"reason"}


def test_the_static_forms_show_it_all(sampler: Sampler, notebook: Notebook) -> None:
    notebook.run(CELL)
    sampler.sample()
    rows = {row["label"]: row["name"] for row in sampler.cache.latest["rows"]}
    sampler.cache.act(command("evict", rows["subtract+minimum+multiply"]))
    sampler.cache.act(command("pin", rows["multiply+maximum+add+tanh"]))
    asked = sampler.cache.replay()
    assert asked is not None
    sample = sampler.sample()
    report = Report(sample, times=True)
    text, html = str(report), report.html()
    assert re.search(r"code cache: 1 of 200 kernels, .* of 32 MiB, kept 300 s without a call, 1 pinned", text)
    assert re.search(
        r"^\S (running|warm), pinned +multiply, maximum, add, tanh +act, line 4 +float32:contiguous +\[4, 6\] +5 ", text, re.MULTILINE
    )
    assert "stays" in text and re.search(r"evicted .*: subtract, minimum, multiply: by hand", text)
    assert "memory for code: " in text and f"max_size=1: {asked['sizes'][0]['hits']} hits" in text
    for part in ("multiply, maximum, add, tanh", "by hand", "would have been hits", "<svg", "never used"):
        assert part in html
    assert "<script" not in html and html == Report(sample, times=True).html() and text == str(Report(sample, times=True))
    assert "code cache" not in str(Report(sample)) and "code cache" not in Report(sample).html(), "other runs have other kernels"


def test_all_messages_are_of_one_version() -> None:
    assert cache_messages.VERSION == protocol.VERSION


def test_an_empty_cache_has_no_forms() -> None:
    conforms(cache_messages.empty_cache(), protocol.Cache)
    assert (cache_forms.text(cache_messages.empty_cache()), cache_forms.as_html(cache_messages.empty_cache())) == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "now"), (0.06, "0.1 s"), (9.94, "9.9 s"), (75.4, "75 s"), (300.0, "5 min"), (7200.0, "2 h"), (200_000.0, "2 d")],
)
def test_spans(seconds: float, words: str) -> None:
    assert cache_forms.span(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (33 << 20, "33 MiB"), (1536, "1.5 KiB")])
def test_sizes(count: int, words: str) -> None:
    assert cache_forms.nbytes(count) == words


def test_a_shorter_time_shows_as_evictions(sampler: Sampler, notebook: Notebook) -> None:
    notebook.run(CELL)
    sampler.sample()
    with config.override(cache_ttl_s=0.0):
        found = CacheView(sampler.watch.cache).look()
    assert found["rows"] == [] and {g["reason"] for g in found["gone"][:2]} == {"expired"}
