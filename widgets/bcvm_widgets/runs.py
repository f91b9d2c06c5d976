"""A dashboard's run on paper: what its views were sent, and when, as a file that can be shown again.

A run file has a JSON object on each line, with sorted keys: first what it is (`format`, `version`, the `protocol` of its messages), then
frames (`at_ms`, and those messages that have changed since the frame before), last the number of frames. Times are those of the run, with
pauses in which nothing changed cut to a second; no date, no name of a machine. The same run gives the same bytes. A file takes at most
`MAX_BYTES`: of a longer run every other frame is left out, as often as needed (first those of dots and splits, where they take most of
it), and what is left still covers all of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from bcvm_core.errors import BcvmError

from . import protocol
from .checking import MisfitError, check
from .sampling import Sample

FORMAT: Final = "bcvm run"
VERSION: Final = 1
MAX_BYTES: Final = 4_000_000
MAX_FILE_BYTES: Final = 64_000_000
INTERVAL_MS: Final = 250.0
_LONGEST_PAUSE_MS: Final = 1000.0
KINDS: Final[dict[str, Any]] = {**get_type_hints(Sample), "status": protocol.Status}  # what a frame may hold
_LARGE: Final = tuple(name for name in KINDS if name not in ("listing", "choices", "figures", "status"))
_LARGE_INTERVAL_MS: Final = 1000.0


class RunError(BcvmError):
    """A file is no recorded run that this version can read, or can't be read or written."""


@dataclass
class Frame:
    """What had changed by `at_ms`: messages as JSON, by name."""

    at_ms: float
    parts: dict[str, str]

    @property
    def size(self) -> int:
        """Characters of its line, about."""
        return sum(map(len, self.parts.values())) + 20

    def line(self) -> str:
        """As it stands in the file."""
        parts = "".join(f',"{name}":{self.parts[name]}' for name in sorted(self.parts))
        return f'{{"at_ms":{self.at_ms:g}{parts}}}'


