"""Regions as they were cut: graph, kernels, decisions with their numbers, and the same in text, HTML and SVG."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.fusion import decisions
from bcvm_core.splitting import roof
from bcvm_core.watch import Watch
from bcvm_widgets import cutting, protocol
from bcvm_widgets.protocol import Fusion
from bcvm_widgets.reports import Report
from bcvm_widgets.sampling import Sampler

from .conftest import Notebook
from .test_protocol import conforms

pytestmark = pytest.mark.fused
FUNCTION = """
import numpy as np

def act(x, b):
    y = np.tanh(np.maximum(x * 2.0 + b, 0.0)) * np.cumsum(b)
    return y
"""
SMALL = "x = np.ones(24, np.float32)\nfor _ in range(6):\n    s = act(x, x)"


@pytest.fixture
def fusion(notebook: Notebook) -> Fusion:
    assert bcvm.ready()
    notebook.run(FUNCTION)
    notebook.run(SMALL)
    return Sampler(Watch(notebook.session)).sample().fusion


def test_a_region_is_a_graph_cut_where_it_was_cut(fusion: Fusion) -> None:
    conforms(fusion, protocol.Fusion)
    assert json.loads(json.dumps(fusion)) == fusion
    (region,) = fusion["regions"]
    assert (region["where"], region["runs"]) == ("act, line 4", 6)
    ops = [node["op"] for node in region["nodes"]]
    assert ops == ["multiply", "add", "maximum", "tanh", "cumsum", "multiply"]
    assert [node["reads"] for node in region["nodes"]] == [[], [0], [1], [2], [], [3, 4]]
    assert cutting.names(region) == ["kernel 1"] * 4 + ["by itself"] * 2
    assert region["kernels"][0]["nodes"] == [0, 1, 2, 3]
    assert re.match(r"float32:contiguous.*: spliced at first use in \d+ µs$", region["kernels"][0]["patterns"][0])


def test_every_number_is_that_of_the_record(fusion: Fusion) -> None:
    (decision,) = fusion["regions"][0]["kernels"][0]["decisions"]
    record = next(r for r in reversed(decisions.latest()) if r.decision.group.title == "multiply, add, maximum, tanh")
    chosen = record.decision.chosen
    assert chosen is not None
    first = decision["candidates"][0]
    assert (first["name"], first["reason"]) == (chosen.name, "")
    assert first["predicted_us"] == pytest.approx(chosen.predicted_ns / 1000, rel=1e-3)
    part, expected = first["parts"][0], chosen.parts[0]
    assert part["operations"] / part["nbytes"] == pytest.approx(expected.density, rel=1e-3)
    assert (part["threads"], part["blocks"], part["level"]) == (expected.threads, expected.blocks, expected.prediction.level)
    assert decision["measured_us"] == pytest.approx(record.measured.best_ns / 1000, rel=1e-3)
    assert all(candidate["reason"] for candidate in decision["candidates"][1:])
    assert fusion["roof"] is not None
    figures = roof()
    assert [rate["name"] for rate in fusion["roof"]["memory"]] == [name for name, _, _ in figures.memory]
    assert fusion["roof"]["cores"] == figures.cores


def test_small_results_first_cuts_within_a_kernel(notebook: Notebook) -> None:
    assert bcvm.ready()
    notebook.run("import numpy as np\ndef act(row, big):\n    return np.exp(np.tanh(row) * 2.0 + 1.0) * big + big")
    notebook.run("r, b = np.ones((1, 1000), np.float32), np.ones((2000, 1000), np.float32)\nfor _ in range(3):\n    s = act(r, b)")
    region = Sampler(Watch(notebook.session)).sample().fusion["regions"][0]
    assert cutting.names(region) == ["kernel 1a"] * 4 + ["kernel 1b"] * 2
    assert cutting.graph(region).count("✂") == 1


def test_what_was_refused_says_why(notebook: Notebook) -> None:
    assert bcvm.ready()
    notebook.run(FUNCTION)
    notebook.run("x = np.ones(4, dtype=object)\nfor _ in range(3):\n    try: s = act(x, x)\n    except TypeError: pass")
    notebook.run("x = np.ones(8, np.complex64)\nfor _ in range(3):\n    try: s = act(x, x)\n    except TypeError: pass")
    regions = Sampler(Watch(notebook.session)).sample().fusion["regions"]
    facts = [pattern for region in regions for kernel in region["kernels"] for pattern in kernel["patterns"]]
    assert "complex64:contiguous, complex64:contiguous: [REJECTED] no stencils for the type complex64" in facts
    assert "arrays of dtype object are left to Python" in [region["reason"] for region in regions]


def test_the_report_has_text_graph_and_roof(notebook: Notebook, fusion: Fusion) -> None:
    sample = Sampler(Watch(notebook.session)).sample()
    text, html = str(Report(sample, times=True)), Report(sample, times=True).html()
    assert "tanh [kernel 1] -> cumsum [by itself]" in text and "[REJECTED] small" in text
    assert re.search(r"one kernel: predicted .*, chosen, measured ", text)
    assert html.count("<svg") == 3 and "GFLOP/s" in html  # the graph, the roof, and the map of the code cache
    assert "<script" not in html
    assert html == Report(sample, times=True).html()
    assert "kernel 1" not in str(Report(sample))


def test_a_message_is_bounded(notebook: Notebook) -> None:
    assert bcvm.ready()
    lines = [f"    y{k} = np.tanh(x * {k}.5) + 1.0\n    print(end='')" for k in range(cutting.REGIONS + 6)]
    notebook.run("import numpy as np\ndef many(x):\n" + "\n".join(lines) + "\n    return x")
    notebook.run("for n in range(1, 40): many(np.ones(n, np.float32))")
    found = Sampler(Watch(notebook.session)).sample().fusion
    assert (len(found["regions"]), found["left_out"]) == (cutting.REGIONS, 6)
    assert cutting.text(found).endswith("6 more regions are not among these 24")
    assert "<p>6 more regions are not among these 24</p>" in cutting.as_html(found)
    assert len(json.dumps(found)) < 60_000


def test_nothing_is_decided_for_a_reader_of_an_empty_notebook() -> None:
    assert cutting.message([]) == protocol.empty_fusion()
    assert (cutting.text(protocol.empty_fusion()), cutting.as_html(protocol.empty_fusion())) == ("", "")
    assert np.isfinite([rate for _, one, every in roof().compute for rate in (one, every)]).all()


def test_a_product_and_what_follows_it_is_a_kernel_where_it_was_decided(notebook: Notebook) -> None:
    assert bcvm.ready()
    notebook.run("import numpy as np\ndef layer(x, w, b):\n    return np.maximum(x @ w + b, 0)")
    notebook.run("x, w, b = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32), np.ones(16, np.float32)")
    notebook.run("for _ in range(4): y = layer(x, w, b)")
    (region,) = Sampler(Watch(notebook.session)).sample().fusion["regions"]
    assert [node["op"] for node in region["nodes"]] == ["matmul", "add", "maximum"]
    found = next(kernel for kernel in region["kernels"] if kernel["nodes"] == [0, 1, 2])
    assert [candidate["reason"] for candidate in found["decisions"][0]["candidates"]].count("") == 1
    assert "matmul" in found["decisions"][0]["candidates"][0]["name"]
    assert cutting.names(region)[0] == "by itself" and cutting.names(region)[1].startswith("kernel")
