"""Compiling a family of stencils; imported only where there is no blob yet."""

from __future__ import annotations

import llvmlite.binding as llvm

from ..compiler import start
from . import describe, objects
from .blob import Blob
from .target import Target


def build(target: Target, width: int) -> Blob:
    """Compile all stencils of a family (about a second). Raises RuntimeError, BlobError."""
    start()
    module = describe.module(target, width)
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=target.level, features=target.features, opt=1, reloc="static", codemodel="small"
    )
    return objects.blob_from(bytes(machine.emit_object(parsed)), target.level, width, module.lanes)
