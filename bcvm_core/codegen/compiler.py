"""LLVM IR to object files with llvmlite; imported only where something must be compiled."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from . import store


@functools.cache
def start() -> None:
    """Make LLVM ready for this machine."""
    for name in ("initialize_native_target", "initialize_native_asmprinter", "initialize_native_asmparser"):
        getattr(llvm, name)()


@functools.cache
def _machine() -> Any:
    start()
    level = store.cpu_level()
    cpu = level or llvm.get_host_cpu_name()
    # full-width vectors: the loops are compute-bound
    features = "-prefer-256-bit" if level == "x86-64-v4" else "" if level else llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=1, reloc="pic", codemodel="small")


def compile_ir(text: str, optimise: bool = False) -> bytes:
    """The object file of a module, by code generation alone or after LLVM's passes. Raises RuntimeError when the text is not valid IR."""
    module = llvm.parse_assembly(text)
    module.verify()
    if optimise:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        passes = llvm.create_pass_builder(_machine(), tuning)
        passes.getModulePassManager().run(module, passes)
    return bytes(_machine().emit_object(module))


def assembly(text: str) -> str:
    """The same as assembler text, for people and tests."""
    module = llvm.parse_assembly(text)
    return str(_machine().emit_assembly(module))


_linkers: list[Any] = []


def link(body: bytes, symbols: list[str], name: str) -> dict[str, int]:
    """Addresses of `symbols` of an object, by LLVM's own linker (where ours does not know the format)."""
    if not _linkers:
        _linkers.append(llvm.create_lljit_compiler(_machine()))
    builder = llvm.JITLibraryBuilder().add_object_img(body)
    for symbol in symbols:
        builder.export_symbol(symbol)
    library = builder.link(_linkers[0], name)
    _linkers.append(library)  # the code lives as long as the tracker
    return {symbol: library[symbol] for symbol in symbols}
