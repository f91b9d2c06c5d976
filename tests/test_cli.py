"""The command line: every command on good input, and one clear line for bad input."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bcvm_core import cli
from bcvm_core.errors import BcvmError
from bcvm_core.version import __version__

PROGRAM = """\
.program double(x)
.dims B
 0  LOAD_TENSOR  r0, x, [B, 2]
 1  MUL_CONST    r1, r0, 2.0
 2  RETURN       r1
"""

HOST_PROGRAM = """\
.program shout(x)
.host h0 reads(x) writes(y) line 1:
    y = str(x).upper()
 0  CALL_HOST    _, h0
 1  LOAD_VAR     r0, y
 2  RETURN       r0
"""

SOURCE = """\
import numpy as np


def double(x):
    return np.multiply(x, 2.0)


class Model:
    def forward(self, x):
        return np.exp(x)


count = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail: exit code 2 and one line on stderr, which is returned."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bcvm: ")
    assert captured.err.count("\n") == 1
    return captured.err


# ---------------------------------------------------------------- help


def _parsers(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _parsers(inner, (*path, name))


COMMANDS = [path for path, _ in _parsers(cli.build_parser())]


def test_the_commands_are_these() -> None:
    assert {path[0] for path in COMMANDS if path} == {"doctor", "dis", "diff", "asm", "run", "pool", "machine", "cache", "report", "kernel"}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_text(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*path, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {' '.join(('bcvm', *path))}")
    parser = dict(_parsers(cli.build_parser()))[path]
    assert parser.description and len(parser.description) > 20


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"bcvm {__version__}\n"


def test_no_command_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


# ---------------------------------------------------------------- dis


def test_dis_lists_a_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "model.py", SOURCE)
    assert cli.main(["dis", "model.py:double"]) == 0
    listing = capsys.readouterr().out
    assert listing.startswith('.program double(x)\n.file "model.py" line 4\n')
    assert "MUL_CONST" in listing or "multiply" in listing


def test_dis_lists_a_method(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "model.py", SOURCE)
    assert cli.main(["dis", "model.py:Model.forward", "--arg", "x=float32[2, 3]"]) == 0
    assert "CALL_OP" in capsys.readouterr().out


def test_what_dis_prints_assembles_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "model.py", SOURCE)
    assert cli.main(["dis", "model.py:double"]) == 0
    _write(folder / "double.bc", capsys.readouterr().out)
    np.save(folder / "x.npy", np.ones((3, 2), np.float32))
    assert cli.main(["run", "double.bc", "--arg", "x=x.npy"]) == 0
    assert capsys.readouterr().out == "float32 [3, 2]\n[[2. 2.]\n [2. 2.]\n [2. 2.]]\n"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere.py:f", "cannot read nowhere.py: No such file or directory"),
        ("model.py:triple", "no function 'triple' in model.py; it has: Model, double"),
        ("model.py:count", "no function 'count'"),
        ("nowhere.bc", "cannot read nowhere.bc"),
        ("broken.py:f", "broken.py does not import: ZeroDivisionError"),
        ("model.py", "give FILE.py:FUNCTION"),
    ],
)
def test_dis_says_what_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str], target: str, says: str) -> None:
    _write(folder / "model.py", SOURCE)
    _write(folder / "broken.py", "1 / 0\n")
    assert says in _fails(capsys, "dis", target)


# ---------------------------------------------------------------- asm


def test_asm_goes_there_and_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "double.bc", PROGRAM)
    assert cli.main(["asm", "double.bc"]) == 0
    assert capsys.readouterr().out.startswith("double.bcb: 3 instructions, ")
    assert cli.main(["asm", "double.bcb", "-o", "again.bc"]) == 0
    assert cli.main(["asm", "again.bc", "-o", "again.bcb"]) == 0
    assert (folder / "again.bcb").read_bytes() == (folder / "double.bcb").read_bytes()
    capsys.readouterr()
    assert cli.main(["dis", "double.bcb"]) == 0
    assert capsys.readouterr().out == (folder / "again.bc").read_text(encoding="utf-8")


