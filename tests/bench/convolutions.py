"""The convolutions of resnet18 and mobilenet_v2 at 224 pixels, one by one: `python -m tests.bench.convolutions [--cpu] [batch ...]`.

oneDNN within a program (channels innermost) and as an eager call (plain arrays in and out), im2col, and MindSpore in PyNative mode, in
turn; medians, added up as often as the network has each. MindSpore's oneDNN is held to AVX2 (see `models`), and so is ours; `BCVM_ONEDNN`
names another library. Other work on the machine: `taskset -c 0 ... --cpu`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from tests.bench.progress import cases

ROUNDS = 9
# channels, size, out, kernel, stride, groups, how often
RESNET18 = (
    *((3, 224, 64, 7, 2, 1, 1), (64, 56, 64, 3, 1, 1, 4), (64, 56, 128, 3, 2, 1, 1), (64, 56, 128, 1, 2, 1, 1), (128, 28, 128, 3, 1, 1, 3)),
    *((128, 28, 256, 3, 2, 1, 1), (128, 28, 256, 1, 2, 1, 1), (256, 14, 256, 3, 1, 1, 3), (256, 14, 512, 3, 2, 1, 1)),
    *((256, 14, 512, 1, 2, 1, 1), (512, 7, 512, 3, 1, 1, 3)),
)
DEPTHWISE = (
    *((32, 112, 32, 3, 1, 32, 1), (96, 112, 96, 3, 2, 96, 1), (144, 56, 144, 3, 1, 144, 1), (144, 56, 144, 3, 2, 144, 1)),
    *((192, 28, 192, 3, 1, 192, 2), (192, 28, 192, 3, 2, 192, 1), (384, 14, 384, 3, 1, 384, 4), (576, 14, 576, 3, 1, 576, 2)),
    *((576, 14, 576, 3, 2, 576, 1), (960, 7, 960, 3, 1, 960, 3)),
)
POINTWISE = (
    *((32, 112, 16, 1, 1, 1, 1), (16, 112, 96, 1, 1, 1, 1), (96, 56, 24, 1, 1, 1, 1), (24, 56, 144, 1, 1, 1, 2), (144, 56, 24, 1, 1, 1, 1)),
    *((144, 28, 32, 1, 1, 1, 1), (32, 28, 192, 1, 1, 1, 3), (192, 28, 32, 1, 1, 1, 2), (192, 14, 64, 1, 1, 1, 1)),
    *(
        (64, 14, 384, 1, 1, 1, 4),
        (384, 14, 64, 1, 1, 1, 3),
        (384, 14, 96, 1, 1, 1, 1),
        (96, 14, 576, 1, 1, 1, 3),
        (576, 14, 96, 1, 1, 1, 2),
    ),
    *(
        (576, 7, 160, 1, 1, 1, 1),
        (160, 7, 960, 1, 1, 1, 3),
        (960, 7, 160, 1, 1, 1, 2),
        (960, 7, 320, 1, 1, 1, 1),
        (320, 7, 1280, 1, 1, 1, 1),
    ),
)
clocks = [time.perf_counter]


def calls(batch: int, row: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """The same convolution by each."""
    from bcvm_core import config
    from bcvm_core import ops as b
    from bcvm_core.ops import order

    channels, size, out, kernel, stride, groups, _ = row
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, channels, size, size)).astype(np.float32)
    w = rng.standard_normal((out, channels // groups, kernel, kernel)).astype(np.float32)
    last = np.ascontiguousarray(x.transpose(order.LAST)).transpose(order.FIRST)
    attrs = {"stride": stride, "padding": kernel // 2, "groups": groups}

    def within() -> Any:
        with order.kept():
            return b.conv2d(last, w, **attrs)

    def im2col() -> Any:
        with config.override(onednn="0"):
            return b.conv2d(x, w, **attrs)

    found = {"in a program": within, "eager": lambda: b.conv2d(x, w, **attrs), "im2col": im2col}
    if importlib.util.find_spec("mindspore") is not None:
        import mindspore as ms

        mx, mw = ms.Tensor(x), ms.Tensor(w)
        given = {"stride": stride, "pad_mode": "pad", "padding": kernel // 2, "groups": groups}
        found["PyNative"] = lambda: ms.ops.conv2d(mx, mw, **given)
    return found


def total(batch: int, rows: tuple[tuple[int, ...], ...]) -> dict[str, float]:
    """Milliseconds of all of a network's convolutions by each."""
    sums: dict[str, float] = {}
    for row in rows:
        functions = calls(batch, row)
        times: dict[str, list[float]] = {name: [] for name in functions}
        for turn in range(ROUNDS + 1):
            for name, call in functions.items() if turn % 2 else reversed(functions.items()):
                start = clocks[-1]()
                call()
                if turn:
                    times[name].append((clocks[-1]() - start) * 1e3)
        for name, found in times.items():
            sums[name] = sums.get(name, 0.0) + median(found) * row[-1]
    return sums


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.convolutions")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time")
    parser.add_argument("batch", nargs="*", type=int, default=[1, 5])
    options = parser.parse_args()
    if options.cpu:
        clocks.append(time.process_time)
    os.environ.setdefault("GLOG_v", "3")
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    if importlib.util.find_spec("mindspore") is not None:
        import mindspore as ms

        ms.set_context(pynative_synchronize=True)
    for name, rows in cases("convolutions", (("resnet18", RESNET18), ("depthwise", DEPTHWISE), ("pointwise", POINTWISE))):
        for batch in options.batch:
            found = total(batch, rows)
            print(f"{name:<10}{batch:>4}", *(f"{who}: {ms_:.1f} ms" for who, ms_ in found.items()), sep="  ", flush=True)


if __name__ == "__main__":
    main()
