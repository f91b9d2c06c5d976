"""MindSpore computes synchronously here, as in its own folder of tests; without it nothing of this folder is collected."""

from __future__ import annotations

import importlib.util
import os

import pytest

_MISSING = [name for name in ("mindspore", "mindcv") if importlib.util.find_spec(name) is None]
os.environ.setdefault("GLOG_v", "3")  # errors only


@pytest.fixture(scope="session", autouse=True)
def _synchronous() -> None:
    if not _MISSING:
        import mindspore as ms

        ms.set_context(pynative_synchronize=True)
