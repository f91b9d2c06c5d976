"""The MindSpore door: MindSpore tensors in and out of BCVM without copies.

Importing this package does not import MindSpore. The door opens by itself when MindSpore is
already loaded and BCVM meets one of its tensors or functions; `install()` opens it on request.
"""

from __future__ import annotations

import importlib.util
import sys

from ..devices import base
from ..errors import MissingExtraError
from ..ops import registry

__all__ = ["available", "install", "installed", "listen"]

_state = {"installed": False}


def available() -> bool:
    """Whether MindSpore can be imported (it is not imported to find out)."""
    return "mindspore" in sys.modules or importlib.util.find_spec("mindspore") is not None


def installed() -> bool:
    """Whether the door is open."""
    return _state["installed"]


def install() -> None:
    """Open the door: adapters for MindSpore tensors, the spellings of `ops`, `mint` and Tensor methods, and primitive objects.

    Imports MindSpore. Does nothing the second time. Raises MissingExtraError when MindSpore is not installed.
    """
    if _state["installed"]:
        return
    if not available():
        raise MissingExtraError("MindSpore is not installed", fix='run `pip install "bcvm[mindspore]"` (CPython 3.10 to 3.12, NumPy 1.x)')
    from .adapter import register as register_adapters
    from .cells import register as register_cells
    from .primitives import register as register_primitives
    from .spellings import register as register_spellings

    _state["installed"] = True
    register_adapters()
    register_spellings()
    register_cells()
    register_primitives()
    base.forget_unadapted()


def listen() -> None:
    """Open the door as soon as a program that uses MindSpore needs it; costs nothing until then."""
    if not _state["installed"]:
        base.door_hooks.setdefault("mindspore", install)
        registry.spelling_doors.setdefault("mindspore", install)


listen()
