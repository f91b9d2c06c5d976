"""The debugger behind JupyterLab's, with unknown requests answered instead of forwarded.

debugpy gives no answer to a command it doesn't know, and ipykernel 7.4 then waits for ever with
the control channel blocked: no interrupt, no shutdown, no debugger until the process is killed.
"""

from __future__ import annotations

from typing import Any

from ipykernel.debugger import Debugger

# What debugpy answers; ipykernel's own commands are in its handler tables.
DEBUGPY_COMMANDS = frozenset(
    "attach completions configurationDone continue disconnect evaluate exceptionInfo goto gotoTargets initialize launch modules "
    "next pause pydevdSystemInfo scopes setBreakpoints setDebuggerProperty setExceptionBreakpoints setExpression "
    "setFunctionBreakpoints setVariable source stackTrace stepIn stepInTargets stepOut terminate threads variables".split()
)


def refusal(message: dict[str, Any], reason: str) -> dict[str, Any]:
    """A well-formed DAP response that says no."""
    sequence = message.get("seq", 0)
    return {
        "type": "response",
        "seq": sequence,
        "request_seq": sequence,
        "success": False,
        "command": str(message.get("command", "")),
        "message": reason,
        "body": {},
    }


class BcvmDebugger(Debugger):
    """ipykernel's debugger behind a list of the commands that get an answer."""

    def knows(self, command: object) -> bool:
        """Whether a request with this command is answered by debugpy or by a handler here."""
        return command in DEBUGPY_COMMANDS or command in self.static_debug_handlers or command in self.started_debug_handlers

    async def process_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the front end."""
        command = message.get("command")
        if not self.knows(command):
            return refusal(message, f"unsupported command {command!r}")
        reply: dict[str, Any] = await super().process_request(message)  # type: ignore[no-untyped-call]
        return reply
