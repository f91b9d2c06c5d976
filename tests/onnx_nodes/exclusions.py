"""What is left out of the node tests, each with its reason; `test_onnx_nodes.py` asserts that no entry is stale."""

from __future__ import annotations

_TEXT = "works on text"
_RANDOM = "random numbers of another generator"
_CONTAINER = "sequences and optional values are Python's lists and None here: no tensor work"

TYPES: dict[str, str] = {
    "Bernoulli": _RANDOM,
    "ImageDecoder": "reads files of images",
    "LabelEncoder": _TEXT,
    "OptionalGetElement": _CONTAINER,
    "OptionalHasElement": _CONTAINER,
    "RandomUniformLike": _RANDOM,
    "RegexFullMatch": _TEXT,
    "SequenceEmpty": _CONTAINER,
    "SequenceInsert": _CONTAINER,
    "SequenceLength": _CONTAINER,
    "SequenceMap": _CONTAINER,
    "SplitToSequence": _CONTAINER,
    "StringConcat": _TEXT,
    "StringNormalizer": _TEXT,
    "StringSplit": _TEXT,
    "TfIdfVectorizer": "counts n-grams of words",
    "TreeEnsemble": "decision trees",
}
"""Op types without an expression."""

_STEPS = "the recording adds and rounds 16 bits at every step of its softmax; here sums are rounded once"
TESTS: dict[str, str] = {
    "test_scan_sum": "the form of version 8, with a batch axis of its own",
    "test_col2im_5d": "`ops.fold` puts images together, not volumes",
    "test_training_dropout": _RANDOM,
    "test_training_dropout_default": _RANDOM,
    "test_training_dropout_default_mask": _RANDOM,
    "test_training_dropout_mask": _RANDOM,
    "test_attention_3d_causal_bf16": _STEPS,
    "test_attention_3d_causal_bf16_expanded": _STEPS,
    "test_attention_4d_attn_mask_causal_bf16_expanded": _STEPS,
    "test_attention_4d_causal_bf16": _STEPS,
    "test_attention_4d_causal_bf16_expanded": _STEPS,
    "test_attention_4d_causal_fp16_expanded": _STEPS,
    "test_attention_4d_causal_padded_kv_bf16": _STEPS,
    "test_attention_4d_causal_padded_kv_bf16_expanded": _STEPS,
    "test_attention_4d_padded_kv_bf16": _STEPS,
    "test_attention_4d_padded_kv_bf16_expanded": _STEPS,
}
"""Tests of expressed op types."""

COARSE: dict[str, str] = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "recorded with four digits",
    "test_gridsample_bicubic": "recorded with four digits",
    "test_roialign_aligned_false": "recorded with four digits",
    "test_roialign_aligned_true": "recorded with four digits",
}
"""Tests that agree to ONNX's own tolerance of 1e-3, not to ours."""

NOISY: dict[str, str] = dict.fromkeys(
    ("test_dft_inverse", "test_dft_inverse_opset19"),
    "NumPy 2 transforms float32 in float32: what is recorded for zeros is 1e-7 of the largest number",
)
"""Tests whose recorded zeros are none where the installed NumPy computed them so; close to them is close to 1e-6 of the largest number."""

ELEMENT_TYPES: dict[str, str] = {
    "object": "text, which no tensor of BCVM holds",
    **dict.fromkeys(
        ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
        "floats of 8 and 4 bits are no element types of BCVM",
    ),
    **dict.fromkeys(("int4", "uint4", "int2", "uint2"), "integers of 4 and 2 bits are no element types of BCVM"),
}
"""Element types of inputs and outputs."""

NO_TENSOR = _CONTAINER
"""Reason for inputs and outputs that are no tensors."""
