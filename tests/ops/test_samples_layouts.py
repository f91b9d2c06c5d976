"""Every op on the samples of the one list, in every layout and size."""

from __future__ import annotations

import pytest

from bcvm_core.errors import Decline
from bcvm_core.ops.registry import OpInfo
from tests import sample_forms as forms
from tests.sample_checks import ROWS, by_numpy, check, compare, expected, given, noted
from tests.sample_values import Sample

each_row = pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)


@each_row
def test_layouts(op: OpInfo) -> None:
    for layout, change in forms.LAYOUTS.items():
        for sample in forms.every(op):
            with noted(layout, sample):
                check(op, forms.mapped(sample, change))


@each_row
def test_a_stride_of_zero(op: OpInfo) -> None:
    for sample in forms.every(op):
        if not op.writes:
            check(op, forms.stretched(sample))


BATCHED = """
    softmax log_softmax layer_norm rms_norm group_norm batch_norm batch_norm_train instance_norm conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d lp_pool3d
    linear embedding interpolate unfold fold pixel_shuffle pixel_unshuffle channel_shuffle depth_to_space space_to_depth glu prelu
    normalize cdist sort_pairs kthvalue cummax one_hot gather flatten_axes bucketize narrow
""".split()
"""Ops that work on each entry of the first axis alone: no entry gives no result."""


@each_row
def test_sizes(op: OpInfo) -> None:
    """One element, none, and no axis. Ops whose operands have to fit may refuse; what they give is right."""
    for how in forms.CUTS:
        for sample in forms.every(op):
            with noted(how, sample):
                check_size(op, forms.cut(op, sample, how), how == "no element" and op.name in BATCHED)


def check_size(op: OpInfo, sample: Sample, must_work: bool) -> None:
    if by_numpy(op):
        check(op, sample)
        return
    ours, theirs = given(op, sample), expected(op, sample)
    if isinstance(ours, Decline):
        return
    if isinstance(ours, Exception):
        assert isinstance(ours, ValueError | IndexError | TypeError), ours
        fits = op.shape_rule in ("elementwise", "reduce") and not isinstance(theirs, Exception)
        assert not fits and not must_work, ours
    elif not isinstance(theirs, Exception):
        compare(op, ours, theirs)
