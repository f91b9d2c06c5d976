"""The counters of a function, cell or session."""

from __future__ import annotations

from bcvm_core.vm.stats import OpCount, Stats


def test_counts_per_op() -> None:
    stats = Stats()
    assert stats.share() == 1.0
    for _ in range(3):
        stats.count_op(("add", "exp", "add"))
    stats.count("exp")
    stats.count_host(("exp",), "a sequence without an array beside it is Python's")
    stats.count_replay(("add",), "ValueError: no")
    stats.count_bound()
    assert stats.rows() == (OpCount("add", 7, 0), OpCount("exp", 4, 1))
    assert (stats.call_op, stats.call_host, stats.share()) == (11, 1, 11 / 12)
    assert (stats.replays, stats.bound) == (1, 1)
    assert stats.ops["exp"].call_op == 4
    assert repr(stats) == "Stats(call_op=11, call_host=1, share=92%, replays=1, bound=1)"


def test_merge_snapshot_reset() -> None:
    stats = Stats()
    stats.count_op(("add",))
    copy = stats.snapshot()
    stats.merge(copy).merge(copy)
    assert stats.call_op == 3
    assert copy.call_op == 1
    stats.reset()
    assert stats.as_dict() == Stats().as_dict()


def test_shown_as_text_and_html() -> None:
    stats = Stats()
    stats.count_op(("add", "x<y"))
    assert stats.table().splitlines() == [
        "op   CALL_OP  CALL_HOST",
        "add        1          0",
        "x<y        1          0",
        "all        2          0",
        "100.0% by CALL_OP; 0 regions bound, 0 executions handed back to Python",
    ]
    assert "x&lt;y" in stats._repr_html_()
    stats.bound = stats.replays = 1
    assert stats.table().splitlines()[-1] == "100.0% by CALL_OP; 1 region bound, 1 execution handed back to Python"
