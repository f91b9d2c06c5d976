"""The messages between a dashboard in the kernel and its views in the browser: typed, and versioned.

The kernel sends nine kinds, each as the value of a synchronised trait of the same name, so that a view that opens late, or from a saved
notebook, starts with the latest of each; those that changed within one tick travel together:

`listing`   what there is to see: source lines and instructions. Changes when another cell runs or a function joins.
`choices`   which tier and kernel runs each instruction and line. Changes when something runs for the first time.
`figures`   how often and how long. Changes while a cell runs, at most `MAX_RATE_HZ` times a second.
`latencies` dispatches and compiles as dots in time. Changes while something is dispatched, at most half as often.
`fusion`    how regions were cut into kernels. Changes when something was decided or measured, at most once a second.
`cache`     what the code cache holds, lets go and has been asked for (`cache_messages`). Changes at most half as often as `figures`.
`code`      the machine code that was asked for last. Changes when a view asks.
`diff`      two versions side by side, those that were asked for last. Changes when a view asks.
`status`    whether a cell runs, whether updates are paused.

`choices` and `figures` belong to the `listing` of the same `generation`; a view drops those of another. Positions are implicit: the nth
entry belongs to the nth instruction, or to the nth line, of the unit.

A view sends `Command`s and `CacheCommand`s as custom messages; to the latter the kernel answers by a `CacheAnswer`. Each side checks
`version` first: a view shows a notice instead of messages it can't read, the kernel ignores such commands. Within a version fields may
be added, and both sides ignore fields they don't know; a change of meaning is a new version.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, TypeGuard, get_args

from .cache_messages import Cache, CacheAnswer, CacheCommand, CacheEviction, CacheMemory, CacheRow, CacheTry, CacheWhatIf  # noqa: F401

VERSION = 1
MAX_RATE_HZ = 10

Role = Literal["op", "host", "flow"]
Tier = Literal[
    "",  # does not compute: moves values, jumps
    "waiting",  # would run a kernel, has not run yet
    "selected",  # tier 1: a ready kernel, chosen by signature and shape
    "fused",  # tier 2: part of a fused kernel
    "recompiled",  # tier 3: part of a kernel that was recompiled because it was hot
    "host",  # Python
    "mixed",  # of lines only: part by kernels, part by Python
]


class Instruction(TypedDict):
    """One instruction. `part` is "" in the unit's own program, "0", "0.1", ... in one nested in host code."""

    part: str
    pc: int
    opcode: str
    op: str  # of the op table, or ""
    operands: str  # as a listing shows them, without the signature, short constants in place
    label: str  # of the label before it, or ""
    notes: list[str]  # what long constants stand for: "k0 = ..."
    span: list[int] | None  # line, column, end line, end column: 1-based lines of the unit's file, 0-based columns
    role: Role


class Unit(TypedDict):
    """A cell or a function. `lines` are its source lines, the first of them line `first_line` of its file."""

    key: str
    kind: Literal["cell", "function"]
    title: str
    first_line: int
    lines: list[str]
    instructions: list[Instruction]


class Listing(TypedDict):
    """What there is to see."""

    version: int
    generation: int
    units: list[Unit]
    glossary: dict[str, str]  # what the opcodes, ops and policies of the units mean


class Choice(TypedDict):
    """Who runs an instruction or a line. `signature` reads "0x0007 = tanh(float32:contiguous:host)", or is empty."""

    tier: Tier
    kernels: list[str]
    signature: str
    reason: str  # why it was last left to Python, or ""
    first: int | None  # part of a fused kernel whose time stands at this position, among instructions or lines; None: it has its own


class UnitChoices(TypedDict):
    """The choices of one unit."""

    instructions: list[Choice]
    lines: list[Choice]


class Choices(TypedDict):
    """Which tier and kernel runs what, by the key of the unit."""

    version: int
    generation: int
    units: dict[str, UnitChoices]


class Columns(TypedDict):
    """Figures of the instructions, or lines, of a unit; None where there is nothing to count. `timed` runs took `total_us`."""

    runs: list[int | None]
    timed: list[int | None]
    total_us: list[float | None]
    last_us: list[float | None]


class UnitFigures(TypedDict):
    """The figures of one unit."""

    instructions: Columns
    lines: Columns


