"""The Jupyter side of BCVM: the kernel ``bcvm``, and ``%load_ext bcvm_kernel`` for any IPython.

Importing this package imports nothing else, because `__main__` has to mend the import path first;
each door below imports what it needs when it is used.
"""

from __future__ import annotations

from typing import Any

__all__ = ["__version__", "install", "load_ipython_extension", "unload_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from bcvm_core.version import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install(*, user: bool = False, prefix: str | None = None, name: str = "bcvm", display_name: str | None = None) -> str:
    """Write the kernelspec and return the folder it went to; see `bcvm_kernel.kernelspec.install`."""
    from .kernelspec import install as write

    return write(user=user, prefix=prefix, name=name, display_name=display_name)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext bcvm_kernel``: the magics, with cells left to plain Python until ``%bcvm on``."""
    from .extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext bcvm_kernel``: take out what `load_ipython_extension` put in."""
    from .extension import unload

    unload(shell)