@dataclass
class Run:
    """Frames in the order of time; the first holds every message."""

    frames: list[Frame] = field(default_factory=list)
    max_bytes: int = MAX_BYTES
    interval_ms: float = INTERVAL_MS
    large_interval_ms: float = _LARGE_INTERVAL_MS
    _latest: dict[str, Any] = field(default_factory=dict)
    _noted_ms: dict[str, float] = field(default_factory=dict)
    _last_ms: float = 0.0  # by the clock of the caller
    _size: int = 0

    def note(self, now_ms: float, messages: Mapping[str, Any], *, at_once: bool = False) -> None:
        """Take down what has changed. Unless `at_once`, not more often than every `interval_ms`; large messages once a second."""
        passed = now_ms - self._last_ms
        if self.frames and not at_once and passed < self.interval_ms:
            return
        changed = {name: value for name, value in messages.items() if name in KINDS and value != self._latest.get(name)}
        if not at_once:
            changed = {name: value for name, value in changed.items() if name not in _LARGE or self._due(name, now_ms)}
        if not changed:
            return
        at_ms = self.frames[-1].at_ms + min(max(passed, 0.0), max(_LONGEST_PAUSE_MS, self.interval_ms)) if self.frames else 0.0
        self._latest.update(changed)
        self._noted_ms.update(dict.fromkeys(changed, now_ms))
        self._last_ms = now_ms
        self._add(Frame(round(at_ms), {name: _written(value) for name, value in changed.items()}))

    def _due(self, name: str, now_ms: float) -> bool:
        return name not in self._noted_ms or now_ms - self._noted_ms[name] >= self.large_interval_ms

    def _add(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._size += frame.size
        while self._size > self.max_bytes and len(self.frames) > 2:
            self._thin()

    def _thin(self) -> None:
        """Leave out what a reader misses least."""
        large = sum(len(text) for frame in self.frames for name, text in frame.parts.items() if name in _LARGE)
        if 2 * large <= self._size or not self._thin_large():
            self._thin_frames()
        self._size = sum(frame.size for frame in self.frames)

    def _thin_large(self) -> bool:
        """Every other of the large messages goes, but for the first and the last of each kind; whether there were any to go."""
        holders = {name: [frame for frame in self.frames if name in frame.parts] for name in _LARGE}
        going = [(name, frame) for name, frames in holders.items() for frame in frames[1:-1:2]]
        for name, frame in going:
            del frame.parts[name]
        self.frames = [frame for frame in self.frames if frame.parts]
        self.large_interval_ms *= 2
        return bool(going)

    def _thin_frames(self) -> None:
        """Each second frame goes into the one behind it; the first and the last stay."""
        first, *rest = self.frames
        kept = [first]
        start = len(rest) % 2
        kept += rest[:start]
        for earlier, later in zip(rest[start::2], rest[start + 1 :: 2], strict=True):
            kept.append(Frame(later.at_ms, {**earlier.parts, **later.parts}))
        self.frames, self.interval_ms = kept, 2 * self.interval_ms

    # -- reading it ---------------------------------------------------------------------------------

    @property
    def length_ms(self) -> float:
        """How long it takes."""
        return self.frames[-1].at_ms if self.frames else 0.0

    def state(self, position: int = -1) -> dict[str, Any]:
        """The messages as they stood at a frame."""
        texts: dict[str, str] = {}
        for frame in self.frames[: position + 1 or None]:
            texts.update(frame.parts)
        return {name: json.loads(text) for name, text in texts.items()}

    def sample(self, position: int = -1) -> Sample:
        """The same as a Sample, for reports."""
        state = self.state(position)
        return Sample(**{f.name: state[f.name] for f in fields(Sample) if f.name in state})

    def frames_json(self) -> str:
        """All frames as one JSON array, for a view."""
        return f"[{','.join(frame.line() for frame in self.frames)}]"

    def text(self) -> str:
        """The whole file."""
        head = _written({"format": FORMAT, "version": VERSION, "protocol": protocol.VERSION})
        return "\n".join([head, *(frame.line() for frame in self.frames), _written({"frames": len(self.frames)}), ""])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file. Raises RunError."""
        try:
            Path(path).write_text(self.text(), encoding="ascii")
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}", fix="choose a folder that exists and can be written to") from None


def of_sample(sample: Sample) -> Run:
    """A run of one frame."""
    run = Run()
    run.note(0.0, {**{f.name: getattr(sample, f.name) for f in fields(sample)}, "status": protocol.idle_status()}, at_once=True)
    return run


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# -- files --------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> Run:
    """The run in a file. Raises RunError for files that can't be read, are damaged, or of another version."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise RunError(f"{path} is no recorded run: it has more than {MAX_FILE_BYTES:,} bytes", fix=_HOW)
    lines = data.decode("utf-8", errors="replace").splitlines()
    head = _object(lines[0]) if lines else None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise RunError(f"{path} is no recorded run", fix=_HOW)
    for name, ours in (("version", VERSION), ("protocol", protocol.VERSION)):
        if head.get(name) != ours:
            fix = "read it with the version of BCVM that wrote it"
            raise RunError(f"{path} is a run of {name} {head.get(name)!r:.20}, this version of BCVM reads {ours}", fix=fix)
    return _checked(str(path), lines[1:])


_HOW = 'record one: with bcvm_widgets.recording("run.json"): ..., or board.save("run.json")'


def _object(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _checked(path: str, lines: list[str]) -> Run:
    run, state, number = Run(), {}, 1
    try:
        *body, end = lines or [""]
        for line in body:
            number += 1
            frame = _object(line)
            at_ms = _check_frame(frame, run.length_ms)
            state.update(frame)
            _check_together(state)
            run.frames.append(Frame(at_ms, {name: _written(frame[name]) for name in frame if name in KINDS}))
        if not run.frames or _object(end) != {"frames": len(run.frames)}:
            raise MisfitError("its end is missing")
        _check_telling(run)
    except (MisfitError, ValueError) as error:
        raise RunError(f"{path} is a damaged run (line {number}: {error})", fix=_HOW) from None
    return run


def _check_telling(run: Run) -> None:
    """Its end can be told: positions that nothing above has looked at lead somewhere."""
    from .reports import Report

    try:
        Report(run.sample(), times=True).html()
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise MisfitError("its messages do not fit together") from None


def _check_frame(frame: Any, after_ms: float) -> float:
    if not isinstance(frame, dict):
        raise MisfitError("no JSON object")
    at_ms: Any = frame.get("at_ms")
    if type(at_ms) not in (int, float) or not after_ms <= at_ms <= 1e9:
        raise MisfitError("its time is wrong")
    for name in frame.keys() & KINDS.keys():
        check(frame[name], KINDS[name], name)
        if frame[name]["version"] != protocol.VERSION:
            raise MisfitError(f"{name} is of another version")
    return float(at_ms)


def _check_together(state: dict[str, Any]) -> None:
    """Messages point into each other by position: nowhere but where there is something."""
    if any(name not in state for name in ("listing", "choices", "figures", "status")):
        raise MisfitError("it lacks a message")
    for unit in state["listing"]["units"]:
        lengths = {"instructions": len(unit["instructions"]), "lines": len(unit["lines"])}
        for message in (state["choices"], state["figures"]):
            if message["generation"] != state["listing"]["generation"]:
                continue
            found = message["units"].get(unit["key"])
            if found is None:
                raise MisfitError(f"{unit['key']!r:.40} is not everywhere")
            for part, length in lengths.items():
                _check_columns(found[part], length, f"{part} of {unit['key']!r:.40}")
    _check_dots(state.get("latencies"))


def _check_columns(found: Any, length: int, what: str) -> None:
    columns = [found] if isinstance(found, list) else list(found.values())
    if any(len(column) != length for column in columns):
        raise MisfitError(f"{what}: not as many as there are")
    firsts = [choice["first"] for choice in found] if isinstance(found, list) else []
    if any(first is not None and not 0 <= first < length for first in firsts):
        raise MisfitError(f"{what}: a kernel begins nowhere")


def _check_dots(message: Any) -> None:
    if message is None:
        return
    dots = message["dots"]
    if len({len(column) for column in dots.values()}) != 1:
        raise MisfitError("columns of dots differ in length")
    for column, target in (("series", "series"), ("text", "texts")):
        if any(not 0 <= n < len(message[target]) for n in dots[column]):
            raise MisfitError(f"a dot has no {column}")
    if any(len(text) != 3 for text in message["texts"]):
        raise MisfitError("a dot's text has the wrong number of parts")
