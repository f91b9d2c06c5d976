"""The debugger behind JupyterLab's, with every request answered.

debugpy gives no answer to a command it doesn't know, nor to `continue` when nothing has stopped, and ipykernel 7.4 then waits for ever
with the control channel blocked: no interrupt, no shutdown, no debugger until the process is killed. The same happens after an event
that it doesn't expect (a thread goes on that had not stopped). A request that fails in ipykernel itself gets no answer, and an answer
is taken for that of whoever asks first. Here each answer goes to its request, what is not known is refused, and so is, after a while,
what debugpy doesn't answer.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from ipykernel.debugger import Debugger, DebugpyClient

# What debugpy answers; ipykernel's own commands are in its handler tables.
DEBUGPY_COMMANDS = frozenset(
    "attach completions configurationDone continue disconnect evaluate exceptionInfo goto gotoTargets initialize launch modules "
    "next pause pydevdSystemInfo scopes setBreakpoints setDebuggerProperty setExceptionBreakpoints setExpression "
    "setFunctionBreakpoints setVariable source stackTrace stepIn stepInTargets stepOut terminate threads variables".split()
)
ANSWER_S = 10.0
# These may run code of the user's, or start a process.
PATIENT = frozenset("attach completions evaluate initialize launch setExpression setVariable variables".split())
PATIENT_S = 120.0


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


class Answers:
    """Takes the place of ipykernel's queue of answers: each goes to the request with its number. All in the loop of the control thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def put_nowait(self, message: dict[str, Any]) -> None:
        """An answer has come; one that nobody waits for any more is dropped."""
        future = self._waiting.pop(message.get("request_seq", -1), None)
        if future is not None and not future.done():
            future.set_result(message)

    def expect(self, number: int) -> asyncio.Future[dict[str, Any]]:
        """The answer to a request that is about to be sent."""
        self._waiting[number] = asyncio.get_running_loop().create_future()
        return self._waiting[number]

    def forget(self, number: int) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(number, None)


class AnsweredClient(DebugpyClient):
    """ipykernel's connection to debugpy; its requests have numbers of its own, and an end."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)  # type: ignore[no-untyped-call]
        self.answers = Answers()
        self.message_queue.message_queue = self.answers  # type: ignore[assignment]
        self._numbers = itertools.count(1)

    async def send_dap_request(self, msg: dict[str, Any]) -> dict[str, Any]:
        """Send a request; the answer under the number that the request had."""
        limit = PATIENT_S if msg["command"] in PATIENT else ANSWER_S
        number = next(self._numbers)
        try:
            found = await asyncio.wait_for(self._ask(msg, number), limit)
        except TimeoutError:
            return refusal(msg, f"debugpy has not answered within {limit:g} s")
        finally:
            self.answers.forget(number)
        return {**found, "request_seq": msg["seq"]}

    async def _ask(self, msg: dict[str, Any], number: int) -> dict[str, Any]:
        answer = self.answers.expect(number)
        self._send_request({**msg, "seq": number})  # type: ignore[no-untyped-call]
        if self.wait_for_attach and msg["command"] == "attach":  # answered once the configuration is done
            await self.init_event.wait()
            await self.send_dap_request({"type": "request", "seq": 0, "command": "configurationDone"})
            self.wait_for_attach = False
        return await answer


class BcvmDebugger(Debugger):
    """ipykernel's debugger behind a list of the commands that get an answer."""

    def __init__(self, log: Any, debugpy_stream: Any, event_callback: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(log, debugpy_stream, event_callback, *args, **kwargs)  # type: ignore[no-untyped-call]
        self.debugpy_client = AnsweredClient(log, debugpy_stream, self._handle_event)

    def _handle_event(self, msg: dict[str, Any]) -> None:
        """An event of debugpy's. Must not raise: the answers behind it would never be read."""
        try:
            super()._handle_event(msg)  # type: ignore[no-untyped-call]
        except KeyError:  # a thread that had not stopped goes on
            self.event_callback(msg)

    def knows(self, command: object) -> bool:
        """Whether a request with this command is answered by debugpy or by a handler here."""
        if not isinstance(command, str):
            return False
        return command in DEBUGPY_COMMANDS or command in self.static_debug_handlers or command in self.started_debug_handlers

    async def process_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the front end."""
        command = message.get("command")
        if not self.knows(command):
            return refusal(message, f"unsupported command {command!r}")
        if not self.is_started and command != "initialize" and command not in self.static_debug_handlers:
            return refusal(message, "the debugger has not started")
        if not isinstance(message.get("arguments", {}), dict):
            return refusal(message, "arguments must be an object")
        if command == "continue" and not self.stopped_threads:
            return refusal(message, "no thread has stopped")  # debugpy would answer nothing from here on
        try:
            reply: dict[str, Any] = await super().process_request({"seq": 0, **message})  # type: ignore[no-untyped-call]
        except Exception as error:  # of a message that lacks something, mostly; without an answer the front end would wait
            self.log.debug("a debugger request failed", exc_info=True)
            return refusal(message, f"{type(error).__name__}: {error}")
        return reply or refusal(message, f"no answer to {command!r}")
