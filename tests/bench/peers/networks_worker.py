"""Whole networks in one peer: `networks_worker.py PEER THREADS` (1, or 0 for all)."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "3")
if sys.argv[2] == "1":  # before libraries count the cores and start their threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if sys.argv[1] in ("pynative", "graph"):
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's own convolutions are reference code above it

import network_data as data
import numpy as np
import worker

Call = Callable[..., Any]
SAMPLE = 64  # numbers of a result that are compared


class Networks(worker.Worker):
    """Times calls of one network. Times are [by the wall's clock, of the processor in this process], nanoseconds."""

    call: Call

    def build(self, network: str, layers: int) -> None:
        """The network, with its weights."""
        self.network = network
        self.call = self.peer.built(network, layers)  # type: ignore[attr-defined]
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        self.before = worker._status("VmRSS")

    def _arguments(self, batch: int, size: int) -> list[Any]:
        return [self.peer.array(x) for x in data.inputs(self.network, batch, size)]

    def once(self, batch: int, size: int) -> list[float]:
        """One call."""
        return self._timed(self._arguments(batch, size))[0]

    def _timed(self, arguments: list[Any]) -> tuple[list[float], Any]:
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        result = self._call(self.call, arguments)
        return [float(time.perf_counter_ns() - wall), float(time.process_time_ns() - cpu)], result

    def settle(self, batch: int, size: int, calls: int) -> list[float]:
        """Let a size get warm; some numbers of its result."""
        arguments = self._arguments(batch, size)
        for _ in range(calls):
            result = self._call(self.call, arguments)
            self.peer.ready()
        flat = np.asarray(self.peer.to_numpy(result), np.float64).ravel()
        return [float(v) for v in flat[:: max(1, flat.size // SAMPLE)]]

    def round(self, batch: int, size: int, calls: int) -> list[float]:  # type: ignore[override]
        """The least of a few calls."""
        arguments = self._arguments(batch, size)
        times = [self._timed(arguments)[0] for _ in range(calls)]
        return [min(t[k] for t in times) for k in range(2)]

    def grown(self) -> float:
        """Bytes by which the process had grown at its peak since the network was built."""
        return float(worker._status("VmHWM") - self.before)

    def counted(self) -> str:
        """What the peer says of who ran its ops."""
        return str(self.peer.counted())  # type: ignore[attr-defined]


class Torch(worker.Peer):
    """torch, eager."""

    def versions(self) -> str:
        import torch

        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def array(self, x: Any) -> Any:
        import torch

        return torch.from_numpy(x)

    def to_numpy(self, y: Any) -> Any:
        return y.numpy()

    def built(self, network: str, layers: int) -> Call:
        import networks_torch

        return networks_torch.built(network, layers)

    def counted(self) -> str:
        return ""


class PyNative(Torch):
    """MindSpore, op by op and synchronous."""

    def __init__(self) -> None:
        import mindspore as ms

        ms.set_context(pynative_synchronize=True)
        ms.set_device("CPU")

    def versions(self) -> str:
        import mindspore as ms

        return f"MindSpore {ms.__version__}"

    def array(self, x: Any) -> Any:
        import mindspore as ms

        return ms.Tensor.from_numpy(x)

    def to_numpy(self, y: Any) -> Any:
        return y.asnumpy()

    def built(self, network: str, layers: int) -> Call:
        import networks_mindspore

        cell = networks_mindspore.built(network, layers)
        return self.compiled(cell)

    @staticmethod
    def wait(y: Any) -> Any:
        y.data_ptr()  # waits for pending work
        return y


class Graph(PyNative):
    """The same Cell as one graph with open shapes."""

    def compiled(self, function: Call) -> Call:
        import mindspore as ms

        cell = function
        cell.construct = ms.jit(cell.construct, capture_mode="ast", dynamic=1)  # type: ignore[attr-defined]
        return cell


class Bcvm(PyNative):
    """The same Cell through the VM."""

    def __init__(self) -> None:
        super().__init__()
        import bcvm_core as bcvm

        bcvm.enable()

    def versions(self) -> str:
        import bcvm_core as bcvm

        return f"BCVM {bcvm.version.__version__}"

    def ready(self) -> None:
        from bcvm_core.codegen import loops

        assert loops.wait(120)

    def counted(self) -> str:
        import bcvm_core as bcvm

        found = bcvm.stats()
        return f"{found.share():.1%} of {found.call_op} by CALL_OP"


class BcvmFunction(worker.Peer):
    """The encoder as a function over NumPy's arrays, jitted."""

    ready = Bcvm.ready
    versions = Bcvm.versions
    counted = Torch.counted

    def built(self, network: str, layers: int) -> Call:
        import networks_numpy as own

        import bcvm_core as bcvm

        if network != "bert":
            raise ValueError(f"no {network} as a function: only the encoder is written as one")
        weights = data.bert_weights(layers)
        parts, function = own.by_layer(weights, layers), bcvm.jit(own.encoder)
        return lambda ids, mask: function(ids, mask, weights, parts)


def main() -> None:
    """Serve as the peer that the command line names."""
    name, count = sys.argv[1], int(sys.argv[2])
    if name == "torch":
        import torch

        torch.set_grad_enabled(False)
        if count:
            torch.set_num_threads(count)
    peers = {"torch": Torch, "pynative": PyNative, "graph": Graph, "bcvm": Bcvm, "function": BcvmFunction}
    worker.serve(peers[name](), Networks)


if __name__ == "__main__":
    main()
