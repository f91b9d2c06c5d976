"""Error inputs of every op: samples with one thing wrong, and what must come of them.

Where NumPy spells the op, whatever NumPy refuses must be refused with the same exception. For the others
`FAULTS` says which faults an op refuses, and `KINDS` with what. `SPECIAL` has calls of ops that
take any tensor; `ANYTHING` names those for which nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bcvm_core.ops.registry import OpInfo
from tests import sample_forms as forms
from tests.sample_values import Sample, call, matrix

_WORDS = "reduction mode padding layout approximate side indexing rounding_mode".split()
_COUNTS = "kernel_size groups num_groups chunks bins upscale_factor downscale_factor block output_size indices_or_sections delta".split()
_PLACES = "k index start num_samples".split()
_INDICES = "index indices target lengths".split()


def spoiled(op: OpInfo, sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The sample with one fault after the other, as far as the op has what can be wrong."""
    operands, attrs = sample
    names, known = [p.name for p in op.operands], {p.name for p in op.params}
    if forms.has_floats(sample):
        yield "complex", forms.first(sample, lambda value: value.astype(np.complex64))
    yield "text", forms.first(sample, lambda value: np.full(value.shape, "a"))
    yield "rank", forms.first(sample, lambda value: np.array(value.reshape(-1)[0]) if value.size else value)
    arrays = [i for i, value in enumerate(operands) if isinstance(value, np.ndarray)]
    if len(arrays) > 1:
        yield "shape", (_put(operands, arrays[1], np.resize(operands[arrays[1]], (2, 7))), attrs)
    if "axis" in known:
        yield "axis", (operands, {**attrs, "axis": 99})
    for name in known - set(names):
        for fault, those, value in (("word", _WORDS, "no such word"), ("zero", _COUNTS, 0), ("far", _PLACES, 99)):
            if name in those:
                yield fault, (operands, {**attrs, name: value})
    for i, (name, value) in enumerate(zip(names, operands, strict=False)):
        if name in _INDICES and isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            yield "far", (_put(operands, i, value + 99), attrs)


def _put(operands: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*operands[:place], value, *operands[place + 1 :])


KINDS: dict[str, type[Exception] | tuple[type[Exception], ...]] = {
    "complex": TypeError,
    "text": TypeError,
    "axis": np.exceptions.AxisError,
    "shape": ValueError,
    "rank": (ValueError, IndexError),
    "word": ValueError,
    "zero": ValueError,
    "far": IndexError,
}

_GROUPS = {
    "axis": "sort_pairs max_pairs min_pairs unique_consecutive",
    "complex text": (
        "frac logit erfinv sinc softplus sigmoid silu logsigmoid mish erf erfc selu celu softshrink hardshrink tanhshrink dropout "
        "bernoulli fast_gelu l2_loss is_neg_inf is_pos_inf"
    ),
    "complex text rank": "layer_norm rms_norm batch_norm_train instance_norm affine_grid dropout_channels local_response_norm",
    "complex text rank axis": "softmax log_softmax glu logsumexp var_mean std_mean normalize l2_normalize",
    "complex text rank word": "interpolate",
    "complex text rank zero": "lp_pool1d lp_pool2d lp_pool3d group_norm",
    "complex text shape": "lerp addcmul addcdiv xlogy polar is_close all_close embedding pairwise_distance",
    "complex text shape axis": "cosine_similarity",
    "complex text shape rank": "prelu batch_norm attention cdist batch_norm_parts layer_norm_parts softmax_cross_entropy",
    "complex text shape rank far": "scatter_nd",
    "complex text shape rank word": "gaussian_nll_loss grid_sample",
    "complex text shape rank word far": "cross_entropy nll_loss",
    "complex text shape word": (
        "divide_rounded mse_loss l1_loss smooth_l1_loss binary_cross_entropy bce_with_logits kl_div soft_margin_loss hinge_embedding_loss "
        "margin_ranking_loss cosine_embedding_loss triplet_margin_loss poisson_nll_loss"
    ),
    "complex text shape word zero": "huber_loss",
    "complex text word": "gelu",
    "far": "flatten_axes",
    "rank": "permute crop strided_slice embedding_lookup",
    "rank axis": "unbind",
    "rank axis far": "gather narrow select topk kthvalue",
    "rank axis zero": "chunk",
    "rank word zero": "unfold",
    "rank zero": (
        "pixel_shuffle pixel_unshuffle channel_shuffle adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d depth_to_space "
        "space_to_depth"
    ),
    "shape": "masked_fill baddbmm masked_select bucketize",
    "shape axis far": "gather_elements",
    "shape rank": "setitem search_rows",
    "shape rank axis far": "index_select index_fill reverse_sequence",
    "shape rank far": "gather_nd",
    "shape rank word zero far": "max_unpool1d max_unpool2d max_unpool3d",
    "text": "cast relu relu6 leaky_relu elu hardsigmoid hardswish hardtanh softsign rsqrt one_hot",
    "text axis": "lower_median cummax cummin",
    "text rank": "add_all",
    "text rank axis": "vector_norm",
    "text rank far": "multinomial",
    "text rank word zero": "fold max_pool2d avg_pool2d adaptive_avg_pool2d max_pool1d max_pool3d avg_pool1d avg_pool3d",
    "text rank zero": "adaptive_avg_pool1d adaptive_avg_pool3d",
    "text shape": "add_scaled subtract_scaled addmm addmv addr addbmm squared_difference divide_no_nan",
    "text shape axis": "cross",
    "text shape rank": "bmm linear triangular_solve matmul_transposed",
    "text shape rank axis": "bias_add",
    "text shape rank axis far": "scatter scatter_add index_add",
    "text shape rank word": "conv_tbc",
    "text shape rank word far": "tensor_scatter unsorted_segment",
    "text shape rank word zero": "conv2d conv1d conv_transpose2d conv_transpose1d conv3d conv2d_input conv_transpose3d",
    "text zero": "histc",
}
FAULTS: dict[str, set[str]] = {name: set(faults.split()) for faults, names in _GROUPS.items() for name in names.split()}
"""Op that NumPy does not spell -> the faults it refuses."""

