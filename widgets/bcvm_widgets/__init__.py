"""Live views of what the VM emits, decides, compiles and caches. Empty in this version: no view has been built yet."""

from bcvm_core.version import __version__

__all__ = ["__version__"]
