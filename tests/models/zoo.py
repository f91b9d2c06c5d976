"""The models: how each is made from mindcv, with which image sizes, and the weights they get.

Nothing here imports MindSpore or mindcv before a model is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BATCHES = (1, 2, 5)
TOLERANCE = 1e-4  # relative, float32
LEAST_SHARE = 0.95  # of the executions of ops that ran as CALL_OP


@dataclass(frozen=True)
class Model:
    """One row of the table. `make(size)` builds the model for square images of that size, without weights that mean anything.

    `gain` scales the weights of convolutions so that what flows through keeps its size: with less, the pictures no longer matter in
    the result; with more, MindSpore itself is further from the same model in float64 than the tests allow.
    """

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Any]
    fixed_size: bool = False  # built for one image size: each size is a model of its own
    gain: float = 1.2


def _registered(name: str) -> Callable[[int], Any]:
    """A model as the package registers it; it takes images of any size."""

    def make(size: int) -> Any:
        from mindcv import models

        return getattr(models, name)()

    return make


def _vit(width: int, depth: int, heads: int, patch: int = 16) -> Callable[[int], Any]:
    """A vision transformer; the registered ones fix 224 or 384 pixels, the class takes any size."""

    def make(size: int) -> Any:
        from mindcv.models.vit import VisionTransformer

        return VisionTransformer(image_size=size, patch_size=patch, embed_dim=width, depth=depth, num_heads=heads)

    return make


def _swin(window: int) -> Callable[[int], Any]:
    """swin_tiny with another window, because windows of 7 fit images of 224 pixels alone."""

    def make(size: int) -> Any:
        from mindcv.models.swintransformer import SwinTransformer

        return SwinTransformer(image_size=size, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=window, drop_path_rate=0.2)

    return make


MODELS = (
    Model("resnet18", (48, 80), _registered("resnet18")),
    Model("resnet50", (48, 80), _registered("resnet50")),
    Model("mobilenet_v2_035_96", (64, 96), _registered("mobilenet_v2_035_96")),
    Model("vit (tiny, patch 16)", (64, 96), _vit(192, 12, 3), fixed_size=True),
    Model("swin_tiny (window 4)", (64, 128), _swin(4), fixed_size=True),
    Model("convnext_tiny", (64, 96), _registered("convnext_tiny")),
    Model("convnextv2_atto", (64, 96), _registered("convnextv2_atto")),
    Model("densenet121", (48, 80), _registered("densenet121")),
    Model("efficientnet_b0", (64, 96), _registered("efficientnet_b0"), gain=1.36),  # its gates halve
    Model("googlenet", (48, 80), _registered("googlenet")),
)
LARGE = (  # for the benchmark: the sizes people train with
    Model("resnet18", (160, 224), _registered("resnet18")),
    Model("resnet50", (160, 224), _registered("resnet50")),
    Model("mobilenet_v2_100", (160, 224), _registered("mobilenet_v2_100")),
    Model("vit_b_32", (160, 224), _vit(768, 12, 12, 32), fixed_size=True),
    Model("swin_tiny (window 7)", (224,), _swin(7), fixed_size=True),
    Model("convnext_tiny", (160, 224), _registered("convnext_tiny")),
    Model("densenet121", (160, 224), _registered("densenet121")),
    Model("efficientnet_b0", (160, 224), _registered("efficientnet_b0"), gain=1.36),
    Model("googlenet", (160, 224), _registered("googlenet")),
)


def built(model: Model, size: int) -> Any:
    """The model for inference, with its weights."""
    cell = model.make(size)
    cell.set_train(False)
    fill(cell, model.gain)
    return cell


def fill(cell: Any, gain: float, seed: int = 20260101) -> None:
    """Give every weight a value that is random, the same in every run, and neither 0 nor 1.

    The package's own start values hide faults: scales of 1e-6, biases of 0, batch statistics of 0 and 1.
    Buffers (masks, one-hot tables) stay as they are.
    """
    import mindspore as ms

    rng = np.random.default_rng(seed)
    for name, parameter in cell.parameters_and_names():
        values = _values(rng, name.rpartition(".")[2], parameter.shape, bool(parameter.requires_grad), gain)
        if values is not None:
            parameter.set_data(ms.Tensor.from_numpy(values))


def _values(rng: np.random.Generator, name: str, shape: tuple[int, ...], trained: bool, gain: float) -> np.ndarray[Any, Any] | None:
    if name == "moving_variance":
        values = rng.uniform(0.5, 1.5, shape)
    elif name == "moving_mean":
        values = rng.normal(0, 0.1, shape)
    elif not trained:
        return None
    elif name.startswith("gamma"):
        values = rng.uniform(0.5, 1.5, shape)
    elif len(shape) < 2 or name == "beta":
        values = rng.normal(0, 0.1, shape)
    else:
        scale = (gain if len(shape) == 4 else 1.0) / math.sqrt(math.prod(shape[1:]))
        values = rng.standard_normal(shape, np.float32) * np.float32(scale)
    return values.astype(np.float32)


def images(batch: int, size: int, seed: int = 7) -> Any:
    """A batch of pictures that differ: a colour, coarse squares and fine noise each (noise alone looks the same after pooling)."""
    import mindspore as ms

    rng = np.random.default_rng(seed)
    colour, coarse, fine = (rng.standard_normal((batch, 3, n, n)) for n in (1, 4, size))
    values = colour + np.kron(coarse, np.ones((size // 4, size // 4))) + 0.5 * fine
    return ms.Tensor.from_numpy(values.astype(np.float32))


def difference(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """The largest difference of two results, relative to each value; values below the root mean square count as that."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype == np.float32
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    assert np.isfinite(a).all() and np.isfinite(b).all()
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(b), np.sqrt(np.mean(b * b)))))
