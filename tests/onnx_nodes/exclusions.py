"""What is left out of the node tests, each with its reason; `test_onnx_nodes.py` asserts that no entry is stale."""

from __future__ import annotations

TYPES: dict[str, str] = dict.fromkeys(
    """
    Adagrad Adam AffineGrid ArrayFeatureExtractor Attention AveragePool BatchNormalization Bernoulli Binarizer
    BlackmanWindow CausalConvWithState CenterCropPad Col2Im Conv ConvInteger ConvTranspose DFT DeformConv DepthToSpace
    DequantizeLinear Dropout DynamicQuantizeLinear FlexAttention GRU GatherND GlobalAveragePool GlobalMaxPool GridSample
    GroupNormalization HammingWindow HannWindow If ImageDecoder InstanceNormalization LRN LSTM LabelEncoder
    LayerNormalization LinearAttention Loop LpNormalization LpPool MatMulInteger MaxPool MaxUnpool
    MeanVarianceNormalization MelWeightMatrix Momentum NegativeLogLikelihoodLoss NonMaxSuppression OptionalGetElement
    OptionalHasElement QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN RandomUniformLike RegexFullMatch
    Resize ReverseSequence RoiAlign RotaryEmbedding STFT Scan Scatter ScatterElements ScatterND SequenceEmpty
    SequenceInsert SequenceLength SequenceMap SoftmaxCrossEntropyLoss SpaceToDepth SplitToSequence StringConcat
    StringNormalizer StringSplit TensorScatter TfIdfVectorizer TreeEnsemble Unique Upsample
    """.split(),
    "not expressed yet",
)
"""Op types without an expression."""

_STEPS = "rounds to 16 bits at every step, where the recording rounds once: more than 1e-3 apart"
TESTS: dict[str, str] = {
    "test_attention_3d_causal_bf16_expanded": _STEPS,
    "test_attention_4d_attn_mask_causal_bf16_expanded": _STEPS,
    "test_attention_4d_causal_bf16_expanded": _STEPS,
    "test_attention_4d_causal_fp16_expanded": _STEPS,
    "test_attention_4d_causal_padded_kv_bf16_expanded": _STEPS,
    "test_attention_4d_padded_kv_bf16_expanded": _STEPS,
}
"""Tests of expressed op types."""

ELEMENT_TYPES: dict[str, str] = {
    "object": "text, which no tensor of BCVM holds",
    **dict.fromkeys(
        ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
        "floats of 8 and 4 bits are no element types of BCVM",
    ),
    **dict.fromkeys(("int4", "uint4", "int2", "uint2"), "integers of 4 and 2 bits are no element types of BCVM"),
}
"""Element types of inputs and outputs."""

NO_TENSOR = "sequences and optional values are Python's lists and None here: no tensor work"
"""Reason for inputs and outputs that are no tensors."""
