"""MindSpore takes seconds to import and runs asynchronously by default: import it once, compare synchronously."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
MISSING = importlib.util.find_spec("mindspore") is None
if MISSING and os.environ.get("CI", "").lower() not in ("1", "true"):
    collect_ignore_glob = ["test_[!m]*", "test_m[!i]*"]  # test_missing.py stays and says why
os.environ.setdefault("GLOG_v", "3")  # errors only


@pytest.fixture(scope="session", autouse=True)
def _synchronous() -> Iterator[None]:
    if MISSING:
        yield
        return
    import mindspore as ms

    ms.set_context(pynative_synchronize=True)
    yield
    ms.nn.Cell.__del__ = lambda cell: None  # Cells that MindSpore's backward hooks hold outlive its modules, and print errors then


@pytest.fixture(autouse=True)
def _subnormals() -> Iterator[None]:
    """Some MindSpore kernels leave the calling thread with subnormals flushed to zero: give later tests the default environment."""
    yield
    if sys.platform == "linux" and platform.machine() == "x86_64":
        ctypes.CDLL("libm.so.6").fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV
