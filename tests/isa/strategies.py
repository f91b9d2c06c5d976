"""Random valid Programs, and ways to break them; for the tests of the language and of what runs it.

`random_program(random)` draws from any `random.Random`; `programs()` is the same as a Hypothesis
strategy that shrinks. `mutants(seed, count)` yields damaged programs in all three forms.
"""

from __future__ import annotations

import random as random_module
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from bcvm_core.errors import AssembleError, DecodeError
from bcvm_core.isa import opcodes
from bcvm_core.isa.encoding import decode, encode
from bcvm_core.isa.hints import ANY, Aligned, ShapeHint
from bcvm_core.isa.program import Arg, HostBlock, HostSite, Instruction, Program, SourceLoc
from bcvm_core.isa.signature import LAYOUTS, MEMORY, OperandClass, Signature, SignatureTable
from bcvm_core.isa.text import assemble, disassemble


@dataclass(frozen=True)
class Op:
    """An op that random programs call: its name, number of operands, and names of attributes."""

    name: str
    arity: int
    attributes: tuple[str, ...] = ()


OPS = (
    Op("relu", 1),
    Op("sigmoid", 1),
    Op("add", 2),
    Op("multiply", 2),
    Op("matmul", 2),
    Op("sum", 1, ("axis", "keepdims")),
    Op("softmax", 1, ("axis",)),
    Op("where", 3),
)
NAMES = ("x", "y", "w", "bias", "état", "n_0")
DIMS = ("B", "C_in", "Height", "s0")
CONST_OPS = tuple(row.name for row in opcodes.TABLE if row.const_op)
SCALARS = (0, 1, True, False, -3, 2.0, 0.5, -0.0, float("inf"), float("nan"), 1e-30, 2 + 1j, 1 << 70)
CONSTS: tuple[Any, ...] = (
    *SCALARS,
    None,
    ...,
    'tex"t; with (marks)\n',
    "\ud800",
    b"\x00\xff",
    (),
    (1,),
    (1, (2.0, "a")),
    [1, [2]],
    {"axis": -1, 2: None},
    frozenset({1, "a"}),
    slice(None, 3, -1),
    np.float32(0.1),
    np.float16(1.5),
    ml_dtypes.bfloat16(3.0),
    np.complex64(1 - 2j),
    np.bool_(True),
    np.int8(-7),
    np.uint64(2**64 - 1),
    np.frombuffer(bytes.fromhex("010080ff"), np.float32)[0],
    np.dtype("float32"),
    np.dtype(ml_dtypes.bfloat16),
    float,
    bool,
    np.bool_,
    np.int32,
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.zeros((0, 4), np.int64),
    np.array(True),
    np.array([1.5, np.nan], ml_dtypes.bfloat16),
    np.asfortranarray(np.arange(4.0).reshape(2, 2)),
)
STATEMENTS = (
    "y = helper(x)",
    "with open(path) as f:\n    y = f.read()\n",
    "try:\n    y = x + 1\nexcept ValueError:\n\n    print('; no comment')\nfinally:\n    w = 2",
    "",
)
EXPRESSIONS = ("x.name", "[relu(v) for v in x]", "f(x,\n  y)")


