"""JAX's jit on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import sources
import worker


class Jax(worker.Peer):
    name = "jax"
    header = "import jax\nimport jax.numpy as jnp\n"
    words = sources.in_module("jnp", relu="jax.nn.relu({0})", sigmoid="jax.nn.sigmoid({0})")
    wait = staticmethod(jax.block_until_ready)

    def versions(self) -> str:
        return f"JAX {jax.__version__}"

    def array(self, x: Any) -> Any:
        return jax.block_until_ready(jnp.asarray(x))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(function)


worker.serve(Jax())