class Figures(TypedDict):
    """How often and how long. `call_op` and `call_host` count executions of ops by the VM and by Python in the whole cell."""

    version: int
    generation: int
    call_op: int
    call_host: int
    kernels_us: float
    units: dict[str, UnitFigures]


DotKind = Literal["lowered", "bound", "selected", "fused", "recompiled", "python"]


class SeriesFigures(TypedDict):
    """All dots of one kind, cold or warm. Durations are None where there are none, budgets where there is none."""

    kind: DotKind
    warm: bool
    count: int
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None
    worst_us: float | None
    budget_mean_us: float | None
    budget_p99_us: float | None


class Dots(TypedDict):
    """The dots that are kept, in columns, in the order of `series`, by time within one. `at_ms`: since the dashboard was opened."""

    series: list[int]  # position in `series`
    at_ms: list[float]
    us: list[float | None]
    text: list[int]  # position in `texts`


class Latencies(TypedDict):
    """How long dispatches and compiles took. `texts`: call, shapes, reason. `lost` events of a flood are counted and no dots."""

    version: int
    lost: int
    series: list[SeriesFigures]
    dots: Dots
    texts: list[list[str]]


class Node(TypedDict):
    """One op of a region. `reads`: positions of the nodes it reads; `kernel`: the position of its kernel, None: it runs by itself."""

    op: str
    kind: str
    reads: list[int]
    kernel: int | None


class Part(TypedDict):
    """Ops of a kernel (positions within it) as one call. `bound`: what decides its time: "call", "compute" or "traffic"."""

    ops: list[int]
    threads: int
    blocks: int
    operations: float
    nbytes: float
    predicted_us: float
    level: str
    bound: str


class Candidate(TypedDict):
    """One way to run a kernel's ops. `reason`: why it was not chosen, "" for the one that was."""

    name: str
    predicted_us: float
    reason: str
    parts: list[Part]


class Decision(TypedDict):
    """The choice for operands of such shapes; `mismatch`: why there is none. The best of `calls` timed calls took `measured_us`."""

    operands: str
    source: str
    mismatch: str
    candidates: list[Candidate]
    calls: int
    measured_us: float | None


class Kernel(TypedDict):
    """`patterns`: in words, what became of each pattern of operands."""

    nodes: list[int]
    patterns: list[str]
    decisions: list[Decision]


class Region(TypedDict):
    """A region as it was cut. `reason`: why it was last left to Python, or ""."""

    where: str
    runs: int
    nodes: list[Node]
    kernels: list[Kernel]
    reason: str


class Rate(TypedDict):
    """GFLOP/s of a kind of work, or GB/s of a level of memory: of one core, and of all."""

    name: str
    one: float
    every: float


class Roof(TypedDict):
    """The machine model that kernels are cut by, for float32."""

    source: str
    cpu: str
    cores: int
    compute: list[Rate]
    memory: list[Rate]


class Fusion(TypedDict):
    """How regions were cut. `left_out` more regions are not shown."""

    version: int
    left_out: int
    regions: list[Region]
    roof: Roof | None


class CodeLine(TypedDict):
    """An instruction of the machine. `code`: its bytes, patched ones in brackets; `notes`: what was filled in."""

    at: int
    code: str
    text: str
    notes: list[str]


class CodeBlock(TypedDict):
    """A stencil. `part`: "frame", "loop", "tail" or "whole"; `instruction`: its position in the unit, None: it belongs to none."""

    name: str
    part: str
    what: str
    instruction: int | None
    lines: list[CodeLine]


class Code(TypedDict):
    """Machine code of a unit: the kernels there are, and the blocks of the chosen one. `left_out` more lines are not shown.

    `obstacle`: why there are bytes and no instructions, or "".
    """

    version: int
    generation: int
    unit: str
    kernels: list[str]
    chosen: int
    size: int
    blocks: list[CodeBlock]
    left_out: int
    obstacle: str


class DiffPart(TypedDict):
    """A part of an instruction, and whether the other side has another there."""

    text: str
    changed: bool


class DiffRow(TypedDict):
    """A pair of instructions. `mark`: "=" the same, "~" other operands, "-" only left, "+" only right; a side may be empty."""

    mark: Literal["=", "~", "-", "+"]
    left_number: str
    left: list[DiffPart]
    right_number: str
    right: list[DiffPart]


