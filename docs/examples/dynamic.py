"""The examples that the documentation prints."""

import bcvm_core as bcvm
from bcvm_core import Tensor


@bcvm.jit
def dynamic_forward(x: Tensor["B", "C", "H", "W"], cond: Tensor[()]):
    if cond:
        out = bcvm.ops.relu(x) + 1.0
    else:
        out = bcvm.ops.sigmoid(x) * 2.0
    return out
