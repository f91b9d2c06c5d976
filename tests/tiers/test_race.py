"""Races: accepted are those that are surely fast enough, whatever the noise; the rest is left."""

from __future__ import annotations

import random

import pytest

from bcvm_core.tiers.race import MAX_PAIRS, MIN_PAIRS, Race, Runner
from tests.in_threads import in_threads


def raced(gains: dict[str, float], noise: float, seed: int, pieces: int = 2000) -> Race[str]:
    """A race in which candidates take `gains` of the present time, with noise in every piece and a machine whose speed drifts."""
    rng = random.Random(seed)
    race = Race("present", [Runner(name, name) for name in gains])
    race._random.seed(seed)
    for k in range(pieces):
        ticket, code = race.take()
        if ticket is None:
            break
        drift = 1 + 0.5 * (k // 50 % 2)
        race.note(ticket, 1000 * drift * gains.get(code, 1.0) * rng.lognormvariate(0, noise), 1000)
    return race


def accepted(gain: float, noise: float, rounds: int = 300) -> float:
    return sum(raced({"new": gain}, noise, seed).winner is not None for seed in range(rounds)) / rounds


def test_a_clear_winner_needs_few_pairs() -> None:
    race = raced({"new": 0.6}, 0.03, 1)
    assert race.winner is not None and race.winner.name == "new"
    assert race.runners[0].pairs <= MIN_PAIRS + 3
    assert 0.55 < race.winner.ratio < 0.65


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2])
def test_ten_per_cent_are_not_enough(noise: float) -> None:
    assert accepted(0.90, noise) <= 0.02


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_a_quarter_is_enough(noise: float) -> None:
    assert accepted(0.75, noise) >= 0.8


def test_equal_code_is_never_exchanged() -> None:
    assert accepted(1.0, 0.15) == 0.0


def test_it_ends_when_nothing_can_be_known() -> None:
    race = raced({"new": 0.85}, 0.5, 3)
    assert race.over and race.winner is None and race.runners[0].pairs <= MAX_PAIRS


def test_the_fastest_of_the_good_ones_wins() -> None:
    race = raced({"a": 0.8, "b": 0.5, "c": 1.4}, 0.02, 5)
    assert race.over and race.winner is not None and race.winner.name == "b"
    assert race.runners[2].verdict is False


def test_each_pair_has_both_in_either_order() -> None:
    race = Race("present", [Runner("new", "new")])
    firsts = set()
    for _ in range(200):
        (number, first), code = race.take()  # type: ignore[misc]
        (again, second), other = race.take()  # type: ignore[misc]
        assert number == again and first is not second and {code, other} == {"present", "new"}
        firsts.add(code)
    assert firsts == {"present", "new"}


def test_pieces_of_other_sizes_make_no_pair() -> None:
    race = Race("present", [Runner("new", "new")])
    for _ in range(50):
        for size in (1000, 3000):
            ticket, _ = race.take()
            assert ticket is not None
            race.note(ticket, 10.0, size)
    assert race.runners[0].pairs == 0 and not race.over


def test_after_the_end_the_present_code_runs_unmeasured() -> None:
    race = raced({"new": 0.5}, 0.01, 7)
    assert race.take() == (None, "present")


def test_threads_share_a_race() -> None:
    race = Race("present", [Runner("a", "a"), Runner("b", "b")])

    def work() -> None:
        for _ in range(400):
            ticket, code = race.take()
            if ticket is None:
                return
            race.note(ticket, {"present": 100.0, "a": 70.0, "b": 60.0}[code], 10)

    in_threads(4, lambda _: work())
    assert race.over and race.winner is not None and race.winner.name == "b"