class _Builder:
    """Makes one valid Program; registers in `ready` are set at the current place and hold no iterator."""

    def __init__(self, random: Random, ops: Sequence[Op], hosts: bool, table: SignatureTable) -> None:
        self.random, self.ops, self.with_hosts, self.table = random, ops, hosts, table
        self.params = tuple(random.sample(NAMES, random.randint(0, 3)))
        self.code: list[list[Any]] = []  # opcode, operands, place; a label is a one-element list that is filled in later
        self.consts: list[Any] = []
        self.hosts: list[HostBlock] = []
        self.nested: list[Program] = []
        self.hints: dict[str, ShapeHint] = {}  # one per variable: two may contradict
        self.ready: set[int] = set()
        self.count = 0
        self.line = random.randint(1, 50)

    # --- pieces

    def emit(self, opcode: str, *operands: Any) -> None:
        place = None
        if self.random.random() < 0.7:
            self.line += self.random.randint(0, 2)
            end = self.random.choice([(None, None), (self.line, 9), (self.line + 1, 0)])
            place = SourceLoc(self.line, self.random.randint(0, 20), *end)
        self.code.append([opcode, list(operands), place])

    def fresh(self) -> int:
        """A register to write: often a new one, sometimes one that is in use."""
        if self.ready and self.random.random() < 0.3:
            return self.random.choice(sorted(self.ready))
        self.count += 1
        return self.count - 1

    def hidden(self) -> int:
        """A register that nothing else writes (for iterators)."""
        self.count += 1
        return self.count - 1

    def some(self) -> int:
        if not self.ready:
            self.load()
        return self.random.choice(sorted(self.ready))

    def const(self, values: Sequence[Any]) -> int:
        self.consts.append(self.random.choice(values))
        return len(self.consts) - 1

    def hint(self) -> ShapeHint:
        if self.random.random() < 0.2:
            return ANY
        dims = [self.random.choice([1, 4, 64, None, Aligned(16), *DIMS]) for _ in range(self.random.randint(0, 4))]
        return ShapeHint(tuple(dims), self.random.random() < 0.2)

    def arguments(self, count: int) -> list[Arg]:
        return [Arg(True, self.const(CONSTS)) if self.random.random() < 0.2 else Arg(False, self.some()) for _ in range(count)]

    def write(self, opcode: str, *operands: Any) -> None:
        dest = self.fresh()
        self.emit(opcode, dest, *operands)
        self.ready.add(dest)

    # --- instructions

    def load(self) -> None:
        name = self.random.choice(self.params or NAMES)
        if self.random.random() < 0.5:
            self.write("LOAD_VAR", name)
        else:
            self.write("LOAD_TENSOR", name, self.hints.setdefault(name, self.hint()))

    def call(self) -> None:
        op = self.random.choice(self.ops)
        args = self.arguments(op.arity)
        args += [Arg(True, self.const((0, 1, -1, None, True)), name) for name in op.attributes if self.random.random() < 0.5]
        if self.random.random() < 0.1:
            args.append(Arg(False, self.some(), "out"))
        self.write("CALL_OP", op.name, self.signature(op), tuple(args))

    def signature(self, op: Op) -> int:
        if self.random.random() < 0.5:
            return 0
        dtypes = ("float32", "bfloat16", "int64", "pyfloat")
        operands = [
            OperandClass(self.random.choice(dtypes), self.random.choice(LAYOUTS), self.random.choice(MEMORY)) for _ in range(op.arity)
        ]
        return self.table.intern(Signature(op.name, tuple(operands)))

    def simple(self) -> None:
        """One instruction that may stand in a fusion region."""
        self.some()
        choice = self.random.randrange(6)
        if choice < 3:
            self.call()
        elif choice == 3:
            self.write(self.random.choice(CONST_OPS), self.some(), self.random.choice(SCALARS))
        elif choice == 4:
            self.write("MOVE", self.some())
        else:
            self.write("LOAD_CONST", self.const(CONSTS))

    def region(self) -> None:
        self.some()
        if self.random.random() < 0.2:
            self.emit("FUSE_ACROSS_DEVICE", self.random.randint(1, 5), ("cpu:0", "cuda:0")[: self.random.randint(1, 2)])
        else:
            self.emit("FUSE_START", self.random.randint(1, 5))
        for _ in range(self.random.randint(0, 3)):
            self.simple()
        self.emit("FUSE_END")

    def build(self) -> None:
        choice = self.random.randrange(4)
        if choice == 3:
            source = self.some()
            dests = tuple(self.hidden() for _ in range(self.random.randint(0, 3)))
            self.emit("UNPACK", dests, source)
            self.ready |= set(dests)
        else:
            opcode = ("BUILD_TUPLE", "BUILD_LIST", "BUILD_DICT")[choice]
            self.write(opcode, tuple(self.arguments(2 * self.random.randint(0, 2))))

    def other(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            self.emit("STORE_VAR", self.random.choice(NAMES), self.some())
        elif choice == 1:
            self.write("TO_DEVICE", self.some(), self.random.choice(["cpu:0", "cuda:1"]))
        elif choice == 2 and self.with_hosts:
            self.host()
        else:
            self.emit("NOP")

    def host(self) -> None:
        if self.random.random() < 0.5:
            source = self.random.choice(STATEMENTS)
            sites = self.site("run", (1, 0, 1, 13), ("y",)) if source.startswith("y =") else ()
            self.hosts.append(HostBlock("stmt", source, ("x",), ("y",), self.line, self.random.choice([0, 4]), sites))
            self.emit("CALL_HOST", None, len(self.hosts) - 1)
        else:
            source = self.random.choice(EXPRESSIONS)
            sites = self.site("value", (1, 1, 1, 8)) if source.startswith("[") else ()
            self.hosts.append(HostBlock("expr", source, ("x",), (), self.line, 8, sites))
            self.write("CALL_HOST", len(self.hosts) - 1)

    def site(self, form: str, span: tuple[int, int, int, int], targets: tuple[str, ...] = ()) -> tuple[HostSite, ...]:
        name = self.random.choice(["main.0", "<listcomp>", "part"])
        code = (
            Instruction("LOAD_TENSOR", (0, "v", ANY)),
            Instruction("CALL_OP", (1, "relu", 0, (Arg(False, 0),))),
            Instruction("RETURN", (1,)),
        )
        self.nested.append(Program(name, ("v",), code, kind="region", local_names=("v",)))
        return (HostSite(*span, form=form, program=len(self.nested) - 1, targets=targets),)

    # --- control flow

    @contextmanager
    def branch(self) -> Iterator[set[int]]:
        """Registers set inside are not counted on outside; gives the set that was ready before."""
        before = set(self.ready)
        yield before
        self.ready = before

    def choose(self, depth: int) -> None:
        otherwise: list[Any] = []
        self.emit("COND_JUMP", self.some(), otherwise)
        with self.branch():
            self.block(depth)
        if self.random.random() < 0.2:
            self.emit("RETURN", self.random.choice([None, *sorted(self.ready)]))
            otherwise.append(len(self.code))
        else:
            end: list[Any] = []
            self.emit("JUMP", end)
            otherwise.append(len(self.code))
            with self.branch():
                self.block(depth)
            end.append(len(self.code))

    def loop(self, depth: int) -> None:
        exit_: list[Any] = []
        iterator = None
        if self.random.random() < 0.5:
            source = self.some()
            iterator = self.hidden()
            self.emit("GET_ITER", iterator, source)
        else:
            self.some()
        head = len(self.code)
        with self.branch():
            if iterator is not None:
                item = self.random.choice([None, self.hidden()])
                self.emit("LOOP_START", item, iterator, exit_)
                self.ready |= set() if item is None else {item}
            else:
                self.emit("LOOP_START", None, None, exit_)
                self.emit("COND_JUMP", self.some(), exit_)
            self.block(depth)
            if self.random.random() < 0.3:
                self.emit("COND_JUMP", self.some(), self.random.choice([exit_, [head]]))
            self.emit("LOOP_END", [head])
        exit_.append(len(self.code))

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(0, 4)):
            choice = self.random.randrange(12)
            if choice < 5:
                self.simple()
            elif choice < 9:
                (self.load, self.region, self.build, self.other)[choice - 5]()
            elif depth:
                (self.choose if choice == 9 else self.loop)(depth - 1)

    def program(self) -> Program:
        self.block(2)
        self.emit("RETURN", self.some() if self.random.random() < 0.8 else None)
        instructions = tuple(
            Instruction(opcode, tuple(value[0] if isinstance(value, list) else value for value in operands), place)
            for opcode, operands, place in self.code
        )
        return Program(
            name=self.random.choice(["main", "Net.forward", "<lambda>", "f.0"]),
            params=self.params,
            instructions=instructions,
            kind=self.random.choice(["function", "cell"]),
            dims=DIMS,
            consts=tuple(self.consts),
            hosts=tuple(self.hosts),
            nested=tuple(self.nested),
            local_names=tuple(self.random.sample(NAMES, 2)),
            filename=self.random.choice(["<bcvm>", 'a "file"; (1).py']),
            first_line=self.random.choice([1, 40]),
        )


