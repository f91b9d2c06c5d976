"""E2 for template kernels: machine code gives the bits of the NumPy evaluation, in every layout and type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcvm_core import config, fpstatus
from bcvm_core.codegen import llvm, loader, store, templates
from bcvm_core.dtypes import BY_NAME
from bcvm_core.ops import evaluate, numerics, registry
from bcvm_core.ops.algorithms import ALGORITHMS
from bcvm_core.testing import assert_same_bits
from tests.ops.elementwise_arguments import layouts, special, wide

OPS = [*(name for name in ALGORITHMS if name != "gelu_tanh"), "elu"]
TYPES = ["float32", "float64"]
pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    templates.forget()
    with config.override(cache_dir=str(tmp_path_factory.mktemp("kernels")), use_llvm=True):
        assert not any(templates.build_all().values())
        yield
        templates.forget()


def kernel(op: str, dtype: Any) -> Any:
    found = templates.kernel_for(op, dtype)
    assert found is not None
    return found


def recorded(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    with np.errstate(all="warn"), fpstatus.recording() as record:
        result = function(*args, **kwargs)
    return result, sorted(record.kinds)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", OPS)
def test_same_bits_over_the_whole_range(op: str, dtype: str) -> None:
    x = np.concatenate([special(dtype), wide(dtype)])
    assert_same_bits(kernel(op, dtype)(x), evaluate_quietly(op, x))


def evaluate_quietly(op: str, x: Any, **attrs: Any) -> Any:
    with np.errstate(all="ignore"):
        return registry.row(op).definition(x, **attrs)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int64", "bool", "uint16"])
@pytest.mark.parametrize("op", ["exp", "log", "sin", "gelu", "softplus", "elu"])
def test_same_bits_in_every_layout_and_type(op: str, dtype: str) -> None:
    x = wide("float32", seed=5, count=40).astype(BY_NAME[dtype].numpy)
    for name, view in layouts(x).items():
        actual, expected = kernel(op, BY_NAME[dtype].numpy)(view), evaluate_quietly(op, view)
        assert_same_bits(actual, expected, name)
        assert getattr(actual, "strides", None) == getattr(expected, "strides", None), name


@pytest.mark.parametrize("op", OPS)
def test_every_element_is_alone(op: str) -> None:
    """The bits of an element depend neither on its neighbours nor on its place."""
    for dtype in TYPES:
        x = special(dtype)
        whole = kernel(op, dtype)(x)
        for i in range(0, x.size, 7):
            assert_same_bits(kernel(op, dtype)(x[i : i + 1]), whole[i : i + 1])
        assert_same_bits(kernel(op, dtype)(x[3:]), whole[3:])


@pytest.mark.parametrize("dtype", [*TYPES, "float16"])
@pytest.mark.parametrize("op", OPS)
def test_same_events_as_the_definition(op: str, dtype: str) -> None:
    definition = registry.row(op).definition
    for x in special("float32" if dtype == "float16" else dtype).astype(dtype):
        argument = np.full(5, x)
        assert recorded(kernel(op, dtype), argument)[1] == recorded(definition, argument)[1], x


NUMPY_OPS = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tanh"]


@pytest.mark.parametrize("dtype", [*TYPES, "float16"])
@pytest.mark.parametrize("op", NUMPY_OPS)
def test_same_events_as_numpy_by_default(op: str, dtype: str) -> None:
    for x in special("float32" if dtype == "float16" else dtype).astype(dtype):
        argument = np.full(5, x)
        kinds = []
        for function in (kernel(op, dtype), getattr(np, op)):
            with np.errstate(all="warn", under="ignore"), fpstatus.recording() as record:
                function(argument)
            kinds.append(sorted(record.kinds))
        assert kinds[0] == kinds[1], x


def test_outside_a_recording_events_warn_like_numpys() -> None:
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="^divide by zero encountered in log$"):
        kernel("log", "float32")(np.zeros(3, np.float32))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow encountered in exp"):
        kernel("exp", "float64")(np.full(3, 1e3))


def test_out_may_be_the_argument_itself_or_overlap_it() -> None:
    for op in ("exp", "sin"):
        x = wide("float32", count=200)
        expected = evaluate_quietly(op, x)
        for out in (x.copy(), np.empty_like(x), np.empty(2 * x.size, np.float32)[::2]):
            source = out if out.flags.c_contiguous else x
            source[...] = x
            assert kernel(op, "float32")(source, out=out) is out
            assert_same_bits(out.copy(), expected)
        shifted = np.concatenate([x, x[:1]])
        kernel(op, "float32")(shifted[:-1], out=shifted[1:])
        assert_same_bits(shifted[1:].copy(), expected)


def test_attributes_reach_the_composed_kernels() -> None:
    x = np.linspace(-5, 5, 101, dtype=np.float32)
    for op, attrs in (("gelu", {"approximate": "tanh"}), ("softplus", {"beta": 2.0}), ("elu", {"alpha": 0.5})):
        assert_same_bits(kernel(op, "float32")(x, **attrs), evaluate_quietly(op, x, **attrs))
    with pytest.raises(ValueError, match="approximate"):
        kernel("gelu", "float32")(x, approximate="no")


def test_scalars_lists_and_other_types_work_in_any_kernel() -> None:
    for argument in (2.0, 3, np.float32(2), [1.0, 2.0], np.arange(4), np.arange(4.0), np.array(1.5)):
        assert_same_bits(kernel("exp", "float32")(argument), evaluate_quietly("exp", argument))


def test_composed_ops_have_fast_forms_with_the_same_bits() -> None:
    x = wide("float32", count=100)
    assert_same_bits(numerics.FAST["exp"](x), evaluate_quietly("exp", x))
    with config.override(use_llvm=False):
        assert_same_bits(numerics.FAST["exp"](x), evaluate_quietly("exp", x))


def test_exact_ops_and_complex_types_have_no_template() -> None:
    assert templates.kernel_for("add", np.float32) is None
    assert templates.kernel_for("exp", np.complex64) is None
    assert templates.kernel_for("exp", np.longdouble) is None or np.dtype(np.longdouble).itemsize == 8


def test_no_kernel_when_code_may_not_be_made() -> None:
    with config.override(use_llvm=False):
        assert templates.kernel_for("exp", np.float32) is None


@pytest.mark.parametrize("op", ["exp", "gelu", "mish"])
def test_the_code_contains_no_fused_multiply_add(op: str) -> None:
    from bcvm_core.codegen import compiler

    text = compiler.assembly(llvm.module([(op, "float64")], templates.lanes()))
    assert not re.search(r"\bv?fn?m(add|sub)", text)


# -- the store -----------------------------------------------------------------------------------


def test_a_second_process_loads_without_a_compiler() -> None:
    code = (
        "import sys, numpy as np\n"
        "from bcvm_core.codegen import templates\n"
        "k = templates.kernel_for('tanh', np.float32)\n"
        "assert templates.loop_for('tanh', 'float32').ready\n"
        "assert 'llvmlite' not in sys.modules\n"
        "print(k(np.linspace(-3, 3, 20, dtype=np.float32)).tobytes().hex())\n"
    )
    environment = {**os.environ, "BCVM_CACHE_DIR": str(config.current.cache_dir), "BCVM_LLVM": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert bytes.fromhex(result.stdout.strip()) == evaluate_quietly("tanh", np.linspace(-3, 3, 20, dtype=np.float32)).tobytes()


def damages(data: bytes) -> list[bytes]:
    middle = len(data) // 2
    return [data[:middle], b"", data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], b"x" + data[1:], data + b"!"]


@pytest.mark.parametrize("which", range(5))
def test_damaged_files_are_a_miss_and_are_replaced(which: int, tmp_path: Path) -> None:
    with config.override(cache_dir=str(tmp_path)):
        templates.forget()
        loop = templates.loop_for("exp", "float32")
        assert templates.wait() and loop.ready
        path = store.directory() / "exp_float32.obj"
        good = path.read_bytes()
        path.write_bytes(damages(good)[which])
        (path.parent / "garbage.tmp").write_bytes(b"?")
        assert store.read("exp_float32") is None
        templates.forget()
        x = np.linspace(-3, 3, 20, dtype=np.float32)
        assert_same_bits(kernel("exp", "float32")(x), evaluate_quietly("exp", x))
        assert templates.wait() and path.read_bytes() == good
    templates.forget()


def test_a_directory_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with config.override(cache_dir=str(blocked)):
        templates.forget()
        loop = templates.loop_for("exp", "float64")
        assert templates.wait() and loop.ready and not loop.failed
    templates.forget()


def test_the_loader_refuses_what_it_does_not_know() -> None:
    good = store.read("exp_float32")
    assert good is not None
    if loader.SUPPORTED:
        assert "exp_float32" in loader.load(good)
    for bad in (b"", b"\x7fELF", good[:100], b"MZ" + good[2:], good[: len(good) - 40]):
        with pytest.raises(loader.LoadError):
            loader.load(bad)


def test_undefined_symbols_are_refused() -> None:
    from bcvm_core.codegen import compiler

    text = "declare i32 @elsewhere()\ndefine i32 @f() nounwind {\n  %x = call i32 @elsewhere()\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
    with pytest.raises(loader.LoadError):
        loader.load(compiler.compile_ir(text))
    data = "@state = global i32 0\ndefine i32 @f() nounwind {\n  %x = load i32, ptr @state\n  store i32 1, ptr @state\n  ret i32 %x\n}\n"
    with pytest.raises(loader.LoadError):
        loader.load(compiler.compile_ir(data))


def test_barred_executable_memory_leaves_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def barred(image: bytes) -> int:
        raise loader.LoadError("executable memory is barred")

    monkeypatch.setattr(loader, "_executable", barred)
    templates.forget()
    assert templates.kernel_for("exp", np.float32) is None
    loop = templates.loop_for("exp", "float32")
    assert "barred" in loop.failed
    x, y = np.linspace(-3, 3, 20, dtype=np.float32), np.empty(20, np.float32)
    assert loop(x, y) == 0
    assert_same_bits(y, evaluate_quietly("exp", x))
    monkeypatch.undo()
    templates.forget()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_works() -> None:
    x = np.linspace(-3, 3, 20, dtype=np.float32)
    expected = evaluate_quietly("exp", x).tobytes()
    code = (
        "import os, sys, tempfile, numpy as np\n"
        "from bcvm_core import config\n"
        "from bcvm_core.codegen import templates\n"
        "from bcvm_core.ops import registry\n"
        "config.current.cache_dir = tempfile.mkdtemp()\n"
        "x = np.linspace(-3, 3, 20, dtype=np.float32)\n"
        "k = templates.kernel_for('exp', np.float32)\n"
        "child = os.fork()\n"  # most likely while the worker compiles
        "k2 = templates.kernel_for('exp', np.float32) or registry.row('exp').definition\n"
        "k3 = templates.kernel_for('log', np.float32) or registry.row('log').definition\n"
        f"same = k(x).tobytes() == k2(x).tobytes() == bytes.fromhex('{expected.hex()}') and k3(x + 4).size == 20\n"
        "ready = templates.wait(20) and templates.loop_for('exp', 'float32').ready\n"
        "if child == 0: sys.exit(0 if same else 1)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "sys.exit(0 if same and ready and status == 0 else 1)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_evaluate_covers_every_algorithm() -> None:
    assert set(evaluate._loops) == set(ALGORITHMS)
