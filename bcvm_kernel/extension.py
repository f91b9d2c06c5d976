"""Loading and unloading: the same pieces in the ``bcvm`` kernel and in any other IPython."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from bcvm_core import config

from .magics import BcvmMagics
from .options import candidates
from .shell import CellDoor, Cells, attach, cells_of, detach

# A line magic, also inside a block and where its result is assigned; a cell magic.
_MAGIC = re.compile(r"(?:\s*(?:[\w.,\s]+=\s*)?(?=%bcvm\s))?(%%?bcvm\s.*)$")


class Completion:
    """IPython matcher for the lines of both magics; there it stands alone, Jedi would only guess."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.__qualname__ = "bcvm_kernel.completion"  # what IPython knows a matcher by
        context_matcher()(self)

    def __call__(self, context: CompletionContext) -> SimpleMatcherResult:
        found = _MAGIC.match(context.line_with_cursor)
        if found is None:
            return {"completions": []}
        line = found[1]
        before = len(line) - len(line.rpartition(" ")[2])
        known = len(line) - before - len(context.token)  # how much of the word IPython leaves alone
        texts = candidates(line, self._functions)
        return {"completions": [SimpleCompletion(text[known:], type="param") for text in texts], "suppress": True}

    def _functions(self) -> list[str]:
        """The functions of the notebook, and the methods of its classes."""
        shown = {
            name: value for name, value in self.shell.user_ns.items() if not name.startswith("_") and name not in self.shell.user_ns_hidden
        }
        classes = {name: value for name, value in shown.items() if isinstance(value, type) and value.__module__ == "__main__"}
        functions = [name for name, value in shown.items() if isinstance(value, FunctionType)]
        return functions + [f"{c}.{m}" for c, body in classes.items() for m, value in vars(body).items() if isinstance(value, FunctionType)]


def _new_door(shell: Any) -> CellDoor:
    from bcvm_core.session import CellSession, set_current

    door = CellSession(lambda: shell.user_ns)
    set_current(door)  # what `bcvm_widgets` looks at
    return door


def _put_in(shell: Any, *, on: bool) -> Cells:
    cells = attach(shell, _new_door(shell), on=on and config.current.enabled)
    shell.register_magics(BcvmMagics(shell, cells))
    shell.Completer.custom_matchers.append(Completion(shell))
    return cells


def load(shell: Any) -> None:
    """``%load_ext bcvm_kernel``. In the ``bcvm`` kernel, which has it all, nothing happens."""
    if cells_of(shell) is None:
        _put_in(shell, on=False).owner = "extension"


def load_in_kernel(shell: Any) -> Cells:
    """For the ``bcvm`` kernel: cells go through the VM from the first one on."""
    return _put_in(shell, on=True)


def unload(shell: Any) -> None:
    """``%unload_ext bcvm_kernel``: undo `load`; the ``bcvm`` kernel keeps what it started with."""
    from bcvm_core.session import set_current

    cells = cells_of(shell)
    if cells is None or cells.owner != "extension":
        return
    detach(shell)
    set_current(None)
    for table in shell.magics_manager.magics.values():
        table.pop("bcvm", None)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if not isinstance(matcher, Completion)]