def random_program(random: Random, *, ops: Sequence[Op] = OPS, hosts: bool = True, table: SignatureTable | None = None) -> Program:
    """A valid Program of up to some dozens of instructions. `table`: where its signatures are interned (the process's if None)."""
    from bcvm_core.isa import signature

    return _Builder(random, ops, hosts, signature.table if table is None else table).program()


def programs(*, ops: Sequence[Op] = OPS, hosts: bool = True) -> st.SearchStrategy[Program]:
    """Valid Programs as a Hypothesis strategy."""
    return st.randoms(use_true_random=False).map(lambda random: random_program(random, ops=ops, hosts=hosts))


# --- mutations


@dataclass(frozen=True)
class Mutant:
    """A damaged program: either the program that still came out, or the error that refused its written form."""

    how: str
    program: Program | None = None
    error: AssembleError | DecodeError | None = None


def mutate_binary(random: Random, data: bytes) -> bytes:
    """Change, insert, remove or repeat some bytes; usually with a right checksum, so that damage gets past it."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(9, len(changed)) if random.random() < 0.95 else random.randrange(len(changed))
        choice = random.randrange(5)
        if choice == 0:
            changed[at] ^= 1 << random.randrange(8)
        elif choice == 1:
            changed[at] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        elif choice == 2:
            del changed[at : at + random.randint(1, 4)]
        elif choice == 3:
            changed[at:at] = random.randbytes(random.randint(1, 4))
        else:
            changed[at:at] = changed[at : at + random.randint(1, 12)]
        if len(changed) <= 10:
            break
    if random.random() < 0.9:
        changed[5:9] = zlib.crc32(changed[9:]).to_bytes(4, "little")
    return bytes(changed)


_WORDS = tuple(
    "r0 r1 r99 r70000 k0 k9 h0 L1 L2 L9 0x0001 0xFFFF policy_001 policy_x cpu:0 [B,*] [B] [...] [ ] ( ) , ; : = . _".split()
    + [
        "2.0",
        "1e999",
        "nan",
        "True",
        "label L1:",
        ".program main()",
        ".const k0 = (1,",
        ".dims B",
        '"',
        "\\",
        "\n",
        "    ",
        "\x00",
        "9" * 5000,
        "(" * 200,
        "-",
        "é",
    ]
) + tuple(opcodes.BY_NAME)


def mutate_text(random: Random, text: str) -> str:
    """Replace, remove, repeat or swap tokens and lines."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        choice = random.randrange(6)
        tokens = lines[at].split(" ")
        spot = random.randrange(len(tokens))
        if choice == 0:
            tokens[spot] = random.choice(_WORDS)
        elif choice == 1:
            del tokens[spot]
        elif choice == 2:
            tokens.insert(spot, random.choice(_WORDS))
        elif choice == 3:
            lines.insert(random.randrange(len(lines)), lines[at])
            continue
        elif choice == 4 and tokens[spot]:
            letter = random.randrange(len(tokens[spot]))
            tokens[spot] = tokens[spot][:letter] + random.choice("0123456789,[]()rkL:;\"'=x") + tokens[spot][letter + 1 :]
        else:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            continue
        lines[at] = " ".join(tokens)
    return "\n".join(lines)


_ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    3,
    99,
    1 << 40,
    True,
    1.5,
    "x",
    "",
    "a b",
    (),
    (1, 2),
    ("x",),
    ShapeHint((-1,)),
    ShapeHint(("Q",)),
    Arg(True, 0),
    [],
    object,
)


def mutate_program(random: Random, program: Program) -> Program:
    """Damage a Program object: operands, order of instructions, tables."""
    code = list(program.instructions)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(code))
        choice = random.randrange(8)
        if choice == 0:
            del code[at]
            if not code:
                break
        elif choice == 1:
            code.insert(at, random.choice(code))
        elif choice == 2:
            other = random.randrange(len(code))
            code[at], code[other] = code[other], code[at]
        elif choice == 3:
            code[at] = replace(code[at], opcode=random.choice([*opcodes.BY_NAME, "HALT"]))
        elif choice == 4:
            program = _mutate_table(random, program)
        elif code[at].operands:
            operands = list(code[at].operands)
            spot = random.randrange(len(operands))
            operands[spot] = _odd_operand(random, operands[spot], len(code))
            code[at] = replace(code[at], operands=tuple(operands))
    return replace(program, instructions=tuple(code))


def _odd_operand(random: Random, value: Any, size: int) -> Any:
    if random.random() < 0.3:
        return random.choice(_ODD)
    if isinstance(value, int) and not isinstance(value, bool):
        return random.choice([value + 1, value - 1, random.randrange(size + 1), random.randrange(8)])
    if isinstance(value, tuple) and value:
        return random.choice([value[1:], value[::-1], (*value, value[0]), (*value, Arg(False, random.randrange(12)))])
    return random.choice(_ODD)


