"""Write the kernelspec ``bcvm``: what Jupyter reads to find and start the kernel."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager

KERNEL_NAME = "bcvm"
DISPLAY_NAME = "BCVM (tensor bytecode)"
RESOURCES = Path(__file__).parent / "resources"


def kernel_json(display_name: str | None = None) -> dict[str, Any]:
    """The contents of ``kernel.json`` for the Python that runs this."""
    # Frozen standard modules hide from debugpy; ipykernel starts its own kernel in the same way.
    options = ["-Xfrozen_modules=off"] if platform.python_implementation() == "CPython" else []
    return {
        "argv": [sys.executable, *options, "-m", "bcvm_kernel", "-f", "{connection_file}"],
        "display_name": display_name or DISPLAY_NAME,
        "language": "python",
        "interrupt_mode": "signal",
        "kernel_protocol_version": "5.5",
        "metadata": {"debugger": True, "supported_encryption": ["curve"]},
    }


def install(
    *,
    user: bool = False,
    prefix: str | None = None,
    name: str = KERNEL_NAME,
    display_name: str | None = None,
    manager: KernelSpecManager | None = None,
) -> str:
    """Write the kernelspec; returns its folder.

    user: into the user's Jupyter folder; prefix: below this prefix (``sys.prefix`` for a virtual
    environment); neither: system-wide. Raises OSError where the folder can't be written and
    ValueError for a name Jupyter doesn't take.
    """
    if display_name is None and name != KERNEL_NAME:
        display_name = name
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / name
        shutil.copytree(RESOURCES, source)
        source.chmod(0o755)
        (source / "kernel.json").write_text(json.dumps(kernel_json(display_name), indent=1) + "\n", encoding="utf-8")
        return str((manager or KernelSpecManager()).install_kernel_spec(str(source), name, user=user, prefix=prefix))


def parser() -> argparse.ArgumentParser:
    """The options of ``python -m bcvm_kernel install``."""
    out = argparse.ArgumentParser(prog="python -m bcvm_kernel install", description="Install the Jupyter kernelspec of BCVM.")
    where = out.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for the current user instead of system-wide")
    where.add_argument(
        "--sys-prefix", action="store_const", const=sys.prefix, dest="prefix", help=f"below {sys.prefix} (for virtual environments)"
    )
    where.add_argument("--prefix", help="below this prefix")
    out.add_argument("--name", default=KERNEL_NAME, help="name of the kernelspec (default: %(default)s)")
    out.add_argument("--display-name", help=f"name that the launcher shows (default: {DISPLAY_NAME})")
    return out


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = parser().parse_args(argv)
    try:
        folder = install(user=options.user, prefix=options.prefix, name=options.name, display_name=options.display_name)
    except (OSError, ValueError) as error:
        hint = "" if options.user else " (--user or --sys-prefix needs no rights on the system's folders)"
        print(f"bcvm_kernel: the kernelspec was not installed: {error}{hint}", file=sys.stderr)
        return 1
    print(f"Installed kernelspec {options.name} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
