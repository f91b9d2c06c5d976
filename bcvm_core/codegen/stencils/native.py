"""A small language for the code around kernels: Python's syntax, 64-bit integers, LLVM underneath.

A function is written as an ordinary Python function over `int`s: assignments, `while`, `if`,
`return`, arithmetic, comparisons, `and` / `or` / `not` in conditions, calls of each other and of
the operations below. Nothing is checked at run time. Addresses are numbers; "/" and "%" don't exist
(shift and mask). `compile_functions` turns the source of a module into LLVM IR.

The operations, whose Python bodies are never run:
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final


def load64(_address: int) -> int:
    """The 64-bit number at an address."""
    raise NotImplementedError


def load32(_address: int) -> int:
    """The 32-bit number at an address, sign extended."""
    raise NotImplementedError


def load16(_address: int) -> int:
    """The 16-bit number at an address."""
    raise NotImplementedError


def load8(_address: int) -> int:
    """The byte at an address."""
    raise NotImplementedError


def store64(_address: int, _value: int) -> None:
    """Write a 64-bit number."""
    raise NotImplementedError


def store32(_address: int, _value: int) -> None:
    """Write the low 32 bits."""
    raise NotImplementedError


def store16(_address: int, _value: int) -> None:
    """Write the low 16 bits."""
    raise NotImplementedError


def store8(_address: int, _value: int) -> None:
    """Write the low byte."""
    raise NotImplementedError


def stack(_size: int) -> int:
    """The address of memory, aligned to 64 bytes, that is there until the function returns."""
    raise NotImplementedError


def call(_function: int, *_arguments: int) -> int:
    """Call the C function at an address; all arguments and the result are 64-bit numbers."""
    raise NotImplementedError


def get_status(_scratch: int) -> int:
    """The processor's floating-point status; `scratch`: 4 bytes of memory."""
    raise NotImplementedError


def set_status(_scratch: int, _value: int) -> None:
    """Set the processor's floating-point status; `scratch`: 4 bytes of memory."""
    raise NotImplementedError


def atomic_load(_address: int) -> int:
    """The 64-bit number at an aligned address that other threads write, and all that they wrote before it."""
    raise NotImplementedError


def atomic_store(_address: int, _value: int) -> None:
    """Write a 64-bit number at an aligned address, after all that was written before."""
    raise NotImplementedError


def atomic_add(_address: int, _value: int) -> int:
    """Add to the 64-bit number at an aligned address: what it was."""
    raise NotImplementedError


def atomic_swap(_address: int, _old: int, _new: int) -> int:
    """Write `new` if the 64-bit number at an aligned address is `old`: whether it was."""
    raise NotImplementedError


def pause() -> None:
    """Tell the processor that this thread only waits."""
    raise NotImplementedError


def thread_pointer() -> int:
    """A number, not 0, that no other living thread has."""
    raise NotImplementedError


_WIDTHS: Final = {f"{verb}{bits}": bits for verb in ("load", "store") for bits in (8, 16, 32, 64)}
_BINARY: Final[dict[type, str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "lshr",
}
_COMPARE: Final[dict[type, str]] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}
DECLARATIONS: Final = "".join(
    [f"declare void @llvm.x86.{name}\n" for name in ("sse.stmxcsr(ptr)", "sse.ldmxcsr(ptr)", "sse2.pause()")],
)


