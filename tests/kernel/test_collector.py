"""Python's collector in the kernel: it leaves alone what the kernel is made of, and collects what cells leave behind."""

from __future__ import annotations

from tests.kernel.conftest import Client


def test_what_was_there_at_the_start_is_not_gone_through(kernel: Client) -> None:
    code = "import gc; print(gc.get_freeze_count() > 20_000, len(gc.get_objects()) < gc.get_freeze_count())"
    assert kernel.run(code).stdout == "True True\n"


def test_garbage_of_cells_is_collected(kernel: Client) -> None:
    code = """
import gc, weakref
class Ring: pass
ring = Ring()
ring.itself, gone = ring, weakref.ref(ring)
del ring
gc.collect()
print(gone() is None)
"""
    assert kernel.run(code).stdout == "True\n"
