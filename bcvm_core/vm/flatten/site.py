"""Calls of one object under flattening: the paths found so far, and when to give up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ... import fpstatus
from ...errors import Decline
from ...fusion.epilogues import Epilogue
from ...fusion.segments import Segment
from ...isa.hints import ANY
from ...ops import registry
from ...tiers.chains import ChainSite
from ...tiers.fuse import FusedSite
from ..observed import Observed
from ..site import idle
from ..stats import Stats
from ..trust import check
from .calls import Flattener, signature_of
from .objects import Library
from .program import DivergedError, FlatProgram
from .reads import Reads
from .recorder import Recorder
from .values import Known, Method, UnflattenableError, Value, actual_of

MISS: Any = type("Miss", (), {"__repr__": lambda self: "<left to Python>"})()
"""What a call gives when Python must do it."""

_MAX_PATHS = 8  # per combination of operand types
_MAX_KEYS = 64  # combinations of operand types
_MAX_ITEMS, _MAX_DEPTH = 256, 8  # of operands in containers
_CONTAINERS = frozenset({tuple, list, dict})
_MAX_STALE = 32  # times that something read has changed
_PATIENCE = (0, 1, 3, 7, 31)  # calls left to Python after each failure; after the last one, all


class Paths:
    """The paths for one combination of operand types."""

    __slots__ = ("programs", "failures", "pause", "reason")

    def __init__(self) -> None:
        self.programs: list[FlatProgram] = []
        self.failures = 0
        self.pause = 0
        self.reason = ""

    def failed(self, reason: str) -> None:
        self.reason = reason
        self.pause = _PATIENCE[self.failures] if self.failures < len(_PATIENCE) else -1
        self.failures += 1

    def prefer(self, program: FlatProgram) -> None:
        """Try this program first next time."""
        if self.programs and program is not self.programs[0]:
            with contextlib.suppress(ValueError):  # another thread has dropped it
                self.programs.remove(program)
                self.programs.insert(0, program)

    def rests(self) -> bool:
        """Whether flattening has failed lately and is not tried now."""
        if self.pause > 0:
            self.pause -= 1
            return True
        return self.pause < 0


class FlatSite:
    """Runs calls of one object as flat programs. `target` is the object; `stats` counts what ran."""

    def __init__(self, target: Any, library: Library, stats: Stats, name: str) -> None:
        self.library = library
        self.stats = stats
        self.name = name
        self.paths: dict[Any, Paths] = {}
        self.stale = 0
        self.observed = Observed()
        self.last_reason = ""

    def __call__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of `target(*args, **kwargs)`, or MISS."""
        if idle():
            return MISS
        operands = (*args, *kwargs.values()) if kwargs else args
        originals: dict[int, Any] = {}
        try:
            key = _key_of(operands, kwargs)
            taken = self.library.take(operands, originals)
        except (Decline, RecursionError) as error:
            return self._miss(str(error))
        paths = self.paths.get(key)
        if paths is None:
            paths = self._new_paths(key)
        if not paths.programs:
            return self._flatten(target, paths, args, kwargs)
        for program in tuple(paths.programs):
            if not program.reads.hold(target):
                self._forget(paths, program)
                continue
            try:
                with fpstatus.recording() as record, self.library.running():
                    result = program.run(taken)
                result = self.library.give(result, {**program.containers, **originals} if originals else program.containers)
            except DivergedError:
                continue
            except Decline as error:
                return self._miss(str(error))
            except Exception as error:  # the op's own error: Python repeats the call and raises it in the user's frame
                self.stats.count_replay(program.ops, type(error).__name__)
                self.last_reason = f"{type(error).__name__}: {error}"
                return MISS
            if record.kinds:
                return self._miss("a floating-point event that Python reports itself")
            program.runs += 1
            self.stats.count_op(program.ops)
            paths.prefer(program)
            return result
        return self._flatten(target, paths, args, kwargs)

    def _new_paths(self, key: Any) -> Paths:
        """The paths for operands of types that are new here."""
        if len(self.paths) >= _MAX_KEYS:
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
                del self.paths[next(iter(self.paths))]
            self.stale += 1
        return self.paths.setdefault(key, Paths())

    def _miss(self, reason: str) -> Any:
        self.last_reason = reason
        self.stats.count_host((), reason)
        return MISS

    def _forget(self, paths: Paths, program: FlatProgram) -> None:
        """Something that the program took for granted has changed."""
        with contextlib.suppress(ValueError):  # another thread was faster
            paths.programs.remove(program)
        self.stale += 1

    # -- flattening ---------------------------------------------------------------------------------

    def _flatten(self, target: Any, paths: Paths, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if paths.rests():
            return MISS
        if len(paths.programs) >= _MAX_PATHS:
            del paths.programs[_MAX_PATHS - 1 :]  # those that ran longest ago
            self.stale += 1
        if self.stale >= _MAX_STALE:
            paths.failures = len(_PATIENCE)
            paths.failed("what the call depends on changes all the time")
            return MISS
        try:
            with fpstatus.recording() as record, self.library.running():
                originals: dict[int, Any] = {}
                program, result = self._record(target, args, kwargs, originals)
            result = self.library.give(result, {**program.containers, **originals})
        except Decline as error:
            return self._give_up(paths, str(error))
        except RecursionError:
            return self._give_up(paths, "calls are nested too deeply")
        except Exception as error:  # the user's error, or a fault of ours: Python repeats the call
            return self._give_up(paths, f"{type(error).__name__}: {error}")
        if record.kinds:
            return self._give_up(paths, "a floating-point event that Python reports itself")
        paths.programs.insert(0, program)
        paths.failures = 0
        self.stats.count_bound()
        self.stats.count_op(program.ops)
        program.runs += 1
        return result

    def _give_up(self, paths: Paths, reason: str) -> Any:
        paths.failed(reason)
        self.last_reason = reason
        return MISS

    def _record(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], originals: dict[int, Any]) -> tuple[FlatProgram, Any]:
        recorder = Recorder(self.library.personality, Reads(target))
        flattener = Flattener(self.library, recorder)
        entry = flattener.attribute(Known(target, "self"), self.library.entry(target, recorder.reads), _NOWHERE)
        names = _parameter_names(entry, len(args))
        for name, value in (*zip(names, args, strict=True), *kwargs.items()):
            if registry.personality_of(type(value)) is not None:
                self.observed.see(name, value)
        taken = self.library.take((*args, *kwargs.values()), originals)
        given = [self._input(recorder, n, v) for n, v in zip(names, taken, strict=False)]
        named = {n: self._input(recorder, n, v) for n, v in zip(kwargs, taken[len(args) :], strict=True)}
        result = flattener.call(entry, given, named, _NOWHERE)
        program = FlatProgram(self.name, recorder, result, self._fuse, self._chain, self.library.step, self.library.join)
        if not recorder.reads.seal(target):
            raise UnflattenableError("what the call depends on changed meanwhile")
        return program, actual_of(result)

    def _fuse(self, part: Segment | Epilogue) -> tuple[FusedSite, Callable[..., Any]]:
        uniform = self.library.personality != "numpy"
        if isinstance(part, Segment):
            site = FusedSite(part, uniform=uniform)
        else:
            from ...tiers.epilogue import EpilogueSite  # with the first product that has one

            site = EpilogueSite(part, uniform=uniform)
        return site, self.library.fused(site)

    def _chain(self, segment: Segment) -> tuple[FusedSite, Callable[..., Any]]:
        site = ChainSite(segment, uniform=self.library.personality != "numpy")
        return site, self.library.fused(site, rows=True)

    def _input(self, recorder: Recorder, name: str, value: Any) -> Value:
        if value is None:
            return Known(None)  # its type tells all
        check(value)
        return recorder.input(name, value, ANY if registry.personality_of(type(value)) is not None else None)

    # -- looking ------------------------------------------------------------------------------------

    @property
    def programs(self) -> list[FlatProgram]:
        """All paths, the latest first."""
        return [program for paths in self.paths.values() for program in paths.programs]

    @property
    def reasons(self) -> list[str]:
        """Why calls were left to Python, per combination of operand types."""
        return [paths.reason for paths in self.paths.values() if paths.reason]


def _key_of(operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a path depends on beside the values of operands: their types, and those of what they consist of. Raises Decline."""
    kinds: tuple[Any, ...] = tuple(map(type, operands))
    if not _CONTAINERS.isdisjoint(kinds):
        kinds = tuple(_structure(v, 0) for v in operands)
    return (kinds, tuple(kwargs)) if kwargs else kinds


def _structure(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind not in _CONTAINERS:
        return kind
    if depth > _MAX_DEPTH or len(value) > _MAX_ITEMS:
        raise UnflattenableError("operands in containers that are nested deeply or long")
    if kind is not dict:
        return (kind, *[_structure(v, depth + 1) for v in value])
    if not all(type(key) in (str, int) for key in value):
        raise UnflattenableError("an operand that is a dict with keys that are no texts")
    return (dict, *[(key, _structure(v, depth + 1)) for key, v in value.items()])


def _parameter_names(entry: Value, count: int) -> list[str]:
    names: list[str] = []
    if isinstance(entry, Method):
        _, *parameters = signature_of(entry.function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = names[:count]
    return names + [f"arg{i}" for i in range(len(names), count)]


class _Nowhere:
    """A place without a line."""


_NOWHERE: Any = _Nowhere()
