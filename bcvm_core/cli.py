"""The command `bcvm`: one function per command, each importing what it needs when it runs.

Exit codes: 0 done, 1 the answer is "no" (`doctor` found something broken), 2 a mistake in the
input. A mistake is one line on stderr; only faults of BCVM itself show a traceback.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import BcvmError
from .version import __version__

Command = Callable[[argparse.Namespace], int]


class UsageError(BcvmError):
    """A command line that asks for something that is not there."""


# ---------------------------------------------------------------- the commands


def doctor(args: argparse.Namespace) -> int:
    """Print what is installed; 1 when something BCVM needs is broken."""
    from .doctor import BROKEN, examine, report

    findings = examine()
    print(report(findings))
    return 1 if any(finding.state == BROKEN for finding in findings) else 0


def dis(args: argparse.Namespace) -> int:
    """Print the text form of a function in a file, or of a program file; or the machine code of its kernels."""
    from .isa import text

    name, _, function = args.target.rpartition(":")
    if args.machine:
        if not name or function.endswith((".bc", ".bcb")):
            raise UsageError("machine code is that of a function", fix="give FILE.py:FUNCTION")
        print(machine_text(load_function(Path(name), function), args.arg))
        return 0
    print(text.disassemble(program_of_target(args.target, args.arg)).rstrip())
    return 0


def diff(args: argparse.Namespace) -> int:
    """Print two programs beside each other; 1 when an instruction differs."""
    from . import comparing

    names = args.first, args.second or args.first
    programs = [program_of_target(target, [*args.arg, *own]) for target, own in zip(names, (args.first_arg, args.second_arg), strict=True)]
    titles = [
        f"{target}{' with ' + ', '.join(own) if own else ''}" for target, own in zip(names, (args.first_arg, args.second_arg), strict=True)
    ]
    pairs = comparing.compare(*map(comparing.listed, programs))
    print(comparing.side_by_side((titles[0], titles[1]), pairs))
    return int(any(pair.mark != comparing.SAME for pair in pairs))


def asm(args: argparse.Namespace) -> int:
    """Translate between the two written forms; the output's name decides which one is written."""
    from .isa import encoding, text

    source, output = Path(args.file), Path(args.output) if args.output else None
    program = read_program(source)
    if not args.no_verify:
        check(program)
    to_text = (output is None and is_binary(source)) or (output is not None and output.suffix == ".bc")
    if output is None:
        output = source.with_suffix(".bc" if to_text else ".bcb")
    if to_text:
        output.write_text(text.disassemble(program), encoding="utf-8")
    else:
        output.write_bytes(encoding.encode(program))
    print(f"{output}: {len(program.instructions)} instructions, {output.stat().st_size} bytes")
    return 0


