"""Recorded runs: the same run gives the same bytes, files are bounded, and nothing damaged is shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bcvm_widgets
from bcvm_core import cli
from bcvm_widgets import protocol, runs
from bcvm_widgets.page import page
from bcvm_widgets.reports import Report
from bcvm_widgets.runs import Run, RunError, of_sample
from bcvm_widgets.sampling import Sampler
from bcvm_widgets.watching import watch

from .conftest import CELL, FUNCTION, Notebook


def _recorded(notebook: Notebook, path: Path) -> Run:
    notebook.run(FUNCTION)
    with bcvm_widgets.recording(path):
        for _ in range(3):
            notebook.run(CELL)
            time.sleep(0.3)
    return runs.read(path)


def _fake(n: int, size: int = 10) -> dict[str, Any]:
    """Messages that differ from frame to frame, with a listing of `size` characters."""
    listing = {**protocol.empty_listing(), "glossary": {"word": "x" * size}}
    return {
        "listing": listing,
        "choices": protocol.empty_choices(),
        "figures": {**protocol.empty_figures(), "call_op": n},
        "status": protocol.idle_status(),
    }


# --- writing ------------------------------------------------------------------------------------


def test_a_block_is_recorded_and_read_back(notebook: Notebook, tmp_path: Path) -> None:
    run = _recorded(notebook, tmp_path / "run.json")
    assert len(run.frames) >= 3 and run.length_ms > 300
    assert [f.at_ms for f in run.frames] == sorted(f.at_ms for f in run.frames)
    sample = run.sample()
    assert "def step(x, w):" in str(Report(sample)) and sample.figures["call_op"] == 38
    assert sample.latencies["series"] and sample.figures["kernels_us"] > 0
    assert run.text() == (tmp_path / "run.json").read_text() and run.text().isascii()
    assert runs.read(tmp_path / "run.json").text() == run.text()


def test_the_file_is_written_after_an_error_too(notebook: Notebook, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), bcvm_widgets.recording(tmp_path / "run.json"):
        notebook.run(FUNCTION)
        notebook.run(CELL)
        raise ZeroDivisionError
    assert runs.read(tmp_path / "run.json").sample().figures["call_op"] == 38


def test_where_no_file_can_be_written_nothing_begins(notebook: Notebook, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such folder"), bcvm_widgets.recording(tmp_path / "no" / "run.json"):
        pytest.fail("it began")
    with pytest.raises(RunError, match="cannot write"):
        of_sample(Sampler(watch(())).sample()).save(tmp_path / "no" / "run.json")


def test_only_changes_are_taken_down_and_pauses_are_cut() -> None:
    run = Run()
    run.note(5000.0, _fake(0))
    run.note(5100.0, _fake(1))  # too soon
    run.note(5300.0, _fake(2))
    run.note(5600.0, _fake(2))  # nothing new
    run.note(5610.0, _fake(3), at_once=True)
    run.note(99_000.0, _fake(4))
    assert [(f.at_ms, sorted(f.parts)) for f in run.frames] == [
        (0, ["choices", "figures", "listing", "status"]),
        (300, ["figures"]),
        (610, ["figures"]),
        (1610, ["figures"]),
    ]
    assert [run.state(n)["figures"]["call_op"] for n in range(4)] == [0, 2, 3, 4]


def test_a_long_run_is_bounded_and_whole() -> None:
    run = Run(max_bytes=20_000)
    for n in range(5000):
        run.note(n * 250.0, _fake(n))
    assert len(run.text()) < 21_000 and 20 < len(run.frames) < 250
    assert run.state(0)["figures"]["call_op"] == 0 and run.state()["figures"]["call_op"] > 4800
    assert 0.9e6 < run.length_ms <= 1.25e6
    large = Run(max_bytes=1000)
    for n in range(10):
        large.note(n * 1e6, _fake(n, size=5000 + n), at_once=True)
    assert len(large.frames) == 2 and large.state()["figures"]["call_op"] == 9


def test_large_messages_are_left_out_first() -> None:
    run = Run(max_bytes=50_000)
    for n in range(2000):
        dots = {**protocol.empty_latencies(), "lost": n, "texts": [["x" * 2000, "", ""]]}
        run.note(n * 250.0, {**_fake(n), "latencies": dots})
    with_dots = [frame for frame in run.frames if "latencies" in frame.parts]
    assert len(run.text()) < 51_000 and len(run.frames) > 60 and 3 < len(with_dots) < 20
    assert "latencies" in run.frames[0].parts and run.state()["latencies"]["lost"] > 1500


def test_the_same_messages_give_the_same_bytes() -> None:
    def made() -> Run:
        run = Run()
        for n in range(5):
            run.note(1000.0 * n, dict(reversed(_fake(n).items())) if n % 2 else _fake(n))
        return run

    assert made().text() == made().text() and page(made()) == page(made())


# --- reading ------------------------------------------------------------------------------------


@pytest.fixture
def recorded(notebook: Notebook, tmp_path: Path) -> Path:
    """A file with two frames of a real run."""
    run, sampler = Run(), Sampler(watch(()))
    for n, text in enumerate((FUNCTION, CELL)):
        notebook.run(text)
        sample = sampler.sample()
        run.note(1000.0 * n, {**vars(sample), "status": protocol.idle_status()}, at_once=True)
    run.save(tmp_path / "run.json")
    return tmp_path / "run.json"


def _spoilt(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> Path:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


_KERNEL = {"nodes": [5], "patterns": [], "decisions": []}
REGION = {"where": "cell, line 1", "runs": 1, "nodes": [], "kernels": [_KERNEL], "reason": ""}
SPOILT: list[tuple[str, Callable[[list[Any]], Any]]] = [
    ("reads 1", lambda x: x[0].update(version=2)),
    ("reads 1", lambda x: x[0].update(protocol=99)),
    ("no recorded run", lambda x: x[0].update(format="other")),
    ("no recorded run", lambda x: x.clear()),
    ("its end is missing", lambda x: x.pop()),
    ("its end is missing", lambda x: x.__delitem__(slice(2, None))),
    ("lacks a message", lambda x: x[1].pop("status")),
    ("time is wrong", lambda x: x[2].update(at_ms=-1)),
    ("time is wrong", lambda x: x[1].update(at_ms="0")),
    ("no JSON object", lambda x: x.__setitem__(2, [1])),
    ("listing.units is no list", lambda x: x[2]["listing"].update(units={})),
    ("is missing", lambda x: x[2]["listing"]["units"][0].pop("title")),
    (r"title is no str", lambda x: x[2]["listing"]["units"][0].update(title=3)),
    ("tier is 'fast'", lambda x: x[2]["choices"]["units"]["cell"]["lines"][0].update(tier="fast")),
    ("not as many", lambda x: x[2]["choices"]["units"]["cell"]["lines"].pop()),
    ("not as many", lambda x: x[2]["figures"]["units"]["cell"]["lines"]["runs"].append(1)),
    ("begins nowhere", lambda x: x[2]["choices"]["units"]["cell"]["lines"][0].update(first=500)),
    ("not everywhere", lambda x: x[2]["choices"]["units"].pop("cell")),
    ("another version", lambda x: x[2]["figures"].update(version=7)),
    ("call_op is no int", lambda x: x[2]["figures"].update(call_op=True)),
    ("columns of dots", lambda x: x[1]["latencies"]["dots"].update(us=[1.0])),
    ("do not fit", lambda x: x[2].update(fusion={**protocol.empty_fusion(), "regions": [REGION]})),
]


@pytest.mark.parametrize(("message", "change"), SPOILT)
def test_damaged_files_are_one_clear_error(recorded: Path, message: str, change: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = _spoilt(recorded, change)
    with pytest.raises(RunError, match=message) as caught:
        runs.read(path)
    assert caught.value.fix and str(path) in str(caught.value)
    assert cli.main(["report", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"[[[[" * 50_000, b'{"format":"bcvm run"', b"null\n", b'{"format": ["bcvm run"]}'])
def test_what_is_no_run_is_no_run(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(RunError, match="no recorded run"):
        runs.read(tmp_path / "x.json")
    with pytest.raises(RunError, match="cannot read"):
        runs.read(tmp_path / "nothing.json")


def test_fields_of_later_versions_of_the_protocol_are_left_alone(recorded: Path) -> None:
    def add(lines: list[Any]) -> None:
        lines[2]["figures"]["new"] = 1
        lines[2]["other"] = {"version": 1}

    assert runs.read(_spoilt(recorded, add)).state()["figures"]["new"] == 1


# --- the page -----------------------------------------------------------------------------------


def test_the_command_prints_a_run_or_writes_a_page(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(recorded)]) == 0
    assert "38 tensor ops" in capsys.readouterr().out
    out = tmp_path / "report.html"
    assert cli.main(["report", str(recorded), "-o", str(out)]) == 0
    assert re.fullmatch(r".*report.html: [\d,]+ bytes\n", capsys.readouterr().out)
    assert out.read_text(encoding="utf-8") == page(runs.read(recorded))
    assert cli.main(["report", str(recorded), "-o", str(tmp_path / "no" / "x.html")]) == 2


def test_the_page_loads_nothing_and_cannot_be_broken_out_of(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run("a = step(np.ones((2, 2)), np.ones((2, 2)))  # </script><script>alert(1)</script><img src=x onerror=alert(2)>")
    text = page(of_sample(Sampler(watch(())).sample()))
    assert "default-src 'none'" in text
    assert text.count("</script>") == 2 and "<img" not in text and "alert(1)" in text
    allowed = {"http://www.w3.org/2000/svg"}  # a name, which nothing is loaded from
    assert set(re.findall(r"https?://[^\s\"')`]+", text)) <= allowed
    assert not re.search(r"<(link|iframe|object|embed)\b|@import|url\(|\bimport\s*\(|\bfetch\(|XMLHttpRequest", text)


PLAY = """
const frames = [
  {at_ms: 0, status: {version: 1}, listing: {n: 0}},
  {at_ms: 100, figures: {n: 1}},
  {at_ms: 250, listing: {n: 2}, figures: {n: 2}},
];
const model = new RecordedModel(frames);
const heard = [];
const note = (name) => heard.push(`${name} ${JSON.stringify(model.get(name))}`);
for (const name of ["listing", "figures", "status"]) model.on(`change:${name}`, () => note(name));
model.seek(2);
model.seek(1);
model.seek(1);
model.seek(0);
console.log(JSON.stringify([heard, model.now(), model.get("figures") === undefined]));
"""


def test_any_moment_can_be_sought_in_any_order(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    player = (Path(protocol.__file__).parent / "static" / "player.js").read_text(encoding="utf-8")
    (tmp_path / "play.mjs").write_text(player + PLAY)
    done = subprocess.run([node, tmp_path / "play.mjs"], capture_output=True, text=True, check=True)
    heard, now, gone = json.loads(done.stdout)
    assert heard == ['listing {"n":2}', 'figures {"n":2}', 'listing {"n":0}', 'figures {"n":1}', "figures undefined"]
    assert (now, gone) == (0, True)
