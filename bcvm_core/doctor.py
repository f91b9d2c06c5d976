"""`bcvm doctor`: what is installed, what is missing, and what each missing part costs.

Nothing heavy is imported: optional packages are looked up by their metadata. Every finding is data
(`Finding`); `report` turns a list of them into text.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .version import __version__

OK, MISSING, BROKEN, NOTE = "ok", "missing", "broken", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    `state` is OK, MISSING (optional, costs what `cost` says), BROKEN (something BCVM needs) or NOTE.
    `fix` is the exact command or action, empty when there is nothing to do.
    """

    group: str
    name: str
    state: str
    detail: str = ""
    cost: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _Package:
    """An installed distribution we look for: its cost when missing and the command that brings it."""

    name: str
    cost: str
    fix: str
    below: tuple[int, ...] | None = None  # the first version that is too new, as numbers
    state: str = MISSING


_CORE_FIX = "pip install --force-reinstall bcvm"
_LAB_FIX = "pip install 'bcvm[lab]'"

_CORE = (
    _Package("numpy", "nothing runs", _CORE_FIX, (3,), BROKEN),
    _Package(
        "llvmlite",
        "generated kernels fall back to NumPy forms of the same algorithms: same bits, several times slower",
        _CORE_FIX,
        None,
        BROKEN,
    ),
    _Package("ml_dtypes", "nothing runs", _CORE_FIX, None, BROKEN),
    _Package("platformdirs", "nothing runs", _CORE_FIX, None, BROKEN),
)
_JUPYTER = (
    _Package("ipykernel", "no Jupyter kernel", _LAB_FIX, (7, 5)),
    _Package("ipython", "no magics, no Jupyter kernel", _LAB_FIX),
    _Package("jupyterlab", "no JupyterLab; the kernel still works in other front ends", _LAB_FIX),
    _Package("ipywidgets", "no controls in notebooks", _LAB_FIX),
    _Package("anywidget", "no live views in notebooks", _LAB_FIX),
)
_GPU = (
    _Package("triton", "no kernels for a GPU", "pip install 'bcvm[gpu]'"),
    _Package("cuda-core", "no launches on a GPU", "pip install 'bcvm[gpu]'"),
)


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    out: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        out.append(int(part))
    return tuple(out)


def _package(group: str, package: _Package) -> Finding:
    version = version_of(package.name)
    if version is None:
        return Finding(group, package.name, package.state, "not installed", package.cost, package.fix)
    if package.below is not None and _numbers(version) >= package.below:
        limit = ".".join(map(str, package.below))
        return Finding(
            group, package.name, NOTE, f"{version}: newer than what was tried (below {limit})", "may behave differently", package.fix
        )
    return Finding(group, package.name, OK, version)


def _core() -> Iterator[Finding]:
    for package in _CORE:
        yield _package("core", package)
    yield _executable_memory()
    yield _kernel_cache()
    yield _fused_kernels()
    yield _machine_model()
    yield _convolutions()


def _machine_model() -> Finding:
    """By which figures times of kernels are predicted."""
    from .fusion import machines
    from .fusion.machine import MachineError

    cost = "large calls are cut by nominal figures"
    try:
        found = machines.in_force()
    except MachineError as error:
        return Finding("core", "machine model", MISSING, error.what, cost, "see `bcvm machine`")
    if found.source == "nominal":
        return Finding("core", "machine model", NOTE, "not measured", cost, "bcvm machine")
    return Finding("core", "machine model", OK, f"{found.source}: {found.machine.cpu}, {found.machine.cores} cores")


def _convolutions() -> Finding:
    """What computes convolutions of float32 here."""
    from .codegen.onednn import library

    found, origin = library.state()
    if found is not None:
        return Finding("core", "oneDNN", OK, f"{found.version} ({origin}), {'several threads' if found.has_pool else 'one thread'}")
    cost = "convolutions run by im2col and BLAS: up to twice as long in large images"
    if not library.wanted():
        return Finding("core", "oneDNN", NOTE, origin, cost)
    return Finding("core", "oneDNN", NOTE, origin, cost, "pip install 'bcvm[onednn]'")


def _fused_kernels() -> Finding:
    """How chains of elementwise ops become one kernel here."""
    from .codegen.stencils import kernel, library, target

    engine, reason = kernel.engine()
    if engine == "tape":
        cost = "chains of ops run block by block in NumPy: same bits, several times slower"
        return Finding("core", "fused kernels", MISSING if "BCVM_" not in reason else NOTE, f"tape: {reason}", cost)
    host = target.host()
    state = "stored" if library.is_stored() else "compiled at first use (a few seconds, once)"
    return Finding("core", "fused kernels", OK, f"spliced from stencils for {host.level if host else '?'}, {state}")


def _executable_memory() -> Finding:
    """Whether this process may run generated code (hardened kernels and some containers forbid it)."""
    from .codegen import loader

    obstacle = loader.obstacle()
    if not obstacle:
        return Finding("core", "executable memory", OK, "allowed")
    cost = "generated kernels cannot run; NumPy forms of the same algorithms do, with the same bits, slower"
    return Finding("core", "executable memory", MISSING, obstacle, cost, "allow executable mappings for this process, or set BCVM_LLVM=0")


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


