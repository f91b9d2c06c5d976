"""The kernel pool: listing, hot swaps, selection by the user's programs, under threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from bcvm_core.errors import Decline, PoolError, SelectionError, UnknownOpError
from bcvm_core.events import Selected, bus
from bcvm_core.ops import registry
from bcvm_core.tiers import pool as pools
from bcvm_core.tiers.pool import KernelPool, pool
from bcvm_core.tiers.rules import KernelEntry
from bcvm_core.tiers.select import CallSite, explain, signature_of

X = np.ones((2, 3), np.float32)


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    yield
    pool.restore("add.numpy")
    pool.set_selection("add", None)
    for entry in pool.kernels("add"):
        if entry.origin == "user":
            pool.remove(entry.name)


def test_lists_every_op() -> None:
    rows = pool.rows()
    assert {row.op for row in rows} == {row.name for row in registry.rows()}
    assert len({row.kernel for row in rows}) >= len(registry.rows())
    assert all(row.origin in ("numpy", "blas", "tree", "template", "scalar", "user") for row in rows)


def test_counts_calls_by_signature() -> None:
    site = CallSite("add")
    site(X, X)
    before = {(row.kernel, row.signature): row.calls for row in pool.rows()}
    for _ in range(5):
        site(X, X)
    after = {(row.kernel, row.signature): row.calls for row in pool.rows()}
    key = ("add.numpy", site.signature)
    assert after[key] - before[key] == 5


def test_describes_itself() -> None:
    CallSite("add")(X, X)
    rows = [row for row in pools.describe() if row["op"] == "add"]
    assert any(row["signature"] == "add(float32:contiguous:host, float32:contiguous:host)" for row in rows)
    text = pools.table_text(rows)
    assert text.splitlines()[0].split() == ["op", "kernel", "origin", "calls", "signature"]
    assert "add.numpy" in text


def test_swap_and_restore_reach_warm_sites() -> None:
    site = CallSite("add")
    assert site(X, X)[0, 0] == 2
    pool.swap("add.numpy", lambda a, b: a * 0 + 7)
    assert site(X, X)[0, 0] == 7
    pool.swap("add.numpy", lambda a, b: a * 0 + 8)
    assert site(X, X)[0, 0] == 8
    pool.restore("add.numpy")
    assert site(X, X)[0, 0] == 2
    pool.restore("add.numpy")


def test_in_place_runs_the_swapped_kernel() -> None:
    pool.swap("add.numpy", lambda a, b: a * 0 + 7)
    x = X.copy()
    assert CallSite("add")(x, X, out=x) is x
    assert (x == 7).all()


def test_eager_calls_go_through_the_pool() -> None:
    assert registry.run(registry.row("add"), (X, X), {})[0, 0] == 2
    pool.swap("add.numpy", lambda a, b: a * 0 + 7)
    assert registry.run(registry.row("add"), (X, X), {})[0, 0] == 7
    with pytest.raises(Decline):
        registry.run(registry.row("add"), (np.ones(2, object), 1), {})


def _doubling(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a + b) * 2


def test_user_kernels_and_programs() -> None:
    site = CallSite("add")
    site(X, X)
    pool.add(KernelEntry("add.double", "add", _doubling, "user"))
    assert site(X, X)[0, 0] == 2  # added, not preferred
    pool.set_selection("add", "ld size[0]\njgt 4, large\nret add.numpy\nlarge:\nret add.double\n")
    assert site(X, X)[0, 0] == 4
    small = np.ones(3, np.float32)
    assert site(small, small)[0] == 2
    assert explain("add", (X, X)).text == "size[0] = 6 is above 4: add.double"
    pool.set_selection("add", None)
    assert site(X, X)[0, 0] == 2


def test_preferred_kernels_come_first() -> None:
    pool.add(KernelEntry("add.double", "add", _doubling, "user", accepts=lambda s: s.operands[0].dtype == "float32"), prefer=True)
    site = CallSite("add")
    assert site(X, X)[0, 0] == 4
    assert site(X.astype(np.float64), X)[0, 0] == 2  # not accepted
    pool.remove("add.double")
    assert site(X, X)[0, 0] == 2


def test_a_program_for_one_signature() -> None:
    pool.add(KernelEntry("add.double", "add", _doubling, "user"))
    pool.set_selection("add", "ret add.double", signature=signature_of("add", (X, X)))
    site = CallSite("add")
    assert site(X, X)[0, 0] == 4
    assert site(X.astype(np.float64), X)[0, 0] == 2
    pool.set_selection("add", None, signature=signature_of("add", (X, X)))


def test_a_program_whose_kernels_refuse_the_signature_is_passed_over() -> None:
    pool.add(KernelEntry("add.double", "add", _doubling, "user", accepts=lambda s: False))
    pool.set_selection("add", "ret add.double")
    assert CallSite("add")(X, X)[0, 0] == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda: pool.swap("add.nothing", print), PoolError),
        (lambda: pool.swap("nothing.numpy", print), PoolError),
        (lambda: pool.add(KernelEntry("add.numpy", "add", print, "user")), PoolError),
        (lambda: pool.add(KernelEntry("x.user", "no_such_op", print, "user")), UnknownOpError),
        (lambda: pool.set_selection("add", "ret multiply.numpy"), PoolError),
        (lambda: pool.set_selection("add", "ld size[0]"), SelectionError),
        (lambda: pool.set_selection("add", "ld size[2]\nret add.numpy"), SelectionError),
        (lambda: pool.remove("maximum.numpy"), PoolError),
    ],
)
def test_bad_changes_change_nothing(change: object, error: type[Exception]) -> None:
    pool.kernels("maximum")
    version = pool.version
    with pytest.raises(error) as caught:
        change()  # type: ignore[operator]
    assert caught.value.fix  # type: ignore[attr-defined]
    assert pool.version == version


def test_selected_events() -> None:
    seen: list[Selected] = []
    stop = bus.subscribe(lambda event: seen.append(event) if isinstance(event, Selected) else None)
    try:
        site = CallSite("add")
        site(X, X)
        site(X, X)
    finally:
        stop()
    assert [(e.op, e.signature, e.kernel, e.reason) for e in seen] == [("add", site.signature, "add.numpy", "always add.numpy")]
    assert seen[0].duration_us > 0


@pytest.mark.parametrize("switch", [1e-6, 5e-3])
def test_hot_swap_under_threads(switch: float) -> None:
    """Threads call while kernels are swapped, programs set, kernels added and removed: each call is one of the answers."""
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(switch)
    wrong: list[object] = []
    stop = threading.Event()
    shared = CallSite("add")

    def hammer(site: CallSite) -> None:
        while not stop.is_set():
            try:
                value = float(site(X, X)[0, 0])
                if value not in (2.0, 7.0, 4.0):
                    wrong.append(value)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=hammer, args=(site,)) for site in (shared, shared, CallSite("add"))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            pool.swap("add.numpy", lambda a, b: a * 0 + 7)
            assert shared(X, X)[0, 0] == 7
            pool.restore("add.numpy")
            assert shared(X, X)[0, 0] == 2
            pool.add(KernelEntry("add.double", "add", _doubling, "user"))
            pool.set_selection("add", "ret add.double")
            assert shared(X, X)[0, 0] == 4
            pool.remove("add.double")
            assert shared(X, X)[0, 0] == 2
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not wrong


def test_pools_are_independent() -> None:
    other = KernelPool()
    other.swap("add.numpy", lambda a, b: a * 0 + 7)
    assert CallSite("add")(X, X)[0, 0] == 2


def test_kernels_not_generated_yet_are_announced() -> None:
    pytest.importorskip("llvmlite")
    pool.refresh()
    rows = [row for row in pools.describe() if row["op"] == "tanh"]
    assert {(row["kernel"], row["origin"]) for row in rows} == {("tanh.template.*", "template"), ("tanh.numpy", "numpy")}
    CallSite("tanh")(X)
    assert "tanh.template.float32" in [row["kernel"] for row in pools.describe()]


def test_functions_of_python_values_are_generated_too() -> None:
    pytest.importorskip("llvmlite")
    site = CallSite("tanh", syntax=False)
    for value, name in ((0.5, "float64"), (2, "int64"), (np.float32(0.5), "float32"), (np.ones(2, np.int8), "int8")):
        assert explain("tanh", (value,)).kernel == f"tanh.template.{name}"
        assert type(site(value)) is type(np.tanh(value))
