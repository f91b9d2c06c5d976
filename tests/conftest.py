"""What every test shares: a home of its own, Hypothesis profiles, and the rule for missing optional parts."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Set before anything of ours or of Jupyter's is imported: no test reads or writes the user's files.
_HOME = Path(tempfile.mkdtemp(prefix="bcvm-tests-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)  # registered first, so run last: IPython still writes its history at exit
for _variable, _folder in {
    "BCVM_CACHE_DIR": "cache",
    "IPYTHONDIR": "ipython",
    "JUPYTER_CONFIG_DIR": "jupyter/config",
    "JUPYTER_DATA_DIR": "jupyter/data",
    "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
}.items():
    (_HOME / _folder).mkdir(parents=True)
    os.environ[_variable] = str(_HOME / _folder)
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # with AVX-512 the oneDNN in MindSpore 2.10 falls back to its reference convolution
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")  # silences Jupyter's notice about its own move
for _variable in ("BCVM_DISABLE", "BCVM_LLVM", "MS_ENABLE_BYTECODE_VM", "MS_LOG_LEVEL"):
    os.environ.pop(_variable, None)

from hypothesis import HealthCheck, settings  # noqa: E402

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
settings.register_profile(
    "bcvm",
    deadline=None,  # the first example of an op compiles its kernel
    derandomize=IN_CI,  # CI judges the change, not the luck of the draw
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("bcvm")


def find_chromium() -> str | None:
    """The path of a Chromium that the browser tests can drive, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; tests that use it carry the marker `browser`."""
    found = find_chromium()
    if found is None:
        pytest.fail("no Chromium: run `apt-get install chromium`")
    return found


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module", autouse=True)
def _nothing_stays_on() -> Iterator[None]:
    """Shells and sessions that tests make in this process switch things on that live as long as a process: not beyond their module."""
    yield
    if "bcvm_core" in sys.modules:
        import bcvm_core as bcvm
        from bcvm_core.tiers.beside import beside

        while beside.on:
            beside.stop()
        while bcvm.enabled():
            bcvm.disable()


@pytest.fixture
def pythons_interrupts() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt. MindSpore, once it has compiled a graph in this process, ends the process instead; what a
    shell runs in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a missing optional part. In CI nothing is skipped: there a missing part is a fault."""
    if IN_CI:
        return
    missing = {
        "mindspore": None if importlib.util.find_spec("mindspore") else "MindSpore is not installed",
        "models": None if importlib.util.find_spec("mindcv") else "mindcv is not installed (pip install 'bcvm[models]')",
        "browser": None if find_chromium() else "no Chromium: the browser tests need one",
    }
    for item in items:
        for marker, reason in missing.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