def run(args: argparse.Namespace) -> int:
    """Run a program file on arguments from the command line and print the result; 1 when the program itself raises."""
    from .vm import interpreter
    from .vm.limits import Limits

    program = read_program(Path(args.program))
    check(program)
    values = bind_arguments(program.params, args.arg)
    try:
        result = interpreter.run(program, values, trusted=args.trust, limits=Limits(args.max_steps, args.max_bytes))
    except BcvmError:
        raise
    except Exception as error:
        print(f"bcvm: the program raised {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if args.output:
        print(save_result(result, Path(args.output)))
    else:
        print(show_result(result))
    return 0


def pool(args: argparse.Namespace) -> int:
    """List the kernels of the pool, or explain how one is selected."""
    from .ops import registry
    from .tiers import pool as kernels

    if args.op is None:
        if args.select is not None:
            raise UsageError("--select needs an op", fix="write `bcvm pool OP --select`")
        print(kernels.table_text())
        return 0
    op = registry.row(args.op)
    if args.select is None:
        print(kernels.table_text(row for row in kernels.describe() if row["op"] == op.name))
    else:
        print(explain_selection(op, args.select))
    return 0


def machine(args: argparse.Namespace) -> int:
    """Print the figures that times are predicted by, measured at first."""
    from . import config
    from .fusion import machines
    from .progress import bar

    given = config.current.machine
    if given is not None and args.again:
        raise UsageError(f"the figures are those of {given}, nothing is measured", fix="unset BCVM_MACHINE")
    if given is not None:
        found, source = machines.in_force().machine, given
    else:
        found, new = machines.measured(again=args.again, progress=bar("measuring", None if args.progress else False))
        kept = machines.read() == found
        source = str(machines.path()) if kept else "not kept: the cache folder can't be written"
        source = f"{'measured now' if new else 'measured earlier'}, {source}"
    if args.json:
        print(found.to_json())
    else:
        print(f"{found.text()}\n{source}")
    return 0


def cache(args: argparse.Namespace) -> int:
    """Print what lies in the code cache on disk, or delete it; 1 when a file is damaged."""
    from .cache import disk
    from .caching import cache_info

    if args.clear:
        print(f"{disk.clear():,} bytes deleted in {disk.root()}")
        return 0
    info = cache_info(verify=True)
    print("\n".join(info.disk_lines()[: 1 + len(info.folders)]))
    return 1 if any(folder.damaged for folder in info.folders) else 0


def cache_tune(args: argparse.Namespace) -> int:
    """Replay a recorded workload over settings of the code cache, and recommend some."""
    from . import workload

    try:
        calls = workload.read(args.file)
    except OSError as error:
        raise UsageError(f"cannot read {args.file}: {error.strerror}") from None
    print(workload.tuning_report(calls, None if args.progress else False))
    return 0


def report(args: argparse.Namespace) -> int:
    """Print a recorded run of a dashboard as text, or write it as one HTML file."""
    from bcvm_widgets.page import page
    from bcvm_widgets.reports import Report
    from bcvm_widgets.runs import read

    run = read(args.run)
    if args.output is None:
        print(Report(run.sample(), times=True))
        return 0
    try:
        Path(args.output).write_text(page(run), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {args.output}: {error.strerror}") from None
    print(f"{args.output}: {Path(args.output).stat().st_size:,} bytes")
    return 0


def kernel_install(args: argparse.Namespace) -> int:
    """Write the kernel spec `bcvm` where Jupyter looks for it."""
    from bcvm_kernel import install

    prefix = sys.prefix if args.sys_prefix else args.prefix
    try:
        folder = install(user=prefix is None, prefix=prefix)
    except ImportError as error:
        raise UsageError(f"the Jupyter kernel needs {error.name}", fix="pip install 'bcvm[lab]'") from error
    except OSError as error:
        raise UsageError(f"cannot write the kernel spec: {error}", fix="choose a folder you can write to with --prefix") from error
    print(f"Installed the kernel spec bcvm in {folder}")
    return 0


# ---------------------------------------------------------------- reading and showing


def is_binary(path: Path) -> bool:
    """Whether a program file is the binary form, by its first bytes. Raises UsageError when it cannot be read."""
    from .isa import encoding

    return _read(path)[: len(encoding.MAGIC)] == encoding.MAGIC


def program_of_target(target: str, specs: Sequence[str]) -> Any:
    """The Program of FILE.py:FUNCTION for arguments such as `specs`, or the one in a file. Raises UsageError."""
    name, _, function = target.rpartition(":")
    if name and not function.endswith((".bc", ".bcb")):
        return lower_function(load_function(Path(name), function), specs)
    if target.endswith(".py"):
        raise UsageError(f"which function of {target}?", fix="give FILE.py:FUNCTION")
    return read_program(Path(target))


def read_program(path: Path) -> Any:
    """The Program in a file, text or binary. Raises UsageError, AssembleError or DecodeError."""
    from .isa import encoding, text

    data = _read(path)
    if data[: len(encoding.MAGIC)] == encoding.MAGIC:
        return encoding.decode(data)
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is neither a binary program nor text (byte {error.start})", fix="give a .bc or .bcb file") from None
    return text.assemble(source)


def check(program: Any) -> None:
    """Verify a program against the ops and fusion policies of this version. Raises VerifyError."""
    from .fusion import policies
    from .isa import verifier
    from .ops import registry

    ops = {row.name for row in registry.rows()}
    known = {policy.id for policy in policies.all_policies()}
    verifier.verify(program, op_exists=ops.__contains__, policy_exists=known.__contains__)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def load_function(path: Path, qualname: str) -> Callable[..., Any]:
    """Run a Python file as a module and take the function `qualname` ("f", "Class.method") from it.

    The module's code is named by `path` as it was given, so that listings do too.
    """
    import types

    data = _read(path)
    module = types.ModuleType(path.stem)
    module.__file__ = str(path.resolve())
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickles look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        exec(compile(data, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        raise UsageError(
            f"{path} does not import: {type(error).__name__}: {error}", fix="run it with python to see the traceback"
        ) from error
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        names = ", ".join(sorted(n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == path.stem))
        raise UsageError(f"no function {qualname!r} in {path}", fix=f"it has: {names or 'no functions'}")
    return found  # type: ignore[no-any-return]


def lower_function(function: Callable[..., Any], specs: Sequence[str]) -> Any:
    """The Program of a function, given what its arguments are. Without specs, annotations decide. Raises UsageError."""
    import inspect

    import bcvm_core

    given = {name: example_value(spec) for name, spec in map(split_assignment, specs)}
    parameters = list(inspect.signature(function).parameters)
    if unknown := [name for name in given if name not in parameters]:
        raise UsageError(f"no parameter {unknown[0]!r}", fix=f"it has: {', '.join(parameters) or 'none'}")
    last = max((parameters.index(name) + 1 for name in given), default=0)
    return bcvm_core.lower(function, *(given.get(name) for name in parameters[:last]))


def machine_text(function: Callable[..., Any], specs: Sequence[str]) -> str:
    """The machine code of a function's fused kernels, after calls with zeros of the given shapes. Raises UsageError."""
    import inspect

    import bcvm_core

    given = {name: sample_value(spec) for name, spec in map(split_assignment, specs)}
    try:
        bound = inspect.signature(function).bind(**given)
    except TypeError as error:
        raise UsageError(f"machine code is made for operands: {error}", fix="give --arg NAME=SPEC for each parameter") from None
    if not bcvm_core.ready():
        raise UsageError("there is no machine code here", fix="`bcvm doctor` says why")
    jitted = bcvm_core.jit(function)
    try:
        for _ in range(3):
            jitted(*bound.args, **bound.kwargs)
    except Exception as error:
        raise UsageError(f"the function raised {type(error).__name__}: {error}") from error
    return bcvm_core.machine_code(jitted)


_SPEC = r"(\w+)\[(.*)\](?::(\w+))?(?::(\w+:\d+))?"


def example_value(spec: str) -> Any:
    """What stands for an argument: a TensorSpec for `float32[B, 64]` or `float16[B, C, H, W]:NCHW:cuda:0`, else `parse_value`'s."""
    import re

    from .dtypes import BY_NAME
    from .frontend.annotations import TensorSpec

    match = re.fullmatch(_SPEC, spec)
    if match is None or match[1] not in BY_NAME:
        return parse_value(spec)
    dims = [dim.strip() for dim in match[2].split(",") if dim.strip()]
    return TensorSpec(match[1], [int(dim) if dim.isdigit() else dim for dim in dims], match[4] or "cpu:0", match[3] or "contiguous")


def sample_value(spec: str) -> Any:
    """Like `example_value`, with zeros for a tensor: its shape must be fixed. Raises UsageError."""
    import numpy as np

    from .dtypes import BY_NAME
    from .frontend.annotations import TensorSpec

    value = example_value(spec)
    if not isinstance(value, TensorSpec):
        return value
    shape = value.hint.dims
    if value.hint.any_leading or not all(isinstance(dim, int) for dim in shape):
        raise UsageError(f"the shape of {spec} is open", fix="give numbers, as in float32[64, 32]")
    return np.zeros(tuple(map(int, shape)), BY_NAME[value.dtype].numpy)  # type: ignore[arg-type]


def explain_selection(op: Any, specs: Sequence[str]) -> str:
    """The selection program for operands like `specs` (default: small float32 matrices), and the path it takes for them."""
    from .errors import Decline
    from .isa.signature import table
    from .tiers import select, selection
    from .tiers.pool import pool as kernels

    specs = list(specs) or ["float32[64, 64]"] * len(op.operands)
    if len(specs) != len(op.operands):
        names = ", ".join(param.name for param in op.operands)
        raise UsageError(f"{op.name} takes {len(op.operands)} operands ({names}), not {len(specs)}", fix="give one SPEC for each")
    operands = [sample_value(spec) for spec in specs]
    operands = [[value] if param.role == "tensors" else value for param, value in zip(op.operands, operands, strict=True)]
    try:
        signature = select.signature_of(op, operands)
        why = select.explain(op, operands)
    except Decline as reason:
        raise UsageError(f"Python runs {op.name} on such operands: {reason}") from None
    steps = selection.listing(kernels.slot(signature).program).rstrip()
    return f"0x{signature:04X} = {table.row(signature)}\n{steps}\n\nFor {', '.join(specs)}: {why.text}"


def split_assignment(text: str) -> tuple[str, str]:
    """`name=value` as a pair. Raises UsageError for anything else."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip().isidentifier():
        raise UsageError(f"not NAME=VALUE: {text!r}", fix="write --arg x=x.npy or --arg n=3")
    return name.strip(), value.strip()


def parse_value(text: str) -> Any:
    """An argument's value: the array in a .npy file, or a Python literal. Raises UsageError."""
    if text.endswith(".npy"):
        import numpy as np

        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot load {text}: {error}") from None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(
            f"neither a .npy file nor a Python literal: {text!r}", fix="write --arg x=x.npy, --arg n=3 or --arg s='\"text\"'"
        ) from None


def bind_arguments(params: Sequence[str], assignments: Sequence[str]) -> dict[str, Any]:
    """The parameters' values by name. Raises UsageError for a missing, unknown or doubled name."""
    given: dict[str, Any] = {}
    for assignment in assignments:
        name, value = split_assignment(assignment)
        if name not in params:
            raise UsageError(f"the program has no parameter {name!r}", fix=f"it has: {', '.join(params) or 'none'}")
        if name in given:
            raise UsageError(f"{name!r} is given twice")
        given[name] = parse_value(value)
    if missing := [name for name in params if name not in given]:
        raise UsageError(f"no value for {', '.join(missing)}", fix=" ".join(f"--arg {name}={name}.npy" for name in missing))
    return given


def show_result(result: Any) -> str:
    """A result as text: an array with its dtype and shape, anything else by `repr`."""
    import numpy as np

    if isinstance(result, np.ndarray):
        return f"{result.dtype} {list(result.shape)}\n{result}"
    return repr(result)


def save_result(result: Any, path: Path) -> str:
    """Write an array to .npy, or a tuple of arrays to .npz. Raises UsageError for anything else."""
    import numpy as np

    try:
        if isinstance(result, tuple):
            path = path.with_suffix(".npz")
            with path.open("wb") as file:
                np.savez(file, *(np.asarray(item) for item in result))
            return f"{path}: {len(result)} arrays"
        array = np.asarray(result)
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {error}") from None
    return f"{path}: {array.dtype} {list(array.shape)}"


# ---------------------------------------------------------------- the command line

_DESCRIPTION = "A bytecode VM for tensor programs whose shapes, branches and devices change at every step."


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; every command has a help text of its own."""
    parser = argparse.ArgumentParser(prog="bcvm", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"bcvm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, function: Command, summary: str, *, more: str = "", into: Any = commands) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = into.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}. {more}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(command=function)
        return added

    command("doctor", doctor, "print what is installed, what is missing, and what that costs")

    sub = command("dis", dis, "print the bytecode of a function or of a program file")
    sub.add_argument(
        "target", metavar="FILE.py:FUNCTION | FILE.bc | FILE.bcb", help="FUNCTION may be dotted: Model.forward. The file is run as a module"
    )
    sub.add_argument(
        "--arg", action="append", default=[], metavar="NAME=SPEC", help="what an argument is: x='float32[B, 64]', n=3, or x=x.npy"
    )

    sub.add_argument(
        "--machine",
        action="store_true",
        help="call the function with zeros of these shapes, and print the machine code of its fused kernels",
    )

    sub = command("diff", diff, "print two programs, or one function for two kinds of arguments, side by side")
    sub.add_argument("first", metavar="FILE.py:FUNCTION | FILE.bc | FILE.bcb", help="as `bcvm dis` takes it")
    sub.add_argument("second", nargs="?", metavar="THE OTHER", help="the same function again, if left out")
    sub.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC", help="what an argument is, on both sides")
    sub.add_argument("--first-arg", action="append", default=[], metavar="NAME=SPEC", help="what it is on the first side only")
    sub.add_argument("--second-arg", action="append", default=[], metavar="NAME=SPEC", help="what it is on the second side only")

    sub = command("asm", asm, "translate a program between text (.bc) and binary (.bcb)")
    sub.add_argument("file", metavar="FILE", help="either form; told apart by content")
    sub.add_argument(
        "-o", "--output", metavar="FILE", help="a name in .bc gets text, any other binary (default: FILE with the other suffix)"
    )
    sub.add_argument("--no-verify", action="store_true", help="translate programs that break a rule of the verifier, too")

    sub = command("run", run, "run a program file, text or binary")
    sub.add_argument("program", metavar="PROGRAM", help="a .bc or .bcb file; the two are told apart by content")
    sub.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value: a .npy file or a Python literal"
    )
    sub.add_argument("--trust", action="store_true", help="allow CALL_HOST: Python code in the file runs with your rights")
    sub.add_argument("--max-steps", type=_count, metavar="N", help="stop after N instructions")
    sub.add_argument("--max-bytes", type=_count, metavar="N", help="stop when results take more than N bytes")
    sub.add_argument("-o", "--output", metavar="FILE", help="save the result as .npy (a tuple: .npz) instead of printing it")

    sub = command("pool", pool, "list the kernels of the pool, or explain how one is selected")
    sub.add_argument("op", nargs="?", metavar="OP", help="only this op's kernels")
    sub.add_argument(
        "--select",
        nargs="*",
        metavar="SPEC",
        help="print the selection program of OP and the path it takes for operands such as 'float32[64, 32]'",
    )

    sub = command("machine", machine, "measure this machine once, and print the figures that times of kernels are predicted by")
    sub.add_argument("--again", action="store_true", help="measure again, and keep that instead")
    sub.add_argument("--json", action="store_true", help="print JSON, in the form that BCVM_MACHINE takes")

    sub.add_argument("--no-progress", dest="progress", action="store_false", help="show no progress bar")

    sub = command("cache", cache, "check the code cache on disk, and print what lies in it")
    sub.add_argument("--clear", action="store_true", help="delete it, for all versions; it is made again when it is needed")
    actions = sub.add_subparsers(metavar="ACTION")
    tune = command("tune", cache_tune, "replay a recorded workload over settings of the cache in memory, and recommend some", into=actions)
    tune.add_argument("--no-progress", dest="progress", action="store_false", help="show no progress bar")
    tune.add_argument("file", metavar="FILE", help='what `with bcvm.record("workload.rec"): ...` wrote')

    sub = command("report", report, "show a recorded run of the dashboard as text, or as one HTML file that opens offline")
    sub.add_argument("run", metavar="RUN.json", help='what board.save("run.json") or `with bcvm_widgets.recording("run.json"):` wrote')
    sub.add_argument("-o", "--output", metavar="FILE.html", help="write the HTML file, with the views and a time slider")

    sub = command("kernel", kernel_help, "manage the Jupyter kernel")
    actions = sub.add_subparsers(metavar="ACTION")
    install = command("install", kernel_install, "let Jupyter offer the kernel bcvm", into=actions)
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this Python environment")
    where.add_argument("--prefix", metavar="DIR", help="below DIR/share/jupyter/kernels")
    sub.set_defaults(parser=sub)
    return parser


def kernel_help(args: argparse.Namespace) -> int:
    """`bcvm kernel` alone: its help."""
    args.parser.print_help()
    return 0


def _count(text: str) -> int:
    value = int(text.replace("_", ""))
    if value <= 0:
        raise ValueError(text)
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.command(args)
        return code
    except BcvmError as error:
        print(f"bcvm: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `bcvm pool | head`: the reader has gone, which is no fault
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
