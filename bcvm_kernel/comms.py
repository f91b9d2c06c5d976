"""Comms that keep answering while a cell runs.

ipykernel 7.4 sends every message of a comm to the shell that opened the comm, whichever subshell
the front end chose; a busy main shell then blocks its widgets. Only the answer to a request that
carried an id has to go back where the request came from; everything else stays where the front
end sent it.
"""

from __future__ import annotations

from typing import Any

import comm
import ipykernel.comm.manager as _manager
import ipykernel.ipkernel  # noqa: F401  (it registers its own comm factory when imported; ours must come later)
from ipykernel.comm.comm import BaseComm, Comm


def _request_id(data: object) -> str | None:
    content = data.get("content") if isinstance(data, dict) else None
    found = content.get("id") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


class _Routing:
    """Mixed into ipykernel's comm classes: the routing rule above.

    `_reply_subshell_lock` and `_reply_subshell_ids` are those of ipykernel 7.4; other versions
    have no such routing and never call this.
    """

    _reply_subshell_lock: Any
    _reply_subshell_ids: dict[str, Any]

    def _reply_subshell_for(self, data: object, default: Any) -> Any:
        request = _request_id(data)
        with self._reply_subshell_lock:
            return self._reply_subshell_ids.pop(request, default) if request is not None else default


class RoutedBaseComm(_Routing, BaseComm):
    """A comm opened by the kernel (a widget)."""


class RoutedComm(_Routing, Comm):
    """A comm opened by the front end."""


def _create_comm(*args: Any, **kwargs: Any) -> RoutedBaseComm:
    return RoutedBaseComm(*args, **kwargs)  # type: ignore[no-untyped-call]


def install_routing() -> None:
    """Make every comm of this process one of the above. Call before the kernel is made."""
    comm.create_comm = _create_comm
    _manager.Comm = RoutedComm  # type: ignore[attr-defined]
