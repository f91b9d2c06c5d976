"""A recorded run in the views of a dashboard, with a time slider."""

from __future__ import annotations

import os
from typing import Any

import anywidget
import traitlets

from . import protocol, runs
from .assets import script, style
from .reports import Report


class Replay(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget has no types
    """Shows a run again: play, pause, speed, and any moment of it. A saved notebook keeps the run's last state alone.

    Raises RunError for files that are no run, are damaged, or of another version.
    """

    _esm = script()
    _css = style()
    last = traitlets.Dict().tag(sync=True)  # the state at the end, as one frame

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.run = runs.read(path)
        super().__init__(last={"at_ms": 0, **self.run.state()})
        self.on_msg(self._receive)

    def report(self, *, times: bool = False) -> Report:
        """The end of the run as text and HTML, for keeping."""
        return Report(self.run.sample(), times=times)

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and content.get("command") == "frames" and content.get("version") == protocol.VERSION:
            self.send({"version": protocol.VERSION, "frames": True}, [self.run.frames_json().encode("ascii")])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        return {**data, **self.report()._repr_mimebundle_()}, metadata
