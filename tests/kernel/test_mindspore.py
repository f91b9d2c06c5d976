"""MindSpore tensors in cells: lowered, displayed, and silent."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]

CELLS = [
    "import numpy as np, mindspore as ms\nfrom mindspore import mint, ops\nt = ms.Tensor(np.arange(6, dtype='f4').reshape(2, 3))",
    "u = ops.relu(t - 2) * 2 + 1\nu.asnumpy().tolist()",
    "def f(v):\n    h = mint.nn.functional.relu(v) + 1\n    if h.sum() > 3:\n        return ops.tanh(h)\n    return h - v",
    "[tuple(f(t[:n]).shape) for n in (1, 2)], type(f(t)).__name__",
]


def test_mindspore_cells_run_by_call_op_and_say_nothing(start: Any) -> None:
    client = start()
    outcomes = [client.run(code) for code in CELLS]
    assert [(out.status, out.stdout, out.stderr) for out in outcomes] == [("ok", "", "")] * len(CELLS)
    assert outcomes[1].text == "[[1.0, 1.0, 1.0], [3.0, 5.0, 7.0]]"
    assert outcomes[3].text == "([(1, 3), (2, 3)], 'Tensor')"
    assert eval(client.run("s = %bcvm stats -o\ns.share()").text) >= 0.95
    assert client.run("%%bcvm --strict\nops.softmax(t)").status == "ok"
