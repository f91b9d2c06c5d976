"""What a cell shows depends on the cell alone: not on caches, switches, threads or the first-cell notice."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

C77 = [
    "import numpy as np\nx = np.linspace(-2, 2, 8).reshape(2, 4)\nw = np.arange(12.0).reshape(4, 3) * 0.1\nprint(x)",
    "def layer(v, w):\n    h = v @ w + 0.5\n    return np.maximum(h, 0) * 2\nprint(layer(x, w))\nprint(layer(x[:1], w).sum())",
    "def smooth(v):\n    e = np.exp(-v * v)\n    return e / np.sqrt(2 * np.pi) + v.mean()\nprint(smooth(x))\nsmooth(x[0])",
    "for n in (1, 3):\n    y = np.ones((n, 2)) * n\n    if y.sum() > 2:\n        y = np.tanh(y)\n    print(n, y)",
    "np.log(np.array([0.0, 1.0])) + x[0, :2]",
    "layer(x.T, w)",
]
C79 = (
    "import numpy as np\ndef f(x): return np.exp(-x * x) / np.sqrt(2 * np.pi) + x.mean() - (x * 0.1).sum()\n"
    "x = np.arange(11) * 0.1\ntexts = [str(f(x)) for _ in range(5)]\n[len(set(texts)), texts[0], '%.12e' % f(x).sum()]"
)
C79_EXPECTED = [
    1,
    "[0.34894228 0.34497274 0.33329953 0.31460579 0.28995619 0.26069656\n 0.22833258 0.19440257 0.16035924 0.12747269 0.09676266]",
    "2.699802838477e+00",
]


def _shown(client: Any, code: str) -> tuple[Any, ...]:
    out = client.run(code)
    traceback = re.sub(r"0x[0-9a-f]+|ipykernel_\d+", "", out.traceback)
    stderr = re.sub(r"ipykernel_\d+", "", out.stderr)
    return out.status, out.stdout, stderr, out.result, out.displayed, traceback


@pytest.mark.slow
def test_c77_outputs_are_the_same_cold_warm_without_llvm_and_in_plain_python(start: Any, tmp_path: Path) -> None:
    cache = {"BCVM_CACHE_DIR": str(tmp_path)}
    tiers = [{"BCVM_FORCE_TIER": tier} for tier in ("interpreter", "linked")]
    environments = [cache, cache, {"BCVM_LLVM": "0"}, *tiers, {"BCVM_DISABLE": "1"}]
    shown = []
    for environment in environments:
        client = start(**environment)
        shown.append([_shown(client, code) for code in C77])
        assert client.run("from bcvm_core.codegen import loops\nassert loops.wait(120)").status == "ok"  # the next one is warm, then
        client.close()
    assert shown[0][-1][0] == "error" and "matmul" in shown[0][-1][-1]
    assert any(path.is_file() for path in tmp_path.rglob("*")), "nothing was kept for the second kernel"
    for other, environment in zip(shown[1:], environments[1:], strict=True):
        assert other == shown[0], environment


def test_c79_printed_numbers_do_not_depend_on_what_ran_before(kernel: Any) -> None:
    count, text, total = eval(kernel.run(C79).text)
    assert count == 1
    numbers = [np.array(t.strip("[]").split(), float) for t in (text, C79_EXPECTED[1])]
    np.testing.assert_allclose(*numbers, rtol=1e-7)
    assert float(total) == pytest.approx(float(C79_EXPECTED[2]), rel=1e-12)


def test_c74_streams_keep_the_order_of_the_writes(kernel: Any) -> None:
    out = kernel.run("import sys\nfor i in range(200): print(i, flush=True)\nsys.stderr.write('e'); print('end')")
    pieces = [(m["content"]["name"], m["content"]["text"]) for m in out.messages if m["msg_type"] == "stream"]
    order = [name for i, (name, _) in enumerate(pieces) if i == 0 or pieces[i - 1][0] != name]
    assert order == ["stdout", "stderr", "stdout"]
    assert out.stdout.split() == [*map(str, range(200)), "end"]


def _everything_until(client: Any, done: Any, timeout_s: float = 30.0) -> list[dict[str, Any]]:
    """All that the kernel publishes until `done(messages)`."""
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout_s
    while not done(messages):
        messages.append(client.kc.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic())))
    return messages


C69 = """
import threading, time
import numpy as np

def f(x):
    return np.exp(x) + 1

