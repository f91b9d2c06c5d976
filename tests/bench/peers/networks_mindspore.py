"""The networks as MindSpore Cells: an encoder as people write it, and mindcv's resnet18."""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
import network_data as data
from mindspore import nn, ops


class Attention(nn.Cell):
    """Self-attention op by op."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Dense(width, width) for _ in range(4))
        self.softmax = nn.Softmax(axis=-1)

    def split(self, x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1], self.heads, self.size).transpose(0, 2, 1, 3)

    def construct(self, x: Any, mask: Any) -> Any:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = ops.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(self.size) + mask
        seen = ops.matmul(self.softmax(scores), v)
        return self.o(seen.transpose(0, 2, 1, 3).reshape(x.shape))


class Layer(nn.Cell):
    """Attention and the two wide products, each followed by the norm of its sum with what came in."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Dense(width, hidden), nn.Dense(hidden, width)
        self.gelu = nn.GELU(approximate=False)
        self.norm1, self.norm2 = (nn.LayerNorm([width], epsilon=data.EPS) for _ in range(2))

    def construct(self, x: Any, mask: Any) -> Any:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(self.gelu(self.up(x))))


class Encoder(nn.Cell):
    """Embeddings and layers."""

    def __init__(
        self, layers: int, *, words: int = data.WORDS, width: int = data.WIDTH, heads: int = data.HEADS, hidden: int = data.HIDDEN
    ):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(data.PLACES, width)
        self.norm = nn.LayerNorm([width], epsilon=data.EPS)
        self.layers = nn.CellList([Layer(width, heads, hidden) for _ in range(layers)])

    def construct(self, ids: Any, mask: Any) -> Any:
        x = self.norm(self.words(ids) + self.places.embedding_table[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask)
        return x


def _put(parameter: Any, values: Any) -> None:
    parameter.set_data(ms.Tensor.from_numpy(values))


def encoder(weights: data.Arrays, layers: int, **sizes: int) -> Any:
    """The encoder with its weights."""
    cell = Encoder(layers, **sizes)
    cell.set_train(False)
    _put(cell.words.embedding_table, weights["words"])
    _put(cell.places.embedding_table, weights["places"])
    _put(cell.norm.gamma, weights["norm.w"])
    _put(cell.norm.beta, weights["norm.b"])
    for k, layer in enumerate(cell.layers):
        parts = {n: getattr(layer.attention, n) for n in "qkvo"} | {"up": layer.up, "down": layer.down}
        for name, dense in parts.items():
            _put(dense.weight, weights[f"{k}.{name}.w"])
            _put(dense.bias, weights[f"{k}.{name}.b"])
        for name in ("norm1", "norm2"):
            _put(getattr(layer, name).gamma, weights[f"{k}.{name}.w"])
            _put(getattr(layer, name).beta, weights[f"{k}.{name}.b"])
    return cell


def resnet18(weights: data.Arrays) -> Any:
    """mindcv's resnet18 with these weights."""
    from mindcv import models

    cell = models.resnet18()
    cell.set_train(False)
    for parameter in cell.get_parameters():
        _put(parameter, weights[parameter.name])
    return cell


def built(network: str, layers: int) -> Any:
    """The Cell of a network."""
    return encoder(data.bert_weights(layers), layers) if network == "bert" else resnet18(data.resnet_weights())
