"""The networks in torch, eager: attention by its fused call, everything else as its modules do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import network_data as data
import torch
import torch.nn.functional as f

Tensors = dict[str, torch.Tensor]


def _heads(x: Any) -> Any:
    return x.view(x.shape[0], x.shape[1], data.HEADS, -1).transpose(1, 2)


def encoder(w: Tensors, layers: int) -> Callable[..., Any]:
    """The encoder as a function of (ids, mask)."""
    width = (data.WIDTH,)

    def call(ids: Any, mask: Any) -> Any:
        x = f.embedding(ids, w["words"]) + w["places"][: ids.shape[1]]
        x = f.layer_norm(x, width, w["norm.w"], w["norm.b"], data.EPS)
        for k in range(layers):
            q, key, v = (_heads(f.linear(x, w[f"{k}.{n}.w"], w[f"{k}.{n}.b"])) for n in "qkv")
            seen = f.scaled_dot_product_attention(q, key, v, mask).transpose(1, 2).reshape(x.shape)
            x = f.layer_norm(x + f.linear(seen, w[f"{k}.o.w"], w[f"{k}.o.b"]), width, w[f"{k}.norm1.w"], w[f"{k}.norm1.b"], data.EPS)
            wide = f.gelu(f.linear(x, w[f"{k}.up.w"], w[f"{k}.up.b"]))
            down = f.linear(wide, w[f"{k}.down.w"], w[f"{k}.down.b"])
            x = f.layer_norm(x + down, width, w[f"{k}.norm2.w"], w[f"{k}.norm2.b"], data.EPS)
        return x

    return call


def resnet18(w: Tensors) -> Callable[..., Any]:
    """resnet18 as a function of the images."""

    def unit(x: Any, conv: str, norm: str, stride: int = 1) -> Any:
        weight = w[f"{conv}.weight"]
        x = f.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)
        return f.batch_norm(x, *(w[f"{norm}.{p}"] for p in ("moving_mean", "moving_variance", "gamma", "beta")))

    def block(x: Any, name: str, stride: int) -> Any:
        y = f.relu(unit(x, f"{name}.conv1", f"{name}.bn1", stride), inplace=True)
        y = unit(y, f"{name}.conv2", f"{name}.bn2")
        y += unit(x, f"{name}.down_sample.0", f"{name}.down_sample.1", stride) if stride > 1 else x
        return f.relu(y, inplace=True)

    def call(x: Any) -> Any:
        x = f.relu(unit(x, "conv1", "bn1", 2), inplace=True)
        x = f.max_pool2d(x, 3, 2, ceil_mode=True)  # the padding "same" of mindcv's, for sizes that are even here
        for stage, before, out in data.STAGES:
            for k in range(2):
                x = block(x, f"{stage}.{k}", 2 if k == 0 and before != out else 1)
        return f.linear(x.mean((2, 3)), w["classifier.weight"], w["classifier.bias"])

    return call


def built(network: str, layers: int) -> Callable[..., Any]:
    """The function of a network."""
    arrays = data.bert_weights(layers) if network == "bert" else data.resnet_weights()
    w = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return encoder(w, layers) if network == "bert" else resnet18(w)