class _Function:
    """Translates one function. Variables are stack slots: LLVM's passes make registers of them."""

    def __init__(self, node: ast.FunctionDef, known: set[str], constants: dict[str, int], exported: bool) -> None:
        self.node, self.known, self.constants = node, known, constants
        self.lines: list[str] = []
        self.count = 0
        self.parameters = [a.arg for a in node.args.args]
        self.variables = set(self.parameters) | {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.linkage = "" if exported else "internal "

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def at(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def text(self) -> str:
        arguments = ", ".join(f"i64 %a.{name}" for name in self.parameters)
        self.lines = [f"  %v.{name} = alloca i64" for name in sorted(self.variables)]
        self.lines += [f"  store i64 %a.{name}, ptr %v.{name}" for name in self.parameters]
        self.block(self.node.body)
        self.lines.append("  ret i64 0")
        return "\n".join([f'define {self.linkage}i64 @{self.node.name}({arguments}) nounwind "no-builtins" {{', "start:", *self.lines, "}"])

    # -- statements -----------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            self.lines.append(f"  store i64 {self.value(s.value)}, ptr %v.{s.targets[0].id}")
        elif isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            self.lines.append(f"  store i64 {self.binary(s.op, ast.Name(s.target.id, ast.Load()), s.value)}, ptr %v.{s.target.id}")
        elif isinstance(s, ast.While):
            self.loop(s)
        elif isinstance(s, ast.If):
            self.choice(s)
        elif isinstance(s, ast.Return):
            self.lines.append(f"  ret i64 {self.value(s.value) if s.value is not None else '0'}")
            self.at(self.label("dead"))
        elif isinstance(s, ast.Expr):
            if not isinstance(s.value, ast.Constant):
                self.value(s.value)
        else:
            raise SyntaxError(f"line {s.lineno}: {type(s).__name__} is not part of the language")

    def loop(self, s: ast.While) -> None:
        head, body, after = self.label("head"), self.label("body"), self.label("after")
        self.lines.append(f"  br label %{head}")
        self.at(head)
        self.lines.append(f"  br i1 {self.condition(s.test)}, label %{body}, label %{after}")
        self.at(body)
        self.block(s.body)
        self.lines.append(f"  br label %{head}")
        self.at(after)

    def choice(self, s: ast.If) -> None:
        yes, no, after = self.label("yes"), self.label("no"), self.label("after")
        self.lines.append(f"  br i1 {self.condition(s.test)}, label %{yes}, label %{no}")
        self.at(yes)
        self.block(s.body)
        self.lines.append(f"  br label %{after}")
        self.at(no)
        self.block(s.orelse)
        self.lines.append(f"  br label %{after}")
        self.at(after)

    # -- expressions ----------------------------------------------------------------------------

    def condition(self, e: ast.expr) -> str:
        if isinstance(e, ast.Compare):
            return self.new(f"icmp {_COMPARE[type(e.ops[0])]} i64 {self.value(e.left)}, {self.value(e.comparators[0])}")
        if isinstance(e, ast.BoolOp):
            return self.shortcut(e)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            return self.new(f"xor i1 {self.condition(e.operand)}, true")
        return self.new(f"icmp ne i64 {self.value(e)}, 0")

    def shortcut(self, e: ast.BoolOp) -> str:
        """`and` / `or`: what need not be looked at is not."""
        self.count += 1
        name = f"%v.b{self.count}"
        self.lines.insert(0, f"  {name} = alloca i1")
        done = self.label("done")
        for k, part in enumerate(e.values):
            self.lines.append(f"  store i1 {self.condition(part)}, ptr {name}")
            if k + 1 < len(e.values):
                following = self.label("more")
                ends = f"label %{following}, label %{done}" if isinstance(e.op, ast.And) else f"label %{done}, label %{following}"
                self.lines.append(f"  br i1 {self.new(f'load i1, ptr {name}')}, {ends}")
                self.at(following)
        self.lines.append(f"  br label %{done}")
        self.at(done)
        return self.new(f"load i1, ptr {name}")

    def value(self, e: ast.expr) -> str:
        if isinstance(e, ast.Constant) and isinstance(e.value, int):
            return str(int(e.value))
        if isinstance(e, ast.Name):
            if e.id in self.variables:
                return self.new(f"load i64, ptr %v.{e.id}")
            return str(self.constants[e.id])
        if isinstance(e, ast.BinOp):
            return self.binary(e.op, e.left, e.right)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return self.new(f"sub i64 0, {self.value(e.operand)}")
        if isinstance(e, ast.Compare):
            return self.new(f"zext i1 {self.condition(e)} to i64")
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            return self.called(e.func.id, [self.value(a) for a in e.args])
        raise SyntaxError(f"line {e.lineno}: {type(e).__name__} is not part of the language")

    def binary(self, op: ast.operator, a: ast.expr, b: ast.expr) -> str:
        return self.new(f"{_BINARY[type(op)]} i64 {self.value(a)}, {self.value(b)}")

    def pointer(self, address: str) -> str:
        return self.new(f"inttoptr i64 {address} to ptr")

    def stack(self, size: str) -> str:
        """Memory of a constant size is set aside at the start."""
        if not size.isdigit():
            return self.new(f"ptrtoint ptr {self.new(f'alloca i8, i64 {size}, align 64')} to i64")
        self.count += 1
        name = f"%v.s{self.count}"
        self.lines.insert(0, f"  {name} = alloca [{size} x i8], align 64")
        return self.new(f"ptrtoint ptr {name} to i64")

    def called(self, name: str, a: list[str]) -> str:
        if name.startswith("load"):
            bits = _WIDTHS[name]
            found = self.new(f"load i{bits}, ptr {self.pointer(a[0])}, align 1")
            return found if bits == 64 else self.new(f"{'sext' if bits == 32 else 'zext'} i{bits} {found} to i64")
        if name.startswith("store"):
            bits = _WIDTHS[name]
            value = a[1] if bits == 64 else self.new(f"trunc i64 {a[1]} to i{bits}")
            self.lines.append(f"  store i{bits} {value}, ptr {self.pointer(a[0])}, align 1")
            return "0"
        if name == "stack":
            return self.stack(a[0])
        if name == "call":
            return self.new(f"call i64 {self.pointer(a[0])}({', '.join(f'i64 {x}' for x in a[1:])})")
        if name == "get_status":
            self.lines.append(f"  call void @llvm.x86.sse.stmxcsr(ptr {self.pointer(a[0])})")
            return self.called("load32", [a[0]])
        if name == "set_status":
            self.called("store32", a)
            self.lines.append(f"  call void @llvm.x86.sse.ldmxcsr(ptr {self.pointer(a[0])})")
            return "0"
        if name.startswith("atomic"):
            return self.atomic(name, self.pointer(a[0]), a[1:])
        if name == "pause":
            self.lines.append("  call void @llvm.x86.sse2.pause()")
            return "0"
        if name == "thread_pointer":  # its first word is its own address
            return self.new('call i64 asm sideeffect "movq %fs:0, $0", "=r"()')
        if name in self.known:
            return self.new(f"call i64 @{name}({', '.join(f'i64 {x}' for x in a)})")
        raise SyntaxError(f"{name} is not part of the language")

    def atomic(self, name: str, at: str, a: list[str]) -> str:
        """An operation whose effects all threads see in one order."""
        if name == "atomic_load":
            return self.new(f"load atomic i64, ptr {at} seq_cst, align 8")
        if name == "atomic_store":
            self.lines.append(f"  store atomic i64 {a[0]}, ptr {at} seq_cst, align 8")
            return "0"
        if name == "atomic_add":
            return self.new(f"atomicrmw add ptr {at}, i64 {a[0]} seq_cst, align 8")
        found = self.new(f"cmpxchg ptr {at}, i64 {a[0]}, i64 {a[1]} seq_cst seq_cst, align 8")
        return self.new(f"zext i1 {self.new(f'extractvalue {{ i64, i1 }} {found}, 1')} to i64")


def compile_functions(sources: Sequence[str], exported: tuple[str, ...]) -> str:
    """The functions of some modules' sources as LLVM IR; their upper-case names are constants. Raises SyntaxError, KeyError."""
    constants: dict[str, int] = {}
    functions: list[ast.FunctionDef] = []
    for tree in map(ast.parse, sources):
        for s in tree.body:
            if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is not None:
                if s.target.id in constants:
                    raise SyntaxError(f"two constants are called {s.target.id}")
                constants[s.target.id] = ast.literal_eval(s.value)
        functions += [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    known = {f.name for f in functions}
    if len(known) != len(functions):
        raise SyntaxError("two functions have one name")
    return DECLARATIONS + "\n".join(_Function(f, known, constants, f.name in exported).text() for f in functions)
