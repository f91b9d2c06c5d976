"""``python -m bcvm_kernel``: run the kernel (as kernelspecs do), or ``install`` its kernelspec."""

from __future__ import annotations

import os
import sys

USAGE = """usage: python -m bcvm_kernel install [options]    write the kernelspec (install -h lists the options)
       python -m bcvm_kernel -f CONNECTION_FILE   run the kernel; Jupyter does this
       python -m bcvm_kernel --help-all           every traitlets option of the kernel"""


def _leave_working_directory() -> None:
    """Drop the working directory from the import path while the kernel loads.

    A notebook's folder may hold a ``token.py`` or ``code.py``; IPython puts the folder back
    once everything is imported. It stays where the core can only be found through it (a
    checkout that was not installed).
    """
    if not sys.path or sys.path[0] not in ("", os.getcwd()):
        return
    first = sys.path.pop(0)
    import importlib.util  # not earlier: it would be looked for in the working directory

    if importlib.util.find_spec("bcvm_core") is None:
        sys.path.insert(0, first)


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv and argv[0] == "install":
        from .kernelspec import main as install

        return install(argv[1:])
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    _leave_working_directory()
    from .kernel import launch

    launch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
