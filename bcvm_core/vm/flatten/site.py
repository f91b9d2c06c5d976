"""Calls of one object under flattening: the paths found so far, and when to give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import fpstatus
from ...errors import Decline
from ...fusion.segments import Segment
from ...isa.hints import ANY
from ...ops import registry
from ...tiers.fuse import FusedSite
from ..observed import Observed
from ..site import idle
from ..stats import Stats
from ..trust import is_container, is_trusted
from .calls import Flattener, signature_of
from .objects import Library
from .program import DivergedError, FlatProgram
from .recorder import Recorder
from .values import Known, Method, UnflattenableError, Value, actual_of

MISS: Any = type("Miss", (), {"__repr__": lambda self: "<left to Python>"})()
"""What a call gives when Python must do it."""

_MAX_PATHS = 8  # per combination of operand types
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
        key = (tuple(map(type, operands)), tuple(kwargs)) if kwargs else tuple(map(type, operands))
        paths = self.paths.get(key)
        if paths is None:
            paths = self.paths[key] = Paths()
        if not paths.programs:
            return self._flatten(target, paths, args, kwargs)
        try:
            taken = self.library.take(operands)
        except Decline as error:
            return self._miss(str(error))
        for program in paths.programs:
            if not program.reads.hold():
                self._forget(paths, program)
                break
            try:
                with fpstatus.recording() as record, self.library.running():
                    result = program.run(taken)
                result = self.library.give(result)
            except DivergedError:
                continue
            except Decline as error:
                return self._miss(str(error))
            except Exception as error:  # the op's own error: Python repeats the call and raises it in the user's frame
                self.stats.count_replay(program.ops, type(error).__name__)
                self.last_reason = f"{type(error).__name__}: {error}"
                return MISS
            if record.kinds and self.library.reports_events:
                return self._miss("a floating-point event that Python reports itself")
            program.runs += 1
            self.stats.count_op(program.ops)
            if program is not paths.programs[0]:
                paths.programs.remove(program)
                paths.programs.insert(0, program)
            return result
        return self._flatten(target, paths, args, kwargs)

    def _miss(self, reason: str) -> Any:
        self.last_reason = reason
        self.stats.count_host((), reason)
        return MISS

    def _forget(self, paths: Paths, program: FlatProgram) -> None:
        """Something that the program took for granted has changed."""
        paths.programs.remove(program)
        self.stale += 1

    # -- flattening ---------------------------------------------------------------------------------

    def _flatten(self, target: Any, paths: Paths, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if paths.rests():
            return MISS
        if len(paths.programs) >= _MAX_PATHS:
            paths.programs.pop()  # the one that ran longest ago
            self.stale += 1
        if self.stale >= _MAX_STALE:
            paths.failures = len(_PATIENCE)
            paths.failed("what the call depends on changes all the time")
            return MISS
        try:
            with fpstatus.recording() as record, self.library.running():
                program, result = self._record(target, args, kwargs)
            result = self.library.give(result)
        except Decline as error:
            return self._give_up(paths, str(error))
        except RecursionError:
            return self._give_up(paths, "calls are nested too deeply")
        except Exception as error:  # the user's error, or a fault of ours: Python repeats the call
            return self._give_up(paths, f"{type(error).__name__}: {error}")
        if record.kinds and self.library.reports_events:
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

    def _record(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[FlatProgram, Any]:
        recorder = Recorder(self.library.personality)
        flattener = Flattener(self.library, recorder)
        entry = flattener.attribute(Known(target, "self"), self.library.entry(target, recorder.reads), _NOWHERE)
        names = _parameter_names(entry, len(args))
        given = [self._input(recorder, n, v) for n, v in zip(names, args, strict=True)]
        named = {n: self._input(recorder, n, v) for n, v in kwargs.items()}
        result = flattener.call(entry, given, named, _NOWHERE)
        program = FlatProgram(self.name, recorder, result, self._fuse)
        recorder.reads.seal()
        return program, actual_of(result)

    def _fuse(self, segment: Segment) -> Callable[..., Any]:
        return self.library.fused(FusedSite(segment, uniform=self.library.personality != "numpy"))

    def _input(self, recorder: Recorder, name: str, value: Any) -> Value:
        if value is None:
            return Known(None)  # its type tells all
        if not is_trusted(type(value)) and not is_container(type(value)):
            raise UnflattenableError(f"an operand of type {type(value).__name__}")
        tensor = registry.personality_of(type(value)) is not None
        if tensor:
            self.observed.see(name, value)
        return recorder.input(name, self.library.take((value,))[0], ANY if tensor else None)

    # -- looking ------------------------------------------------------------------------------------

    @property
    def programs(self) -> list[FlatProgram]:
        """All paths, the latest first."""
        return [program for paths in self.paths.values() for program in paths.programs]

    @property
    def reasons(self) -> list[str]:
        """Why calls were left to Python, per combination of operand types."""
        return [paths.reason for paths in self.paths.values() if paths.reason]


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
__all__ = ["MISS", "FlatSite"]