ADD_TEXT = {"fold", "scatter_add"}
"""Ops that only add: NumPy 2 adds texts."""

_VALUE = "cast vector_norm avg_pool2d adaptive_avg_pool2d avg_pool1d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool3d histc multinomial"
_NUMBERS = "conv_transpose2d conv_transpose1d conv_transpose3d unfold fold max_pool1d max_pool3d avg_pool1d avg_pool3d"
OTHERWISE: dict[tuple[str, str], type[Exception] | tuple[type[Exception], ...]] = {
    **{(name, "text"): ValueError for name in _VALUE.split()},  # "could not convert string to float"
    **{(f"max_unpool{rank}d", "word"): TypeError for rank in (1, 2, 3)},
    **{(name, "word"): TypeError for name in _NUMBERS.split()},  # a padding that can only be numbers
    **{(name, "far"): ValueError for name in "narrow topk kthvalue multinomial reverse_sequence".split()},  # too many, not outside
    ("embedding", "shape"): IndexError,
    **{(f"max_unpool{rank}d", "zero"): (ValueError, TypeError) for rank in (1, 2, 3)},  # a window of 0, or an output that is no shape
    ("scatter_nd", "complex"): IndexError,
    ("scatter_nd", "text"): IndexError,
}

SPECIAL: dict[str, list[tuple[Sample, type[Exception]]]] = {
    "threshold": [(call(matrix(), threshold="a", value=1.0), ValueError)],
    "steps": [(call(start=1, end=2, step=0), ZeroDivisionError), (call(start="a", end=3), TypeError)],
    "normal": [(call(shape=(-1,), key=7), ValueError)],
    "uniform": [(call(shape=(-1,), key=7), ValueError)],
    "randint": [(call(low=9, high=9, shape=(3,), key=7), ValueError), (call(low=0, high=9, shape=(-1,), key=7), ValueError)],
    "permutation": [(call(n=1.5, key=7), ValueError)],
    "nan_to_num": [(call(matrix(), nan="a"), TypeError)],
    "fill": [(call(matrix(), value="a"), ValueError), (call(matrix(), value=np.ones(7)), ValueError)],
    "ravel": [(call(matrix(), order="X"), ValueError)],
    "flatten": [(call(matrix(), order="X"), ValueError)],
    "copy": [(call(matrix(), order="X"), ValueError)],
    "copy_method": [(call(matrix(), order="X"), ValueError)],
    "broadcast_to": [(call(matrix(), shape=(2, 2)), ValueError)],
    "broadcast_arrays": [(call([matrix(), matrix()[:2]]), ValueError)],
    "view": [(call(matrix()[:, ::2], dtype=np.float64), ValueError), (call(matrix(), dtype="zz"), TypeError)],
    "ascontiguousarray": [(call(matrix(), dtype="zz"), TypeError)],
    "tile": [(call(matrix(), reps="a"), ValueError), (call(matrix(), reps=(-1,)), ValueError)],
    "item": [(call(matrix()), ValueError), (call(matrix(), args=(99,)), IndexError)],
    "bool": [(call(matrix()), ValueError)],
    "int": [(call("a"), ValueError)],
    "float": [(call("a"), ValueError)],
    "min_of": [(call([]), TypeError), (call([1]), TypeError)],
    "max_of": [(call([]), TypeError), (call([1]), TypeError)],
    "slice": [(call(), TypeError)],
    "range": [(call(args=(1.5,)), TypeError), (call(args=(1, 2, 0)), ValueError)],
    "zeros": [(call(shape=-1), ValueError), (call(shape=2, dtype="zz"), TypeError)],
    "ones": [(call(shape=-1), ValueError), (call(shape="a"), TypeError)],
    "empty": [(call(shape=-1), ValueError)],
    "full": [(call(shape=-1, fill_value=1), ValueError), (call(shape=2, fill_value="a", dtype=float), ValueError)],
    "zeros_like": [(call(matrix(), dtype="zz"), TypeError), (call(matrix(), shape=-1), ValueError)],
    "ones_like": [(call(matrix(), dtype="zz"), TypeError)],
    "empty_like": [(call(matrix(), dtype="zz"), TypeError)],
    "full_like": [(call(matrix(), fill_value="a"), ValueError)],
    "arange": [(call(args=()), TypeError), (call(args=(1, 9, 0)), ZeroDivisionError)],
    "eye": [(call(N=-1), ValueError), (call(N="a"), TypeError)],
    "identity": [(call(n=-1), ValueError)],
    "array": [(call(object=[1, 2], dtype="zz"), TypeError), (call(object=[[1], [1, 2]]), ValueError)],
    "asarray": [(call(object=[1, 2], dtype="zz"), TypeError), (call(object=[[1], [1, 2]]), ValueError)],
    "size_of": [(call(matrix(), axis=9), IndexError)],
    "len": [(call(np.array(1.0)), TypeError)],
}

ANYTHING = {
    "nonzero", "argwhere", "flatnonzero", "atleast_1d", "atleast_2d", "atleast_3d", "shape", "ndim", "size", "dtype", "itemsize",
    "nbytes", "strides", "transposed", "real", "imag", "real_part", "imag_part", "shape_of", "ndim_of", "tolist",
}  # fmt: skip
"""Ops that look at any array there is and have no parameter, so that nothing can be wrong."""
