"""What is made once is made once, whoever asks first."""

from __future__ import annotations

import threading
import time

import pytest

from bcvm_core import locks
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import notes, recycle
from bcvm_core.codegen.stencils.driver import driver
from tests.in_threads import in_threads


def test_once_makes_one_thing_for_all_threads() -> None:
    made: list[object] = []
    start = threading.Barrier(8)

    def make() -> object:
        """Something."""
        time.sleep(0.02)  # others ask meanwhile
        made.append(object())
        return made[-1]

    asked, given = locks.once(make), []

    def ask(_: int) -> None:
        start.wait()
        given.append(asked())

    in_threads(8, ask)
    assert len(made) == 1 and set(map(id, given)) == {id(made[0])}
    assert asked.__doc__ == "Something."


def test_a_make_that_fails_is_tried_again() -> None:
    tries: list[int] = []

    @locks.once
    def make() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return 7

    with pytest.raises(OSError, match="not yet"):
        make()
    assert make() == make() == 7 and len(tries) == 2


def test_what_machine_code_knows_by_address_is_made_once() -> None:
    driver()
    loops.wait(60.0)
    if not driver().addresses:
        pytest.skip(driver().failed)
    for found in (recycle.pool, recycle._handler, notes._notes):
        assert found.__wrapped__ and not hasattr(found, "cache_clear")  # type: ignore[attr-defined]
        assert found() is found()
