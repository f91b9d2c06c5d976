"""Stencils are compiled once for all tests of fused code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("llvmlite")

from bcvm_core import config
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import target
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.codegen.stencils.library import family


@pytest.fixture(scope="session")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("stencils"))


@pytest.fixture(autouse=True, scope="module")
def _ready(_folder: str) -> Iterator[None]:
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    loops.forget()
    with config.override(cache_dir=_folder, use_llvm=True):
        wanted = [family(4), family(8), driver()]
        loops.wait()
        assert [found.failed for found in wanted] == ["", "", ""]
        yield
        loops.forget()
