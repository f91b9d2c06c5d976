"""`nn.Cell`s with BCVM enabled do what they do without: the oracle is the same scenario run by MindSpore alone."""

from __future__ import annotations

import cells_calls
import cells_containers
import cells_exchanges
import cells_flow
import cells_more
import cells_state
import cells_traps
import cells_values
import pytest
from cells_support import SCENARIOS, Log, assert_same

import bcvm_core as bcvm

pytestmark = pytest.mark.mindspore
# importing them fills SCENARIOS
FILES = (cells_calls, cells_containers, cells_exchanges, cells_flow, cells_more, cells_state, cells_traps, cells_values)


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_as_mindspore(name: str) -> None:
    scenario = SCENARIOS[name]
    plain, ours = Log(), Log()
    scenario.function(plain)
    before = bcvm.stats()
    with bcvm.enable():
        scenario.function(ours)
        stats = bcvm.stats().since(before)
    assert plain.entries, "a log that stays empty could not fail"
    assert_same(plain.entries, ours.entries, scenario.tolerance)
    if scenario.share:
        assert stats.share() >= scenario.share, stats.reasons