def _kernel_cache() -> Finding:
    from .codegen import store

    folder = store.directory()
    files = [entry for entry in folder.glob("*") if entry.is_file()]
    size = sum(entry.stat().st_size for entry in files)
    held = f"{len(files)} kernels, {size / 1024:.0f} KiB" if files else "empty, filled at first use"
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if _writable(existing):
        return Finding("core", "kernel cache", OK, f"{folder}: {held}")
    cost = "kernels are compiled anew in every process"
    return Finding(
        "core", "kernel cache", MISSING, f"{folder}: {existing} is not writable", cost, "set BCVM_CACHE_DIR to a folder you can write to"
    )


def _mindspore() -> Iterator[Finding]:
    version = version_of("mindspore")
    if version is None:
        cost = "MindSpore tensors and models do not run; NumPy code does"
        fix = "pip install 'bcvm[mindspore]'"
        if sys.version_info >= (3, 13):
            cost += f"; there is no wheel for Python {platform.python_version()}"
            fix = "use Python 3.11 or 3.12, then: " + fix
        yield Finding("mindspore", "mindspore", MISSING, "not installed", cost, fix)
        return
    if _numbers(version)[:2] != (2, 10):
        yield Finding(
            "mindspore", "mindspore", NOTE, f"{version}: only 2.10 was tried", "may behave differently", "pip install 'bcvm[mindspore]'"
        )
    elif _numbers(version_of("numpy") or "0") >= (2,):
        yield Finding(
            "mindspore", "mindspore", BROKEN, f"{version} with NumPy 2", "MindSpore 2.10 fails at its first op", "pip install 'numpy<2'"
        )
    else:
        yield Finding("mindspore", "mindspore", OK, version)


def _jupyter() -> Iterator[Finding]:
    for package in _JUPYTER:
        yield _package("jupyter", package)
    if version_of("jupyter-client") is not None:
        yield _kernelspec()


def _kernelspec() -> Finding:
    """Whether Jupyter finds a kernel `bcvm`, and whether that one starts this Python."""
    from jupyter_client.kernelspec import KernelSpecManager

    name, fix = "kernel spec", "bcvm kernel install --sys-prefix"
    specs: dict[str, str] = KernelSpecManager().find_kernel_specs()
    if "bcvm" not in specs:
        return Finding("jupyter", name, MISSING, "not installed", "JupyterLab does not offer the kernel bcvm", fix)
    folder = Path(specs["bcvm"])
    try:
        command = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))["argv"][0]
    except (OSError, ValueError, KeyError, IndexError) as error:
        return Finding("jupyter", name, BROKEN, f"{folder}: {error}", "the kernel bcvm does not start", fix)
    if os.path.isabs(command) and not os.path.exists(command):
        return Finding("jupyter", name, BROKEN, f"{folder} starts {command}, which is gone", "the kernel bcvm does not start", fix)
    if os.path.isabs(command) and os.path.realpath(os.path.dirname(command)) != os.path.realpath(os.path.dirname(sys.executable)):
        return Finding("jupyter", name, NOTE, f"{folder} starts another Python: {command}", "notebooks run there, not here", fix)
    return Finding("jupyter", name, OK, str(folder))


def _gpu() -> Iterator[Finding]:
    driver = Path("/proc/driver/nvidia/version")
    if not driver.exists():
        yield Finding("gpu", "GPU", NOTE, "no NVIDIA driver; nothing to install: everything runs on the CPU device")
        return
    yield Finding("gpu", "GPU driver", OK, driver.read_text(encoding="utf-8").splitlines()[0].strip())
    for package in _GPU:
        yield _package("gpu", package)
    yield Finding("gpu", "GPU device", NOTE, "this version runs everything on the CPU device")


_GROUPS: tuple[Callable[[], Iterator[Finding]], ...] = (_core, _mindspore, _jupyter, _gpu)


def examine() -> list[Finding]:
    """Look at this environment; never raises for what it finds."""
    return [finding for group in _GROUPS for finding in group()]


def report(findings: list[Finding]) -> str:
    """The findings as text: one line each, and under what is not ok the cost and the fix."""
    cpus = os.cpu_count() or 1
    lines = [f"BCVM {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}, {cpus} CPUs"]
    width = max(len(f.name) for f in findings)
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            lines += ["", f"[{group}]"]
        lines.append(f"  {finding.state:<8}{finding.name:<{width}}  {finding.detail}".rstrip())
        indent = " " * (width + 12)
        if finding.cost:
            lines.append(f"{indent}costs: {finding.cost}")
        if finding.fix:
            lines.append(f"{indent}fix:   {finding.fix}")
    broken = sum(f.state == BROKEN for f in findings)
    missing = sum(f.state == MISSING for f in findings)
    lines += ["", _verdict(broken, missing)]
    return "\n".join(lines)


def _verdict(broken: int, missing: int) -> str:
    if broken:
        return f"{broken} broken: see the fixes above."
    if missing:
        parts = "1 optional part is" if missing == 1 else f"{missing} optional parts are"
        return f"Works. {parts} missing: see above what that costs."
    return "Everything is in place."
