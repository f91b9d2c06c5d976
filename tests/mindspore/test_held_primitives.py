"""Every primitive that MindSpore's own layers hold has a row, or stands in a table with its reason."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import mindspore as ms
import pytest
from mindspore import nn, ops
from mindspore.ops import Primitive

from bcvm_core.mindspore import primitive_lines, primitives
from bcvm_core.mindspore.primitives_more import LEFT
from bcvm_core.ops import registry

pytestmark = pytest.mark.mindspore
LAYERS = """
Dense(3, 4) | Dense(3, 4, activation='relu') | BiDense(2, 3, 4) | SequentialCell(nn.ReLU()) | Flatten() | Identity() | Dropout(p=0.5)
Dropout1d() | Dropout2d() | Dropout3d() | Unflatten(1, (2, 2)) | Conv1d(3, 4, 2, has_bias=True) | Conv2d(3, 4, 3, has_bias=True)
Conv2d(4, 4, 3, pad_mode='pad', padding=1, group=4) | Conv3d(3, 4, 3, has_bias=True) | Conv1dTranspose(3, 4, 2, has_bias=True)
Conv2dTranspose(3, 4, 3, has_bias=True) | Conv3dTranspose(3, 4, 3, has_bias=True) | BatchNorm1d(4) | BatchNorm2d(4) | BatchNorm3d(4)
SyncBatchNorm(4) | LayerNorm((4,)) | GroupNorm(2, 4) | InstanceNorm1d(4) | InstanceNorm2d(4) | InstanceNorm3d(4) | MaxPool1d(2)
MaxPool2d(2) | MaxPool2d(2, pad_mode='pad', padding=1) | MaxPool2d(2, pad_mode='pad', return_indices=True) | MaxPool3d(2) | AvgPool1d(2)
AvgPool2d(2) | AvgPool2d(2, pad_mode='pad', padding=1) | AvgPool3d(2) | LPPool1d(2, 2) | LPPool2d(2, 2) | AdaptiveAvgPool1d(2)
AdaptiveAvgPool2d(2) | AdaptiveAvgPool3d(2) | AdaptiveMaxPool1d(2) | AdaptiveMaxPool2d(2) | AdaptiveMaxPool3d((2, 2, 2))
FractionalMaxPool2d(2, output_size=(2, 2)) | FractionalMaxPool3d(2, output_size=(2, 2, 2))
MaxUnpool1d(2) | MaxUnpool2d(2) | MaxUnpool3d(2)
ReLU() | ReLU6() | LeakyReLU() | RReLU() | ELU() | SeLU() | CELU() | GELU() | FastGelu() | Sigmoid() | Tanh() | Tanhshrink() | Softmax()
Softmax2d() | LogSoftmax() | Softmin() | LogSigmoid() | SiLU() | Mish() | HSwish() | HSigmoid() | Hardtanh() | SoftShrink() | HShrink()
Softsign() | PReLU() | Threshold(0.1, 1.0) | GLU() | LRN() | Embedding(5, 4) | Embedding(5, 4, use_one_hot=True) | EmbeddingLookup(5, 4)
MultiFieldEmbeddingLookup(5, 4, 2) | OneHot(depth=4) | Norm() | ClipByNorm() | Pad(((1, 1), (0, 0))) | Tril() | Triu() | Roll(1, 0)
Unfold([1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1]) | Range(0, 4) | Moments() | Upsample(scale_factor=2.0, recompute_scale_factor=True)
PixelShuffle(2) | PixelUnshuffle(2) | ChannelShuffle(2) | ConstantPad1d(1, 0.5) | ConstantPad2d(1, 0.5) | ConstantPad3d(1, 0.5)
ZeroPad2d(1)
ReflectionPad1d(1) | ReflectionPad2d(1) | ReflectionPad3d(1) | ReplicationPad1d(1) | ReplicationPad2d(1) | ReplicationPad3d(1) | RNN(3, 4)
GRU(3, 4) | LSTM(3, 4) | RNNCell(3, 4) | GRUCell(3, 4) | LSTMCell(3, 4) | MultiheadAttention(4, 2) | TransformerEncoderLayer(4, 2)
TransformerDecoderLayer(4, 2) | Transformer(4, 2, 1, 1) | L1Loss() | MSELoss() | RMSELoss() | MAELoss() | SmoothL1Loss() | HuberLoss()
SoftMarginLoss() | SoftmaxCrossEntropyWithLogits() | SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean') | CrossEntropyLoss()
NLLLoss() | BCELoss() | BCEWithLogitsLoss() | KLDivLoss() | CosineEmbeddingLoss() | MarginRankingLoss() | HingeEmbeddingLoss()
TripletMarginLoss() | TripletMarginWithDistanceLoss() | MultilabelMarginLoss() | MultiLabelSoftMarginLoss() | MultiMarginLoss()
PoissonNLLLoss() | GaussianNLLLoss() | DiceLoss() | MultiClassDiceLoss() | FocalLoss() | CTCLoss() | SampledSoftmaxLoss(2, 5, 1)
WithLossCell(nn.Dense(3, 4), nn.MSELoss()) | WithEvalCell(nn.Dense(3, 4), nn.MSELoss()) | TimeDistributed(nn.Dense(3, 4), 1)
L1Regularizer(0.1) | ForwardValueAndGrad(nn.Dense(3, 4)) | DynamicLossScaleUpdateCell(2.0, 2, 2) | ReduceLogSumExp(1) | MatrixDiag()
"""
NAMES = [name.strip() for name in LAYERS.replace("\n", " | ").split(" | ") if name.strip()]


def held(cell: Any) -> list[Any]:
    """The primitive objects among the attributes of a layer and its parts."""
    return [value for _, part in cell.cells_and_names() for value in part.__dict__.values() if isinstance(value, Primitive)]


def test_every_one_is_known() -> None:
    left: dict[str, list[str]] = defaultdict(list)
    classes = set()
    for name in NAMES:
        for value in held(eval(f"nn.{name}", {"nn": nn})):
            classes.add(type(value).__name__)
            if registry.by_callable(value) is None:
                left[type(value).__name__].append(name)
    assert len(classes) > 90
    assert set(left) <= set(LEFT), {name: where for name, where in left.items() if name not in LEFT}


def test_reasons_are_for_what_is_left() -> None:
    """No reason outlives the row that makes it void."""
    known = primitive_lines.lines()
    assert {name for name in LEFT if name in known} == {"BatchNorm"}
    assert all(primitives.classes_called(name) for name in LEFT if not name.startswith(("Cus", "CholeskyTrsm", "DetTriangle")))


def test_the_page_lists_all_classes() -> None:
    text = primitive_lines.as_markdown()
    assert all(f"`{name}`" in text for name in [*primitive_lines.lines(), *LEFT])


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Dense(3, 4)", (2, 3)),
        ("Conv2d(3, 4, 3, has_bias=True)", (2, 3, 8, 8)),
        ("Conv2d(3, 6, 3, stride=2, pad_mode='pad', padding=1, group=3)", (2, 3, 8, 8)),
        ("Conv1d(3, 4, 2)", (2, 3, 8)),
        ("Conv3d(3, 4, 2)", (2, 3, 4, 4, 4)),
        ("BatchNorm2d(3)", (2, 3, 4, 4)),
        ("LayerNorm((4,))", (2, 3, 4)),
        ("MaxPool2d(3, 2, pad_mode='pad', padding=1)", (2, 3, 8, 8)),
        ("AvgPool2d(3, 2, pad_mode='pad', padding=1)", (2, 3, 8, 8)),
        ("AvgPool2d(2, 2)", (2, 3, 8, 8)),
        ("Conv2dTranspose(3, 4, 3, stride=2, has_bias=True)", (2, 3, 5, 5)),
        ("AdaptiveAvgPool2d(2)", (2, 3, 8, 8)),
        ("PReLU()", (2, 3, 4, 4)),
        ("Softmax()", (2, 5)),
        ("LRN()", (2, 3, 4, 4)),
    ],
)
def test_layers_give_what_mindspore_gives(layer: str, shape: tuple[int, ...]) -> None:
    """The objects that a layer holds, called one by one as its construct does, in the VM."""
    import numpy as np
    from door_support import array, tensor

    import bcvm_core as bcvm

    cell = eval(f"nn.{layer}", {"nn": nn}).set_train(False)
    x = tensor(np.random.default_rng(5).normal(size=shape))
    wanted = array(cell(x))
    with bcvm.enable():
        before = bcvm.stats().call_host
        result = cell(x)
        assert bcvm.stats().call_host == before, bcvm.stats().reasons
    assert isinstance(result, ms.Tensor)
    np.testing.assert_allclose(array(result), wanted, rtol=1e-5, atol=1e-5)


def test_ops_of_the_most_used_list_have_objects() -> None:
    names = (
        "Reshape Transpose Concat Stack Split Tile ExpandDims Gather StridedSlice BroadcastTo Squeeze Flatten GatherNd GatherD MaskedSelect"
        " Meshgrid Unstack Select Triu Tril ReverseV2 Zeros Ones ZerosLike OnesLike Eye OneHot Mul Add Sub Div Pow Maximum Minimum FloorDiv"
        " FloorMod Atan2 Sigmoid Log Exp Sqrt Square Abs Sin Cos Tanh Rsqrt Neg Floor Ceil Sign Erf Atan LogicalAnd LogicalOr LogicalNot"
        " MaskedFill ReduceAll ReduceAny ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd Argmax Argmin CumSum Sort TopK MatMul"
        " BatchMatMul Dense Einsum Conv2D BatchNorm LayerNorm MaxPool AvgPool AdaptiveAvgPool2D Conv2DTranspose ReLU Softmax GeLU"
        " LogSoftmax HSwish ReLU6"
    )
    assert set(names.split()) <= set(primitive_lines.lines())
    assert all(hasattr(ops, name) or hasattr(ops.operations, name) for name in names.split())
