"""How groups are cut into kernels: exact decisions for given figures, the rules that refuse, and the records."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bcvm_core as bcvm
from bcvm_core.fusion import costs, decisions, machines, splits
from bcvm_core.fusion.decisions import Decision, Measured
from bcvm_core.fusion.groups import Group, MismatchError, Step, Value, attention, of_segment
from bcvm_core.fusion.machines import InForce
from bcvm_core.fusion.segments import find
from bcvm_core.isa import text


def relu_add_sigmoid(*shape: int) -> Group:
    x, bias = Value(shape), Value((1, shape[1], 1, 1))
    steps = (Step("relu", (0,), 2), Step("add", (2, 1), 3), Step("sigmoid", (3,), 4))
    return Group((x, bias, x, x, x), steps, (4,))


def scaled_rows(rows: int, columns: int, op: str = "exp") -> Group:
    """x * op(row)."""
    x, row = Value((rows, columns)), Value((columns,))
    return Group((x, row, row, x), (Step(op, (1,), 2), Step("multiply", (0, 2), 3)), (3,))


def names(decision: Decision) -> dict[str, str]:
    return {candidate.name: candidate.reason for candidate in decision.candidates}


def chosen(decision: Decision) -> str:
    assert decision.chosen is not None
    return decision.chosen.name


def predicted(decision: Decision) -> dict[str, int]:
    return {candidate.name: round(candidate.predicted_ns) for candidate in decision.candidates}


# -- F2: the same source, by shape ----------------------------------------------------------------


def test_a_small_chain_is_one_kernel(figures: InForce) -> None:
    decision = splits.decide(relu_add_sigmoid(1, 64, 1, 1), figures, same_bits=True)
    assert chosen(decision) == "one kernel"
    assert predicted(decision) == {"one kernel": 146, "op by op": 1553}  # 64 * (2 / 20 + 25 * 0.5 / 20) + 100; 500 an op
    assert names(decision) == {"one kernel": "", "op by op": "10.6 times as long"}


def test_a_large_chain_runs_in_blocks(figures: InForce) -> None:
    decision = splits.decide(relu_add_sigmoid(32, 64, 224, 224), figures, same_bits=True)
    elements = 32 * 64 * 224 * 224
    assert chosen(decision) == "one kernel in blocks"
    fresh = elements * 4 / 4.0
    assert predicted(decision)["one kernel"] == round((8 * elements + 256) / 10.0 + fresh + 100)
    in_blocks = (8 * elements + 256) / 25.0 + fresh + 30_100  # memory gives all cores 25 bytes a nanosecond
    assert predicted(decision)["one kernel in blocks"] == pytest.approx(in_blocks, rel=1e-6)
    (part,) = decision.chosen.parts  # type: ignore[union-attr]
    assert (part.threads, part.prediction.level, part.blocks) == (4, "memory", elements // 65536)


@pytest.mark.parametrize(
    ("batch", "length", "wanted"),
    [
        (1, 16, "one kernel"),
        (1, 128, "qk^T | softmax, pv"),
        (4, 128, "one kernel"),
        (16, 16, "one kernel"),
        (16, 128, "one kernel"),
        (16, 512, "one kernel"),
    ],
)
def test_attention_splits_at_batch_one_and_fuses_at_sixteen(batch: int, length: int, wanted: str, given_machine: str) -> None:
    decision = splits.decide(attention(batch, 12, length, 64))
    assert chosen(decision) == wanted
    assert decision.source == "nominal"  # unless it is said that the candidates' bits are the same, no machine has a say
    assert not decision.runs
    assert "no kernel acts on this choice yet" in "\n".join(decision.lines())


def test_attention_at_batch_one_leaves_cores_without_work() -> None:
    reasons = names(splits.decide(attention(1, 12, 128, 64)))
    assert reasons["one kernel"] == "saturation: 12 blocks for 32 cores, 38%, under 50%"
    assert set(reasons) == {"one kernel", "qk^T | softmax, pv", "qk^T, softmax | pv", "qk^T | softmax | pv"}


# -- F1: what speaks against a kernel -------------------------------------------------------------


def test_a_transposition_is_not_joined_to_a_convolution() -> None:
    image, weight = Value((8, 56, 56, 64)), Value((64, 64, 3, 3))
    turned, out = Value((8, 64, 56, 56), in_order=False), Value((8, 64, 54, 54))
    group = Group((image, weight, turned, out), (Step("transpose", (0,), 2), Step("conv2d", (2, 1), 3)), (3,))
    decision = splits.decide(group)
    assert chosen(decision) == "transpose | conv2d"
    wanted = "memory locality: transpose leaves neighbours apart that conv2d reads side by side"
    assert names(decision)["one kernel"] == wanted
    assert f"[REJECTED] {wanted}" in "\n".join(decision.lines())


def test_blas_takes_transposed_operands() -> None:
    a, b = Value((64, 32)), Value((48, 32))
    turned = Value((32, 48), in_order=False)
    group = Group((a, b, turned, Value((64, 48))), (Step("transpose", (1,), 2), Step("matmul", (0, 2), 3)), (3,))
    assert "memory locality" not in names(splits.decide(group))["one kernel"]


@pytest.mark.parametrize(("repeats", "joined"), [(1, True), (1000, False)])
def test_a_small_product_is_not_joined_to_a_large_broadcast(repeats: int, joined: bool) -> None:
    small, large = Value((64, 64)), Value((repeats, 64, 64))
    group = Group((small, small, large, small, large), (Step("matmul", (0, 1), 3), Step("add", (3, 2), 4)), (4,))
    decision = splits.decide(group)
    assert (chosen(decision) == "one kernel") is joined
    assert names(decision)["one kernel"].startswith("" if joined else "compute density: 0.14 operations per byte, under 0.8")


def test_a_bias_is_joined_to_a_product() -> None:
    x, w, bias, out = Value((512, 768)), Value((768, 3072)), Value((3072,)), Value((512, 3072))
    group = Group((x, w, bias, out, out), (Step("matmul", (0, 1), 3), Step("add", (3, 2), 4)), (4,))
    assert chosen(splits.decide(group)) == "one kernel"


def test_ops_that_no_policy_covers_are_not_joined() -> None:
    x = Value((64, 64))
    group = Group((x, x, x, x), (Step("sort", (0,), 2), Step("matmul", (2, 1), 3)), (3,))
    decision = splits.decide(group)
    assert chosen(decision) == "sort | matmul"
    assert names(decision)["one kernel"] == "no policy covers sort, matmul"


def test_shapes_that_do_not_fit_are_named() -> None:
    x, y = Value((2, 3, 4, 5)), Value((3,))
    group = Group((x, y, x, y), (Step("relu", (0,), 2), Step("relu", (1,), 3)), (2, 3))
    decision = splits.decide(group, same_bits=True)
    assert decision.chosen is None
    assert decision.lines() == ["relu, relu on float32[2, 3, 4, 5], float32[3]: [REJECTED] shape mismatch: [2, 3, 4, 5] vs [3]"]


# -- small results first --------------------------------------------------------------------------


def test_an_exp_of_a_row_is_worked_out_once(figures: InForce) -> None:
    decision = splits.decide(scaled_rows(2000, 1000), figures, same_bits=True)
    assert chosen(decision) == "small results first"
    assert [part.steps for part in decision.chosen.parts] == [(0,), (1,)]  # type: ignore[union-attr]
    # 2e6 exps on one core, or 1,000 and a handed-over call; 16 MB between memory and all cores
    whole, first = predicted(decision)["one kernel"], predicted(decision)["small results first"]
    assert whole == round(2e6 * (0.5 + 1 / 20)) + 100
    assert first < whole / 3


def test_a_cheap_row_stays_in_the_kernel(figures: InForce) -> None:
    assert chosen(splits.decide(scaled_rows(200, 100, "negative"), figures, same_bits=True)) == "one kernel"


def test_rows_that_nothing_larger_reads_are_not_looked_for(figures: InForce) -> None:
    x = Value((64, 64))
    group = Group((x, x, x), (Step("exp", (0,), 1), Step("negative", (1,), 2)), (2,))
    assert splits.small_first(group) == ()
    assert "small results first" not in names(splits.decide(group, figures, same_bits=True))


def test_each_small_result_has_its_steps() -> None:
    x, column = Value((400, 100)), Value((400, 1))
    values = (x, column, column, column, column, x, x)
    steps = (Step("add", (1,), 2), Step("sqrt", (2,), 3), Step("exp", (2,), 4), Step("multiply", (0, 3), 5), Step("add", (5, 4), 6))
    assert splits.small_first(Group(values, steps, (6,))) == ((0, 1), (0, 2), (3, 4))


# -- the rule -------------------------------------------------------------------------------------


def test_small_calls_are_one_kernel_whatever_the_model_says(figures: InForce) -> None:
    group = scaled_rows(2000, 1000)
    decision = splits.decide(group, figures, same_bits=True, at_once=2_000_000, runs=True)
    assert chosen(decision) == "one kernel"
    assert names(decision)["small results first"] == "small: up to 2000000 elements are one call"
    assert chosen(splits.decide(group, figures, same_bits=True, at_once=1_999_999, runs=True)) == "small results first"


def test_a_candidate_can_be_refused_by_the_caller(figures: InForce) -> None:
    decision = splits.decide(scaled_rows(2000, 1000), figures, same_bits=True, runs=True, refused={"small results first": "no stencils"})
    assert chosen(decision) == "one kernel in blocks"
    assert names(decision)["small results first"] == "no stencils"


def test_one_core_has_no_blocks(figures: InForce) -> None:
    alone = InForce(machines.nominal(1), "nominal")
    decision = splits.decide(relu_add_sigmoid(32, 64, 224, 224), alone, same_bits=True)
    assert set(names(decision)) == {"one kernel", "op by op"}


SIZES = st.sampled_from([1, 3, 64, 1000, 4096])


@settings(max_examples=60)
@given(SIZES, SIZES, st.sampled_from(["exp", "negative", "sqrt", "tanh"]), st.booleans(), st.sampled_from([1, 2, 7, 64]))
def test_every_decision_is_the_same_again_and_complete(rows: int, columns: int, op: str, runs: bool, cores: int) -> None:
    figures = InForce(machines.nominal(cores), "nominal")
    group = scaled_rows(rows, columns, op)
    first, again = (splits.decide(group, figures, same_bits=True, runs=runs) for _ in range(2))
    assert first == again
    assert [c.name for c in first.candidates if not c.reason] == [chosen(first)]
    allowed = [c.predicted_ns for c in first.candidates if not (runs and c.name == "op by op")]
    assert first.chosen.predicted_ns <= 1.05 * min(allowed)  # type: ignore[union-attr]
    for candidate in first.candidates:
        steps = {k for part in candidate.parts for k in part.steps}
        assert steps == set(range(len(group.steps)))


@given(SIZES, SIZES)
def test_a_larger_group_is_never_predicted_to_be_faster(rows: int, columns: int) -> None:
    machine = machines.nominal(4)
    for grown in (scaled_rows(rows + 1, columns), scaled_rows(rows, columns + 1)):
        for threads in (1, 4):
            one, more = (costs.part_of(group, (0, 1), machine, threads).prediction for group in (scaled_rows(rows, columns), grown))
            assert more.traffic_ns >= one.traffic_ns * 0.24  # a set that fills one core's cache may lie in those of four
            assert more.compute_ns >= one.compute_ns * 0.24
            if threads == 1:
                assert more.total_ns >= one.total_ns


# -- groups of segments ---------------------------------------------------------------------------

PROGRAM = """\
.program f(x, m, v)
 0  LOAD_TENSOR  r0, x, [B, C]
 1  LOAD_TENSOR  r1, m, [B, 1]
 2  LOAD_TENSOR  r2, v, [B, 1]
 3  CALL_OP      r3, subtract, 0x0000, r0, r1
 4  ADD_CONST    r4, r2, 1e-05
 5  CALL_OP      r5, sqrt, 0x0000, r4
 6  CALL_OP      r6, divide, 0x0000, r3, r5
 7  RETURN       r6
