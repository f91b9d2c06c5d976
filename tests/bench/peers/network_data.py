"""Weights and inputs of the networks, the same in every environment: NumPy alone, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

WIDTH, HEADS, HIDDEN, WORDS, PLACES, EPS = 768, 12, 3072, 30522, 512, 1e-12  # of BERT-base
MASKED = -1e4  # what BERT adds to the scores of padding
STAGES = (("layer1", 64, 64), ("layer2", 64, 128), ("layer3", 128, 256), ("layer4", 256, 512))  # of resnet18: in and out channels
Arrays = dict[str, np.ndarray[Any, Any]]


def bert_weights(layers: int, *, words: int = WORDS, width: int = WIDTH, hidden: int = HIDDEN) -> Arrays:
    """Embeddings and `layers` layers of an encoder; matrices are (out, in)."""
    rng = np.random.default_rng(5)

    def matrix(rows: int, columns: int, size: float) -> Any:
        return rng.standard_normal((rows, columns), np.float32) * np.float32(size)

    def vector(mean: float) -> Any:
        return (mean + 0.1 * rng.standard_normal(width)).astype(np.float32)

    found: Arrays = {"words": matrix(words, width, 1.0), "places": matrix(PLACES, width, 1.0), "norm.w": vector(1), "norm.b": vector(0)}
    for k in range(layers):
        for name in ("q", "k", "v", "o"):
            found |= {f"{k}.{name}.w": matrix(width, width, width**-0.5), f"{k}.{name}.b": vector(0)}
        found |= {f"{k}.up.w": matrix(hidden, width, width**-0.5), f"{k}.up.b": matrix(1, hidden, 0.1)[0]}
        found |= {f"{k}.down.w": matrix(width, hidden, hidden**-0.5), f"{k}.down.b": vector(0)}
        found |= {f"{k}.norm{i}.{p}": vector(p == "w") for i in (1, 2) for p in "wb"}
    return found


def sentences(batch: int, length: int, *, words: int = WORDS) -> tuple[Any, Any]:
    """Numbers of words (batch, length) int32, and the mask (batch, 1, 1, length) float32 for the scores: the end of each is padding."""
    rng = np.random.default_rng(batch * 1000 + length)
    ids = rng.integers(0, words, (batch, length), np.int32)
    used = np.maximum(1, length - np.arange(batch) * length // 5)
    mask = np.where(np.arange(length) < used[:, None], 0.0, MASKED).astype(np.float32)
    return ids, mask[:, None, None]


def resnet_weights() -> Arrays:
    """All of resnet18, by the names that `mindcv` gives its parameters."""
    rng = np.random.default_rng(5)
    found: Arrays = {}
    for name, norm, out, channels, kernel in _convolutions():
        size = np.float32(1.2 / math.sqrt(channels * kernel * kernel))
        found[f"{name}.weight"] = rng.standard_normal((out, channels, kernel, kernel), np.float32) * size
        for part, low, high in (("gamma", 0.5, 1.5), ("beta", -0.1, 0.1), ("moving_mean", -0.1, 0.1), ("moving_variance", 0.5, 1.5)):
            found[f"{norm}.{part}"] = rng.uniform(low, high, out).astype(np.float32)
    found["classifier.weight"] = rng.standard_normal((1000, 512), np.float32) * np.float32(512**-0.5)
    found["classifier.bias"] = rng.uniform(-0.1, 0.1, 1000).astype(np.float32)
    return found


def _convolutions() -> Iterator[tuple[str, str, int, int, int]]:
    """(its name, its norm's, out channels, in channels, kernel) of each convolution."""
    yield "conv1", "bn1", 64, 3, 7
    for stage, before, out in STAGES:
        for block in range(2):
            channels = before if block == 0 else out
            yield f"{stage}.{block}.conv1", f"{stage}.{block}.bn1", out, channels, 3
            yield f"{stage}.{block}.conv2", f"{stage}.{block}.bn2", out, out, 3
            if channels != out:
                yield f"{stage}.{block}.down_sample.0", f"{stage}.{block}.down_sample.1", out, channels, 1


def images(batch: int, size: int) -> tuple[Any]:
    """Images (batch, 3, size, size) float32."""
    return (np.random.default_rng(batch * 1000 + size).standard_normal((batch, 3, size, size), np.float32),)


def inputs(network: str, batch: int, size: int) -> tuple[Any, ...]:
    """What a network is called with."""
    return sentences(batch, size) if network == "bert" else images(batch, size)