def _mutate_table(random: Random, program: Program) -> Program:
    choice = random.randrange(8)
    if choice == 0:
        return replace(program, consts=program.consts[:-1])
    if choice == 1:
        return replace(program, consts=(*program.consts[1:], random.choice([object(), {1}, np.array([None]), np.array("a")])))
    if choice == 2:
        return replace(program, dims=random.choice([(), ("B", "B"), ("a b",), None]))
    if choice == 3:
        return replace(program, params=random.choice([("x", "x"), ("1",), ["x"]]))
    if choice == 4:
        return replace(program, kind=random.choice(["region", "module", 3]))
    if choice == 5:
        return replace(program, nested=program.nested[:-1])
    if choice == 6 and program.hosts:
        block = random.choice(program.hosts)
        source = random.choice(["x =", "a\0b", "(" * 300, "-" * 50_000 + "1", "y = 1", block.source[:-1]])
        return replace(program, hosts=(*program.hosts[1:], replace(block, source=source)))
    return replace(program, hosts=program.hosts[1:])


def mutants(seed: int, count: int, *, ops: Sequence[Op] = OPS, hosts: bool = True) -> Iterator[Mutant]:
    """`count` damaged programs in turn from the binary form, the text form and Program objects.

    Signatures live in tables of their own, so that damaged rows don't fill the process's: verify and
    write a mutant with `signatures=mutant.program.notes["signatures"]`, and run it with signature 0.
    """
    random = random_module.Random(seed)
    for number in range(count):
        if number % 24 == 0:
            table = SignatureTable()
            original = random_program(random, ops=ops, hosts=hosts, table=table)
            data, text = encode(original, signatures=table), disassemble(original, signatures=table)
        how = ("binary", "text", "program")[number % 3]
        scratch = SignatureTable()
        for row in range(1, len(table) + 1):
            scratch.intern(table.row(row))
        try:
            if how == "binary":
                program = decode(mutate_binary(random, data), signatures=scratch)
            elif how == "text":
                program = assemble(mutate_text(random, text), signatures=scratch)
            else:
                program = mutate_program(random, original)
        except (AssembleError, DecodeError) as error:
            yield Mutant(how, error=error)
        else:
            yield Mutant(how, replace(program, notes={"signatures": scratch}))
