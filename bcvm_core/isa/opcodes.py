"""The instruction set: one row per opcode. Encoder, decoder, assembler, disassembler, verifier,
interpreter dispatch, legend and reference pages are derived from these rows.

Notation of `effect`: R[d] is the register named by operand d, V[n] the variable n of the frame,
K[k] a constant, H[h] a host block, pc the program counter (already past the instruction).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Kind(Enum):
    """What an operand position holds, and how its value is stored in `Instruction.operands`."""

    DEST = "dest"  # register written: int
    OPT_DEST = "dest?"  # register written, or None
    DESTS = "dests"  # registers written: tuple[int, ...]
    REG = "reg"  # register read: int
    OPT_REG = "reg?"  # register read, or None
    VAR = "var"  # variable name: str
    HINT = "hint"  # ShapeHint
    OP = "op"  # name of a row of the op table: str
    SIG = "sig"  # signature id: int, 0 = resolved when bound
    ARGS = "args"  # tuple[Arg, ...], registers or constants, positional or by name
    CONST = "const"  # index into Program.consts: int
    SCALAR = "scalar"  # an inline Python bool, int, float or complex
    LABEL = "label"  # target pc: int
    POLICY = "policy"  # number of a fusion policy: int
    HOST = "host"  # index into Program.hosts: int
    DEVICE = "device"  # device name such as "cpu:0": str
    DEVICES = "devices"  # tuple of device names


@dataclass(frozen=True, slots=True)
class OpcodeRow:
    """One opcode. `code` is its byte in the binary form and never changes meaning."""

    name: str
    code: int
    operands: tuple[tuple[str, Kind], ...]
    effect: str
    doc: str
    jumps: bool = False  # has a LABEL operand
    falls_through: bool = True  # may continue at pc + 1
    in_region: bool = False  # allowed between FUSE_START and FUSE_END
    region: int = 0  # 1: opens a fusion region, -1: closes it
    const_op: str | None = None  # for X_CONST rows: the op of the table they stand for
    reversed: bool = False  # for X_CONST rows: the constant is the left operand


def _format(text: str) -> tuple[tuple[str, Kind], ...]:
    pairs = [part.split(":") for part in text.split()]
    return tuple((name, Kind(kind)) for name, kind in pairs)


def _row(name: str, code: int, operands: str, effect: str, doc: str, **attributes: object) -> OpcodeRow:
    return OpcodeRow(name, code, _format(operands), effect, doc, **attributes)  # type: ignore[arg-type]


_CONST_OPS = (
    ("ADD_CONST", 0x40, "add", False),
    ("SUB_CONST", 0x41, "subtract", False),
    ("RSUB_CONST", 0x42, "subtract", True),
    ("MUL_CONST", 0x43, "multiply", False),
    ("DIV_CONST", 0x44, "divide", False),
    ("RDIV_CONST", 0x45, "divide", True),
    ("POW_CONST", 0x46, "power", False),
    ("RPOW_CONST", 0x47, "power", True),
    ("FLOORDIV_CONST", 0x48, "floor_divide", False),
    ("MOD_CONST", 0x49, "remainder", False),
    ("MAX_CONST", 0x4A, "maximum", False),
    ("MIN_CONST", 0x4B, "minimum", False),
)


def _const_row(name: str, code: int, op: str, swapped: bool) -> OpcodeRow:
    left, right = ("value", "R[src]") if swapped else ("R[src]", "value")
    return _row(
        name, code, "dest:dest src:reg value:scalar",
        f"R[dest] := {op}({left}, {right})",
        f"`{op}` with a Python scalar, which keeps its weak type under promotion.",
        in_region=True, const_op=op, reversed=swapped,
    )  # fmt: skip


TABLE: tuple[OpcodeRow, ...] = (
    _row("NOP", 0x00, "", "-", "Does nothing.", in_region=True),
    _row("LOAD_TENSOR", 0x01, "dest:dest var:var hint:hint", "R[dest] := check(V[var], hint)",
         "Read a variable and check its shape against the hint; named dims are bound on first sight and must agree afterwards. "
         "A Python number counts as a tensor of shape []; whatever else has no shape fits `[...]` alone."),
    _row("LOAD_VAR", 0x02, "dest:dest var:var", "R[dest] := V[var]", "Read a variable as it is, whatever it holds."),
    _row("STORE_VAR", 0x03, "var:var src:reg", "V[var] := R[src]", "Write a variable that host code may read."),
    _row("LOAD_CONST", 0x04, "dest:dest const:const", "R[dest] := K[const]", "Load a constant.", in_region=True),
    _row("LOAD_ATTR", 0x06, "dest:dest src:reg attr:var", "R[dest] := R[src].attr",
         "Read an attribute when that can run no user code (an instance dict or a slot); otherwise Python must do it.", in_region=True),
    _row("MOVE", 0x05, "dest:dest src:reg", "R[dest] := R[src]", "Copy a reference.", in_region=True),
    _row("CALL_OP", 0x10, "dest:dest op:op sig:sig args:args", "R[dest] := kernel(op, sig)(args)",
         "Run an op of the table by the kernel that its signature selects. The argument named `out` makes it an in-place op: "
         "that operand is overwritten and becomes the result.", in_region=True),
    *(_const_row(*spec) for spec in _CONST_OPS),
    _row("COND_JUMP", 0x60, "cond:reg target:label", "if bool(R[cond]): pc := target",
         "Jump when the value is true in Python's sense; a tensor of several elements raises as Python does.", jumps=True),
    _row("JUMP", 0x61, "target:label", "pc := target", "Jump always.", jumps=True, falls_through=False),
    _row("GET_ITER", 0x62, "dest:dest src:reg", "R[dest] := iter(R[src])", "Make an iterator."),
    _row("LOOP_START", 0x63, "item:dest? iter:reg? exit:label", "R[item] := next(R[iter]); when exhausted pc := exit",
         "Head of a loop. With an iterator: take its next item or leave. Without one (while): only marks the head; `exit` is where "
         "the loop leaves to.", jumps=True),
    _row("LOOP_END", 0x64, "head:label", "pc := head", "Back to the LOOP_START at `head`.", jumps=True, falls_through=False),
    _row("RETURN", 0x65, "src:reg?", "return R[src]", "Leave the program; without a register the result is None.", falls_through=False),
    _row("CHECK", 0x66, "src:reg expected:args", "if R[src] is not as expected: leave the program to Python",
         "Hold a flattened program to its path: True, False, None and objects are compared by identity, numbers and texts by value. "
         "Nothing has been committed when it fails.", in_region=True),
    _row("BUILD_TUPLE", 0x70, "dest:dest items:args", "R[dest] := (items...)", "Make a tuple."),
    _row("BUILD_LIST", 0x71, "dest:dest items:args", "R[dest] := [items...]", "Make a list."),
    _row("BUILD_DICT", 0x72, "dest:dest items:args", "R[dest] := {k0: v0, k1: v1, ...}", "Make a dict; keys and values alternate."),
    _row("UNPACK", 0x73, "dests:dests src:reg", "R[d0], R[d1], ... := R[src]", "Unpack a sequence of exactly that length."),
    _row("FUSE_START", 0x80, "policy:policy", "-", "Fusion may happen from here on, under the policy.", region=1),
    _row("FUSE_END", 0x81, "", "-", "End of the region begun by FUSE_START.", region=-1),
    _row("TO_DEVICE", 0x82, "dest:dest src:reg device:device", "R[dest] := copy of R[src] on device",
         "Move a tensor; on its own device it stays."),
    _row("FUSE_ACROSS_DEVICE", 0x83, "policy:policy devices:devices", "-",
         "Like FUSE_START, for one region whose parts may run on several devices; ended by FUSE_END.", region=1),
    _row("CALL_HOST", 0x90, "dest:dest? host:host", "run H[host] in the frame; R[dest] := its value",
         "Run Python that is no tensor work, with full Python semantics. An expression block has a value. A statement block's is None, "
         "or, when a return, break or continue left it, the triple (value, is return, is break)."),
)  # fmt: skip

BY_NAME: dict[str, OpcodeRow] = {row.name: row for row in TABLE}
BY_CODE: dict[int, OpcodeRow] = {row.code: row for row in TABLE}

Opcode = IntEnum("Opcode", {row.name: row.code for row in TABLE})  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class ConstForm:
    """How `x OP scalar` and `scalar OP x` are written with one instruction."""

    forward: dict[str, str] = field(default_factory=dict)
    backward: dict[str, str] = field(default_factory=dict)


CONST_FORM = ConstForm(
    forward={row.const_op: row.name for row in TABLE if row.const_op and not row.reversed},
    backward={row.const_op: row.name for row in TABLE if row.const_op and row.reversed},
)
