"""MindSpore tensors on the CPU: PyNative (synchronous), or with an argument `jit` (ms.jit) or `bcvm` (the same functions under BCVM)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import sources
import worker


class PyNative(worker.Peer):
    name = "mindspore"
    header = "from mindspore import ops\n"
    words = sources.in_module("ops")

    def versions(self) -> str:
        return f"MindSpore {ms.__version__}"

    def array(self, x: Any) -> Any:
        return ms.Tensor.from_numpy(x)

    def to_numpy(self, y: Any) -> Any:
        return y.asnumpy()


class Jit(PyNative):
    name = "ms.jit"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return ms.jit(function, capture_mode="ast", dynamic=1)  # type: ignore[no-any-return]

    @staticmethod
    def wait(y: Any) -> Any:
        y.data_ptr()  # waits for pending work
        return y


class Bcvm(PyNative):
    name = "bcvm on MindSpore"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import bcvm_core as bcvm

        return bcvm.jit(function)


ms.set_context(pynative_synchronize=True)
ms.set_device("CPU")
if "bcvm" in sys.argv[1:]:
    import bcvm_core as bcvm

    assert bcvm.ready(), "no stencils for this machine"
worker.serve(Bcvm() if "bcvm" in sys.argv[1:] else Jit() if "jit" in sys.argv[1:] else PyNative())
