"""Stencils on the disk: loaded without a compiler, checked, compiled once."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bcvm_core import config
from bcvm_core.codegen import loops, store
from bcvm_core.codegen.stencils import blob, build, describe, driver, ir, library, native, objects, primitives, target
from bcvm_core.codegen.stencils.graph import FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.stencils.kernel import kernel_for
from bcvm_core.codegen.stencils.lower import lower
from tests.codegen.stencils.slots import allocate

LEVELS = [name for name in ("x86-64-v3", "x86-64-v4") if target.by_level(name) is not None]


def stored(width: int) -> blob.Blob:
    """The host's blob, as the fixture had it compiled."""
    found = library.family(width).splicer
    assert found is not None
    return found.blob


@pytest.fixture
def quick_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler gives what it gave before."""
    ready = {width: stored(width) for width in target.WIDTHS}
    monkeypatch.setattr(build, "build", lambda _target, width: ready[width])


def host() -> target.Target:
    found = target.host()
    assert found is not None
    return found


@pytest.mark.parametrize("width", target.WIDTHS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_can_be_built_anywhere(level: str, width: int) -> None:
    """The compiler makes code for other processors than this one; every hole is of a kind the splicer knows."""
    t = target.by_level(level)
    assert t is not None
    made = stored(width) if level == host().level else build.build(t, width)
    assert made.lanes == t.lanes(width)
    names = {name for name, _ in describe.stencils(t, width)} | {"start", "loop_begin", "loop_end", "tail_begin", "finish"}
    assert names == set(made.stencils)
    for name, (code, holes) in made.stencils.items():
        assert all(0 <= at <= len(code) - 4 for at, _, _ in holes), name
        ends = [at for at, kind, _ in holes if kind == blob.NEXT]
        assert code[-5:-4] != b"\xe9" or not ends or ends[-1] != len(code) - 4, f"{name} ends with a jump to what follows"
    again = blob.load(made.dump())
    assert again == made


def test_a_graph_asks_only_for_stencils_that_exist() -> None:
    found = library.family(4).splicer
    assert found is not None
    ops = [Node("add", (0, 1)), Node("less", (2, 0)), Node("where", (3, 1, 2)), Node("sigmoid", (4,)), Node("maximum", (5, 5))]
    body = allocate(
        lower(FusedGraph((Input("float32"), Input("float16")), tuple(ops), (6, 3))), (False, True), host().slots, host().slot_bytes
    )
    assert {name for name, _, _ in body.stencils} <= set(found.blob.stencils)


def test_a_new_process_needs_no_compiler(_folder: str) -> None:
    code = f"""
import sys
from bcvm_core import config
config.current.cache_dir = {_folder!r}
import numpy as np
from bcvm_core.codegen.stencils.graph import *
from bcvm_core.codegen.stencils.kernel import kernel_for
entry = kernel_for(FusedGraph((Input("float32"),), (Node("tanh", (0,)),), (1,))).entry
assert entry(np.zeros(9, np.float32)).shape == (9,)
print("llvmlite" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_loading_is_quick() -> None:
    body = store.read("stencils_float32")
    assert body is not None
    times = []
    for _ in range(5):
        started = time.perf_counter()
        blob.load(body)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.05, times


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "format", "missing"])
@pytest.mark.usefixtures("quick_build")
def test_damaged_files_are_compiled_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(file: Path) -> None:
        data = bytearray(file.read_bytes())
        if damage == "cut":
            file.write_bytes(data[: len(data) // 2])
        elif damage == "flip":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        elif damage == "empty":
            file.write_bytes(b"")
        elif damage == "missing":
            file.unlink()
        else:
            import marshal

            store.write("stencils_float32", marshal.dumps((99, "", 4, 64, {}, b"")))

    good = store.read("stencils_float32")
    assert good is not None
    with config.override(cache_dir=str(tmp_path)):
        store.write("stencils_float32", good)
        spoil(store.directory() / "stencils_float32.obj")
        loops.forget()
        go = threading.Event()
        made = build.build
        monkeypatch.setattr(build, "build", lambda t, width: go.wait() and made(t, width))
        family = library.family(4)
        assert not family.ready
        with pytest.raises(NotFusable, match="being compiled"):
            library.splicer(4)
        go.set()
        loops.wait()
        assert family.ready, family.failed
        assert store.read("stencils_float32") == good
    loops.forget()


@pytest.mark.usefixtures("quick_build")
def test_a_blob_for_another_processor_is_not_used(tmp_path: Path) -> None:
    other = next(name for name in LEVELS if name != host().level)
    with config.override(cache_dir=str(tmp_path)):
        store.write("stencils_float32", dataclasses.replace(stored(4), level=other).dump())
        loops.forget()
        family = library.family(4)
        loops.wait()
        assert family.splicer is not None and family.splicer.blob.level == host().level
        body = store.read("stencils_float32")
        assert body is not None and blob.load(body).level == host().level
    loops.forget()


def test_what_cannot_be_a_stencil_is_refused() -> None:
    from bcvm_core.codegen import compiler

    with pytest.raises(blob.BlobError):
        objects.blob_from(compiler.compile_ir("@x = global i32 0\ndefine i32 @f() {\n %v = load i32, ptr @x\n ret i32 %v\n}"), "", 4, 32)
    for junk in (b"", b"\x00" * 100, b"not marshal"):
        with pytest.raises(blob.BlobError):
            blob.load(junk)


def test_failing_to_compile_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(build, "build", fail)
    graph = FusedGraph((Input("float32"),), (Node("tanh", (0,)),), (1,))
    with config.override(cache_dir=str(tmp_path)):
        loops.forget()
        library.family(4)
        loops.wait()
        assert "no such instruction" in library.family(4).failed
        assert type(kernel_for(graph)).__name__ == "TapeKernel"
    loops.forget()


def test_objects_are_found_by_all_they_are_made_from() -> None:
    """Offsets are part of the driver: an object made with other ones must not be found."""
    folder = Path(store.__file__).parent.parent
    found = [list(folder.glob(pattern)) for pattern in store._SOURCES]
    assert all(found)
    named = {path.resolve() for paths in found for path in paths}
    parts = [Path(driver.__file__).with_name(f"{name}.py") for name in driver.SOURCES]
    parts += [Path(module.__file__) for module in (blob, build, describe, driver, ir, native, objects, primitives, target)]
    assert {path.resolve() for path in parts} <= named
