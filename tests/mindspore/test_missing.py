"""Without MindSpore: nothing is imported, and a request for it says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bcvm_core.mindspore as door
from bcvm_core.errors import MissingExtraError


def test_door_does_not_import_mindspore() -> None:
    code = "import sys, bcvm_core.mindspore, bcvm_core.ops; print('mindspore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_install_names_the_extra_when_mindspore_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "available", lambda: False)
    monkeypatch.setitem(door._state, "installed", False)
    with pytest.raises(MissingExtraError, match=r'pip install "bcvm\[mindspore\]"'):
        door.install()


@pytest.mark.skipif(door.available(), reason="MindSpore is installed")
def test_rest_of_this_folder() -> None:
    pytest.skip("MindSpore is not installed: the tests of the MindSpore door did not run")
