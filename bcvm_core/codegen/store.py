"""Machine code of template kernels on disk: found by what it depends on, checked before use.

A file is a magic word, the SHA-256 of the rest, and the object. Anything that is not exactly
that is a miss: damaged files are never run, they are written again. Writers rename a finished
file into place, so concurrent processes see all of it or nothing. A directory that can't be
written costs a compile per process and is no error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from .. import config

_MAGIC: Final = b"BCVMOBJ1"
_SOURCES: Final = (
    "codegen/llvm.py",
    "codegen/versions.py",
    "codegen/tree_ir.py",
    "codegen/compiler.py",
    "codegen/onednn/digest.py",
    *(
        f"codegen/stencils/{name}.py"
        for name in (
            *("blob", "build", "describe", "driver", "ir", "native", "objects", "offsets", "primitives", "target"),
            "*_code",
        )
    ),
    *(f"codegen/rows/{name}.py" for name in ("code", "types", "passes", "recipes", "columns", "column_recipes")),
    *(f"codegen/attention/{name}.py" for name in ("kernel", "moves", "steps", "tiles")),
    *(f"codegen/products/{name}.py" for name in ("tiles", "multiply_code")),
    "ops/algorithms.py",
    "ops/algorithms_f32.py",
    "ops/algorithm_parts.py",
    "ops/gates.py",
    "ops/coefficients.py",
)


@functools.cache
def cpu_level() -> str:
    """The x86-64 level that code is made for ("x86-64-v4", "-v3", ""), "" on other machines: the host as it is."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ""
    root = np._core if hasattr(np, "_core") else np.core
    features: dict[str, bool] = getattr(root._multiarray_umath, "__cpu_features__", {})
    if features.get("AVX512_SKX"):
        return "x86-64-v4"
    return "x86-64-v3" if features.get("AVX2") and features.get("FMA3") and features.get("F16C") else "x86-64"


@functools.cache
def key() -> str:
    """Names everything the code depends on: platform, processor level, and the sources it is made from."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {cpu_level()}".encode())
    if not cpu_level():
        digest.update(platform.processor().encode())
    package = Path(__file__).parent.parent
    for pattern in _SOURCES:
        for path in sorted(package.glob(pattern)):  # none in a zipped package: the version in the path has to do
            with contextlib.suppress(OSError):
                digest.update(path.read_bytes())
    return f"{cpu_level() or platform.machine()}-{digest.hexdigest()[:16]}"


def directory() -> Path:
    """Where objects of this key are kept (it need not exist)."""
    return cache_root() / "kernels" / key()


def cache_root() -> Path:
    """The folder of everything that BCVM keeps between processes (it need not exist)."""
    base = config.current.cache_dir
    if base is None:
        import platformdirs

        base = platformdirs.user_cache_dir("bcvm")
    return Path(base)


def read(name: str) -> bytes | None:
    """The object stored under `name`; None when there is none or it is damaged."""
    return read_sealed(directory() / f"{name}.obj")


def write(name: str, body: bytes) -> bool:
    """Store an object; False when the directory can't be written."""
    return write_sealed(directory() / f"{name}.obj", body)


def read_sealed(path: Path, magic: bytes = _MAGIC) -> bytes | None:
    """What `write_sealed` put into a file; None when it is not there or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(magic) + 32
    body = data[head:]
    if data[: len(magic)] != magic or data[len(magic) : head] != hashlib.sha256(body).digest():
        return None
    return body


def write_sealed(path: Path, body: bytes, magic: bytes = _MAGIC) -> bool:
    """Write a file with its checksum, all at once; False when the directory can't be written."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f"{path.stem}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(magic + hashlib.sha256(body).digest() + body)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True