def tick():
    for i in range(5):
        time.sleep(0.3)
        print("tick", i)
        f(np.ones(3))

f(np.ones(4))
threading.Thread(target=tick).start()
"""


def test_c69_a_threads_lines_belong_to_the_cell_that_started_it(kernel: Any) -> None:
    first, second = kernel.send(C69), kernel.send("print('two')")

    def said(messages: list[dict[str, Any]], parent: str) -> str:
        found = [m for m in messages if m["msg_type"] == "stream" and m["parent_header"]["msg_id"] == parent]
        return "".join(m["content"]["text"] for m in found)

    def idle(messages: list[dict[str, Any]], parent: str) -> bool:
        return any(m["parent_header"].get("msg_id") == parent and m["content"].get("execution_state") == "idle" for m in messages)

    messages = _everything_until(kernel, lambda found: said(found, first).count("tick") == 5)
    third = kernel.send("print('three')")
    messages += _everything_until(kernel, lambda found: idle(found, third))
    assert said(messages, first) == "".join(f"tick {i}\n" for i in range(5))
    for parent, text in ((second, "two\n"), (third, "three\n")):
        assert said(messages, parent) == text
        kinds = [(m["msg_type"], m["content"].get("execution_state")) for m in messages if m["parent_header"].get("msg_id") == parent]
        assert kinds[-1] == ("status", "idle") and "stream" in [kind for kind, _ in kinds]
    assert {m["parent_header"]["msg_id"] for m in messages if m["msg_type"] == "stream"} == {first, second, third}


# --- the notice ---------------------------------------------------------------------------------


def _run_from_a_notebook(client: Any, code: str) -> Any:
    """As JupyterLab asks: with the id of the cell."""
    message = client.kc.session.msg(
        "execute_request",
        {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True},
        metadata={"cellId": "cell-1"},
    )
    client.kc.shell_channel.send(message)
    return client.wait(message["header"]["msg_id"])


BAR = """
import time
from bcvm_core import progress
progress.DELAY_S = 0.05
for n in progress.bar("counting")(range(8)):
    time.sleep(0.03)
    if n == {last}: break
"""


@pytest.mark.parametrize("last", [7, 5])
def test_a_person_sees_a_bar_that_takes_itself_away(kernel: Any, last: int) -> None:
    pytest.importorskip("ipywidgets", reason="bars in notebooks need ipywidgets")
    out = _run_from_a_notebook(kernel, BAR.format(last=last))
    assert (out.status, out.stdout, out.stderr) == ("ok", "", "")
    (shown,) = out.displayed
    assert "application/vnd.jupyter.widget-view+json" in shown
    states = [m["content"]["data"].get("state", {}) for m in out.messages if m["msg_type"] == "comm_msg"]
    assert any(state.get("value", 0) > 1 for state in states)
    updates = [m["content"] for m in out.messages if m["msg_type"] == "update_display_data"]
    assert [update["data"] for update in updates] == [{}]
    assert any(m["msg_type"] == "comm_close" for m in out.messages)
    assert kernel.run(BAR.format(last=last)).displayed == []  # an automated run


SLOW_FIRST = "from bcvm_kernel import notices\nnotices.THRESHOLD_US, notices.SHOWN_S = 0.0, 0.3"
WORK = "import numpy as np\ny = np.ones(3) * 2 + 1\ny.sum()"


@pytest.fixture(scope="module")
def eager(start_for_module: Any) -> Any:
    """A kernel that finds every first-time work worth a notice, and takes it back after 0.3 s."""
    client = start_for_module()
    assert client.run(SLOW_FIRST, silent=True).status == "ok"
    return client


def test_an_automatic_run_sees_no_notice(start: Any) -> None:
    client = start()
    client.run(SLOW_FIRST, silent=True)
    assert client.run(WORK).displayed == []


def test_a_person_sees_one_notice_and_it_takes_itself_back(eager: Any) -> None:
    out = _run_from_a_notebook(eager, WORK)
    (notice,) = out.displayed
    assert "first time" in notice["text/plain"]
    shown = next(m["content"] for m in out.messages if m["msg_type"] == "display_data")
    update = eager.kc.get_iopub_msg(timeout=10)
    assert update["msg_type"] == "update_display_data"
    assert update["content"]["data"] == {}
    assert update["content"]["transient"] == shown["transient"]
    assert _run_from_a_notebook(eager, WORK.replace("ones", "zeros")).displayed == []
    assert "first-time work so far" in eager.run("%bcvm status").stdout