def test_asm_refuses_what_the_verifier_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "bad.bc", ".program bad()\n 0  RETURN r7\n")
    assert "pc 0" in _fails(capsys, "asm", "bad.bc")
    assert not (folder / "bad.bcb").exists()
    assert cli.main(["asm", "bad.bc", "--no-verify"]) == 0


@pytest.mark.parametrize("text", ["nonsense", ".program f(x)\n 0  LOAD_TENSOR\n", ".program f(x)\n 0  FLY r0\n"])
def test_malformed_text_is_one_clear_line(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    _write(folder / "bad.bc", text)
    assert "line" in _fails(capsys, "asm", "bad.bc")


def test_malformed_binary_is_one_clear_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "double.bc", PROGRAM)
    assert cli.main(["asm", "double.bc"]) == 0
    capsys.readouterr()
    whole = (folder / "double.bcb").read_bytes()
    (folder / "cut.bcb").write_bytes(whole[: len(whole) // 2])
    _fails(capsys, "dis", "cut.bcb")
    (folder / "noise.bcb").write_bytes(bytes(range(128, 256)))
    assert "neither a binary program nor text" in _fails(capsys, "dis", "noise.bcb")


# ---------------------------------------------------------------- run


@pytest.fixture
def program(folder: Path) -> str:
    """A program file and an array file beside it."""
    np.save(folder / "x.npy", np.array([[1.0, 2.0]], np.float32))
    return _write(folder / "double.bc", PROGRAM)


@pytest.mark.parametrize("suffix", [".bc", ".bcb"])
def test_run_prints_the_result(program: str, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["asm", program]) == 0
    capsys.readouterr()
    assert cli.main(["run", "double" + suffix, "--arg", "x=x.npy"]) == 0
    assert capsys.readouterr().out == "float32 [1, 2]\n[[2. 4.]]\n"


def test_run_saves_the_result(program: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", program, "--arg", "x=x.npy", "-o", "y.npy"]) == 0
    assert capsys.readouterr().out == "y.npy: float32 [1, 2]\n"
    assert np.array_equal(np.load(folder / "y.npy"), np.array([[2.0, 4.0]], np.float32))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no value for x; --arg x=x.npy"),
        (["--arg", "z=x.npy"], "no parameter 'z'; it has: x"),
        (["--arg", "x=x.npy", "--arg", "x=x.npy"], "'x' is given twice"),
        (["--arg", "x"], "not NAME=VALUE"),
        (["--arg", "x=gone.npy"], "cannot load gone.npy"),
        (["--arg", "x=one two"], "neither a .npy file nor a Python literal"),
        (["--arg", "x=x.npy", "--max-steps", "1"], "step"),
        (["--arg", "x=rank1.npy"], "[B, 2]"),
    ],
)
def test_run_says_what_is_wrong(program: str, folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    np.save(folder / "rank1.npy", np.ones(2, np.float32))
    assert says in _fails(capsys, "run", program, *arguments)


def test_what_the_program_raises_is_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "x.npy", np.ones(2, np.float32))
    np.save(folder / "y.npy", np.ones(3, np.float32))
    _write(folder / "sum.bc", ".program sum(x, y)\nLOAD_VAR r0, x\nLOAD_VAR r1, y\nCALL_OP r2, add, 0x0000, r0, r1\nRETURN r2\n")
    assert cli.main(["run", "sum.bc", "--arg", "x=x.npy", "--arg", "y=y.npy"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("bcvm: the program raised ValueError: operands could not be broadcast")


def test_a_bad_count_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", program, "--max-steps", "-3"])
    assert stop.value.code == 2
    assert "--max-steps" in capsys.readouterr().err


def test_host_code_runs_only_when_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "shout.bc", HOST_PROGRAM)
    assert "--trust" in _fails(capsys, "run", "shout.bc", "--arg", "x='hello'")
    assert cli.main(["run", "shout.bc", "--arg", "x='hello'", "--trust"]) == 0
    assert capsys.readouterr().out == "'HELLO'\n"


# ---------------------------------------------------------------- pool, doctor, kernel


def test_pool_lists_every_op(capsys: pytest.CaptureFixture[str]) -> None:
    from bcvm_core.ops import registry

    assert cli.main(["pool"]) == 0
    listing = capsys.readouterr().out
    assert [row.name for row in registry.rows() if row.name not in listing] == []


def test_pool_explains_a_selection(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pool", "matmul", "--select"]) == 0
    assert "matmul" in capsys.readouterr().out


def test_pool_explains_a_selection_for_given_operands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pool", "add", "--select", "float32[2, 3]", "int64[3]"]) == 0
    out = capsys.readouterr().out
    assert "add(float32:contiguous:host, int64:" in out
    assert "For float32[2, 3], int64[3]: " in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--select"], "--select needs an op"),
        (["add", "--select", "float32[2]"], "add takes 2 operands"),
        (["matmul", "--select", "float32[2]", "{1: 2}"], "Python runs matmul on such operands"),
    ],
)
def test_pool_says_what_is_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in _fails(capsys, "pool", *arguments)


def test_pool_knows_its_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown op 'mtmul'; did you mean matmul" in _fails(capsys, "pool", "mtmul")


def test_doctor_names_every_core_dependency(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    report = capsys.readouterr().out
    assert [
        name for name in ("numpy", "llvmlite", "ml_dtypes", "platformdirs", "executable memory", "kernel cache") if name not in report
    ] == []


def test_doctor_tells_the_cost_and_the_fix_of_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bcvm_core import doctor

    real = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name in ("mindspore", "jupyterlab") else real(name))
    assert cli.main(["doctor"]) == 0
    report = capsys.readouterr().out
    assert "costs: MindSpore tensors and models do not run; NumPy code does" in report
    assert "pip install 'bcvm[lab]'" in report
    assert report.rstrip().endswith("missing: see above what that costs.")


def test_doctor_finds_a_broken_pair(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bcvm_core import doctor

    versions = {"mindspore": "2.10.0", "numpy": "2.3.1"}
    real = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name) or real(name))
    assert cli.main(["doctor"]) == 1
    assert "fix:   pip install 'numpy<2'" in capsys.readouterr().out