"""


def test_a_segment_becomes_a_group() -> None:
    (segment,) = find(text.assemble(PROGRAM))
    assert segment.has_partial
    shapes = {0: (8, 6), 1: (8, 1), 2: (8, 1)}
    group = of_segment(segment, [Value(shapes[register], "float64") for register in segment.inputs])
    assert [group.values[step.result].shape for step in group.steps] == [(8, 6), (8, 1), (8, 1), (8, 6)]
    assert [step.op for step in group.steps] == ["subtract", "add", "sqrt", "divide"]
    assert {value.dtype for value in group.values} == {"float64"}
    *small, large = splits.small_first(group)
    assert (small, large) == ([(1, 2)], (0, 3))
    part = segment.part((1, 2), (5,))
    assert (part.inputs, part.outputs, part.names) == ((2,), (5,), ("add", "sqrt"))


def test_shapes_of_a_segment_must_fit() -> None:
    (segment,) = find(text.assemble(PROGRAM))
    with pytest.raises(MismatchError, match=r"\[8, 6\] vs \[7, 1\]"):
        of_segment(segment, [Value((8, 6)), Value((7, 1)), Value((8, 1))])


# -- records --------------------------------------------------------------------------------------


def test_records_are_bounded_and_made_when_read(figures: InForce) -> None:
    decisions.clear()
    made: list[int] = []

    def make(k: int) -> Any:
        def decide() -> Decision:
            made.append(k)
            return splits.decide(relu_add_sigmoid(1, 64, 1, 1), figures, same_bits=True, at_once=100, runs=True)

        return decide

    for k in range(decisions.KEPT + 10):
        decisions.keep(make(k))
    kept = decisions.latest()
    assert len(kept) == decisions.KEPT
    assert made == []
    assert kept[-1].lines()[0].startswith("relu, add, sigmoid on float32[1, 64, 1, 1], float32[1, 64, 1, 1]: one kernel, predicted 146 ns")
    assert kept[-1].decision is kept[-1].decision
    assert made == [decisions.KEPT + 9]
    decisions.clear()
    assert bcvm.explain() == "nothing was decided yet"


def test_what_was_measured_stands_beside(figures: InForce) -> None:
    decision = splits.decide(relu_add_sigmoid(1, 64, 1, 1), figures, same_bits=True, at_once=100, runs=True)
    measured = Measured()
    assert "measured" not in decision.lines(measured)[0]
    for spent in (2_500, 1_500, 9_000):
        measured.note(spent)
    assert (measured.calls, measured.total_ns, measured.best_ns) == (3, 13_000, 1_500)
    assert decision.lines(measured)[0].endswith("predicted 146 ns, measured 1.5 us (best of 3)")
    assert decision.lines()[1].endswith("bound by call")
    assert decision.lines()[2] == "  by a file figures"


def test_decisions_do_not_change() -> None:
    decision = splits.decide(attention(1, 2, 16, 8))
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.runs = True  # type: ignore[misc]
