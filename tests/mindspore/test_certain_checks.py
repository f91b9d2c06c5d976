"""Checks that hold whatever the sizes are do not run; all others do."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import bcvm_core as bcvm
from bcvm_core.isa.program import Program
from bcvm_core.vm.flatten import program as flat

pytestmark = pytest.mark.mindspore


class Net(nn.Cell):
    """Asks for ranks of what came in, of images that a convolution made, and for sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.wrong: Any = None

    def construct(self, x: Any) -> Any:
        if x.ndim != 4:
            raise ValueError("no images")
        y = self.norm(self.conv(x))
        if len(y.shape) != 4 or y.ndim == 3:
            raise ValueError("no images have come out")
        if y.shape[2] > 9:
            y = y[:, :, :9]
        z = ops.relu(y + 1)
        if z.ndim < 4:
            return z
        return z.reshape((z.shape[0], -1)), len(y.shape)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Program, frozenset[int]]]:
    """What was asked about each program, and the answer."""
    found: list[tuple[Program, frozenset[int]]] = []
    certain = flat.certain

    def noted(program: Program, direct: Any) -> frozenset[int]:
        found.append((program, certain(program, direct)))
        return found[-1][1]

    monkeypatch.setattr(flat, "certain", noted)
    return found


def test_checks_of_ranks_that_convolutions_fix_do_not_run(seen: list[tuple[Program, frozenset[int]]]) -> None:
    net = Net()
    net.set_train(False)
    with bcvm.enable():
        for size in (8, 12, 8, 20):
            x = np.random.default_rng(size).standard_normal((2, 3, size, size)).astype(np.float32)
            made, rank = net(ms.Tensor(x))
            assert made.shape == (2, 4 * min(size, 9) * size) and rank == 4
    program, left_out = seen[0]
    checks = [pc for pc, instruction in enumerate(program.instructions) if instruction.opcode == "CHECK"]
    staying = [pc for pc in checks if pc not in left_out]
    assert len(staying) == 2 and len(checks) >= 6  # the rank of what comes in, and a size
    asking = {flat.op_name(program.instructions[pc]) for pc in left_out} - {""}
    assert asking <= {"shape", "ndim", "len", "equal", "not_equal", "less"}
    lengths = [pc for pc, instruction in enumerate(program.instructions) if flat.op_name(instruction) == "len"]
    assert not left_out.issuperset(lengths)  # one is a result


def test_another_rank_of_the_operand_is_another_path(seen: list[tuple[Program, frozenset[int]]]) -> None:
    """Of what only follows from the operand nothing is taken for granted."""

    class Any1(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = ops.relu(x)
            return y * 2 if y.ndim == 2 else y.sum()

    net = Any1()
    x = np.arange(-3, 3, dtype=np.float32)
    with bcvm.enable():
        for _ in range(2):
            np.testing.assert_array_equal(net(ms.Tensor(x.reshape(2, 3))).asnumpy(), np.maximum(x.reshape(2, 3), 0) * 2)
            assert net(ms.Tensor(x)).asnumpy() == 3
    assert len(seen) == 2 and not any(left_out for _, left_out in seen)