def test_doctor_sees_forbidden_memory_and_a_cache_it_cannot_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bcvm_core import config, doctor
    from bcvm_core.codegen import loader

    monkeypatch.setattr(loader, "obstacle", lambda: "executable memory is barred (errno 13)")
    monkeypatch.setattr(doctor, "_writable", lambda _: False)
    with config.override(cache_dir=str(folder / "kernels")):
        assert cli.main(["doctor"]) == 0
    report = capsys.readouterr().out
    assert "missing executable memory  executable memory is barred (errno 13)" in report
    assert "fix:   set BCVM_CACHE_DIR to a folder you can write to" in report


def test_kernel_install_writes_a_spec_that_starts_this_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jupyter_client")
    import json
    import sys

    assert cli.main(["kernel", "install", "--prefix", str(folder)]) == 0
    written = folder / "share" / "jupyter" / "kernels" / "bcvm" / "kernel.json"
    assert str(written.parent) in capsys.readouterr().out
    assert json.loads(written.read_text(encoding="utf-8"))["argv"][0] == sys.executable


def test_kernel_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kernel"]) == 0
    assert "install" in capsys.readouterr().out


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("float32[2, 3]", "float32 [2, 3] cpu:0 contiguous"),
        ("int8[]", "int8 [] cpu:0 contiguous"),
        ("float16[B, C, *, 4]:NCHW:cuda:0", "float16 [B, C, *, 4] cuda:0 NCHW"),
        ("bool[..., 4]:strided", "bool [..., 4] cpu:0 strided"),
    ],
)
def test_specs_of_tensors(spec: str, shown: str) -> None:
    value = cli.example_value(spec)
    assert f"{value.dtype} {value.hint} {value.device} {value.layout}" == shown


def test_samples_have_a_shape() -> None:
    value = cli.sample_value("float16[2, 3]")
    assert (value.dtype, value.shape) == (np.float16, (2, 3))
    with pytest.raises(BcvmError, match="the shape of float32.B. is open"):
        cli.sample_value("float32[B]")


def test_an_unknown_dtype_is_a_mistake() -> None:
    with pytest.raises(BcvmError, match="neither a .npy file nor a Python literal"):
        cli.example_value("float31[2]")
