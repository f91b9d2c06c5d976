"""The op table, and under `bcvm.ops` one public function per op.

The functions are made from the rows when they are first asked for: signature, documentation and
defaults are the row's. Outside a program they run one op eagerly; inside one they are recognised by
identity and become CALL_OP instructions.
"""

from __future__ import annotations

from typing import Any

from . import registry

registry.load_families()

from . import public  # noqa: E402  # reads the rows


def __getattr__(name: str) -> Any:
    function = public.function(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return public.names()
