"""The one notice of a kernel session: why the first cell took longer than the next ones will.

Nothing about compiling goes to stdout or stderr, and a notebook's saved outputs don't depend on
what was warm. So the notice is shown only to a person in front of a notebook (front ends that
send a cell id; nbclient, nbval and papermill don't), once, and it takes itself back after
`SHOWN_S` seconds: what remains in a saved notebook is an empty output, which nbval doesn't
compare. ``%bcvm status`` tells the same at any time; BCVM_NOTICE=0 turns the notice off.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

from .shell import Cells
from .work import duration

THRESHOLD_US = 150_000.0  # less first-time work than this in one cell is no cause for questions
SHOWN_S = 30.0


def text_of(work_us: float) -> str:
    """The sentence shown."""
    return (
        f"BCVM: {duration(work_us)} of this cell was done for the first time (reading the source, choosing and loading kernels).\n"
        "Later cells and new shapes reuse it; %bcvm status has the figures. This notice disappears by itself."
    )


class FirstCellNotice:
    """Watches the cells of one kernel until it has spoken once."""

    def __init__(self, kernel: Any, cells: Cells) -> None:
        self.kernel = kernel
        self.cells = cells
        self._before_us = 0.0
        self._events = {"pre_run_cell": self._cell_starts, "post_run_cell": self._cell_ends}
        for name, callback in self._events.items():
            kernel.shell.events.register(name, callback)

    def _cell_starts(self, _info: Any) -> None:
        self._before_us = self.cells.work.total_us

    def _cell_ends(self, _result: Any) -> None:
        spent_us = self.cells.work.total_us - self._before_us
        if spent_us < THRESHOLD_US:
            return
        for name, callback in self._events.items():
            self.kernel.shell.events.unregister(name, callback)
        self.kernel.log.info("bcvm: %.0f ms of first-time work in one cell", spent_us / 1e3)
        if os.environ.get("BCVM_NOTICE", "1") != "0" and self._person_watches():
            self._show(text_of(spent_us))

    def _person_watches(self) -> bool:
        return bool(self.kernel.get_parent().get("metadata", {}).get("cellId"))

    def _show(self, text: str) -> None:
        parent, transient = self.kernel.get_parent(), {"display_id": f"bcvm-notice-{uuid.uuid4().hex}"}

        def send(kind: str, data: dict[str, str]) -> None:
            content = {"data": data, "metadata": {}, "transient": transient}
            self.kernel.session.send(self.kernel.iopub_socket, kind, content, parent=parent, ident=self.kernel._topic(kind))

        send("display_data", {"text/plain": text})
        loop = self.kernel.io_loop.asyncio_loop
        loop.call_soon_threadsafe(loop.call_later, SHOWN_S, send, "update_display_data", {})