class Diff(TypedDict):
    """Two of the `versions`, by name, side by side. `left_out` more rows are not shown; `summary`: of all of them."""

    version: int
    versions: list[str]
    left: str
    right: str
    rows: list[DiffRow]
    left_out: int
    summary: str


class Status(TypedDict):
    """`cell`: the number of the cell that runs, 0 when none does. `elapsed_us`: how long it has run, or the cell shown ran. `said`: what
    became of the latest command, or "".
    """

    version: int
    running: bool
    cell: int
    paused: bool
    elapsed_us: float
    said: str


CommandName = Literal[
    "shown",  # a view was opened: measure, and send
    "hidden",  # a view was closed
    "pause",  # keep the picture as it is; the cell runs on
    "resume",  # go on sending
    "stop",  # interrupt the cell, if it is still the one that the view means
    "save",  # write the run so far to a file beside the notebook
]


class Command(TypedDict):
    """From a view to the kernel."""

    version: int
    command: CommandName
    view: str  # which one sends it
    cell: int  # the cell that it shows as running, 0 for none


def is_command(content: Any) -> TypeGuard[Command]:
    """Whether a custom message is a command that this version understands."""
    if not isinstance(content, dict) or content.get("version") != VERSION or not isinstance(content.get("view"), str):
        return False
    if type(content.get("cell")) is not int:
        return False
    return content.get("command") in get_args(CommandName)


class Request(TypedDict):
    """From a view: show the machine code of a kernel of a unit, or (`kernel` -1) of the kernel that does an instruction, or any (-1)."""

    version: int
    command: Literal["code"]
    view: str
    unit: str
    kernel: int
    instruction: int


def is_request(content: Any) -> TypeGuard[Request]:
    """Whether a custom message asks for machine code in a way that this version understands."""
    if not isinstance(content, dict) or content.get("version") != VERSION or content.get("command") != "code":
        return False
    texts, numbers = ("view", "unit"), ("kernel", "instruction")
    return all(isinstance(content.get(k), str) for k in texts) and all(type(content.get(k)) is int for k in numbers)


class Comparison(TypedDict):
    """From a view: show two versions side by side; names that are not there stand for the latest of `unit` and the one before."""

    version: int
    command: Literal["compare"]
    view: str
    unit: str
    left: str
    right: str


def is_comparison(content: Any) -> TypeGuard[Comparison]:
    """Whether a custom message asks for two versions in a way that this version understands."""
    if not isinstance(content, dict) or content.get("version") != VERSION or content.get("command") != "compare":
        return False
    return all(isinstance(content.get(name), str) for name in ("view", "unit", "left", "right"))


def empty_listing() -> Listing:
    """Nothing has run yet."""
    return {"version": VERSION, "generation": 0, "units": [], "glossary": {}}


def empty_choices() -> Choices:
    """See `empty_listing`."""
    return {"version": VERSION, "generation": 0, "units": {}}


def empty_figures() -> Figures:
    """See `empty_listing`."""
    return {"version": VERSION, "generation": 0, "call_op": 0, "call_host": 0, "kernels_us": 0.0, "units": {}}


def empty_latencies() -> Latencies:
    """See `empty_listing`."""
    return {"version": VERSION, "lost": 0, "series": [], "dots": {"series": [], "at_ms": [], "us": [], "text": []}, "texts": []}


def empty_fusion() -> Fusion:
    """See `empty_listing`."""
    return {"version": VERSION, "left_out": 0, "regions": [], "roof": None}


def empty_code() -> Code:
    """Nothing was asked for."""
    return {
        "version": VERSION,
        "generation": 0,
        "unit": "",
        "kernels": [],
        "chosen": 0,
        "size": 0,
        "blocks": [],
        "left_out": 0,
        "obstacle": "",
    }


def empty_diff() -> Diff:
    """Nothing was asked for."""
    return {"version": VERSION, "versions": [], "left": "", "right": "", "rows": [], "left_out": 0, "summary": ""}


def idle_status() -> Status:
    """No cell runs."""
    return {"version": VERSION, "running": False, "cell": 0, "paused": False, "elapsed_us": 0.0, "said": ""}
