"""Where BCVM differs from MindSpore 2.10 on purpose, as data; the documentation's table is made from it.

MindSpore's CPU kernels are wrong there, or leave the result to chance; BCVM gives what NumPy defines.
Each row has an example that the tests run: its result is `ours`, and MindSpore's own is another one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """One kind of difference.

    `example` is an expression in MindSpore's spelling; `t(values, dtype="float32")` makes a tensor.
    `ours` and `mindspore` are the results in Python's notation; `mindspore` is None where it changes
    from run to run, and the name of an exception where MindSpore refuses. `why` says what is wrong with it.
    """

    what: str
    ops: str
    example: str
    ours: str
    mindspore: str | None
    why: str


TABLE: tuple[Deviation, ...] = (
    Deviation(
        "softmax of a row of -inf",
        "ops.softmax, mint.softmax, Tensor.softmax",
        "ops.softmax(t([[-inf, -inf], [0, 0]]))",
        "[[nan, nan], [0.5, 0.5]]",
        None,
        "the rows after it are spoiled",
    ),
    Deviation(
        "softmax of a row with +inf or NaN",
        "ops.softmax, mint.softmax, Tensor.softmax",
        "ops.softmax(t([[inf, 0.0, 1.0]]))",
        "[[nan, nan, nan]]",
        "[[nan, 0.0, 0.0]]",
        "inf - inf is no number, and neither is a share of it",
    ),
    Deviation(
        "NaN in maximum and minimum",
        "ops / mint / Tensor: maximum, minimum",
        "ops.maximum(t([nan, 1]), t([1, nan]))",
        "[nan, nan]",
        "[1.0, nan]",
        "NaN is dropped or kept by its side",
    ),
    Deviation(
        "empty results of maximum and minimum",
        "ops / mint / Tensor: maximum, minimum, of shapes that differ",
        "ops.maximum(t([]), t([1.0]))",
        "[]",
        "RuntimeError",
        "all other functions of two tensors give an empty result",
    ),
    Deviation("NaN in relu", "ops.relu, F.relu", "ops.relu(t([nan, -1, 2]))", "[nan, 0.0, 2.0]", "[0.0, 0.0, 2.0]", "NaN becomes 0"),
    Deviation(
        "NaN in clamp",
        "ops / mint / Tensor: clamp, clip",
        "ops.clamp(t([nan, 5]), 0, 1)",
        "[nan, 1.0]",
        "[0.0, 1.0]",
        "NaN becomes a bound",
    ),
    Deviation(
        "NaN in max and min over axes",
        "max, min, amax, amin",
        "t([1, nan, 0]).max()",
        "nan",
        "1.0",
        "NaN counts only in the first place",
    ),
    Deviation("NaN in argmax and argmin", "argmax, argmin", "t([1, nan, 3]).argmax()", "1", "2", "NaN counts only in the first place"),
    Deviation("sign of NaN", "ops / mint / Tensor: sign", "ops.sign(t([nan, -2]))", "[nan, -1.0]", "[0.0, -1.0]", "NaN becomes 0"),
    Deviation("softplus of NaN", "ops.softplus, F.softplus", "ops.softplus(t([nan]))", "[nan]", "[inf]", "NaN becomes inf"),
    Deviation(
        "sorting with NaN",
        "ops.sort, ops.argsort, Tensor.argsort",
        "ops.argsort(t([2, nan, 1]))",
        "[2, 0, 1]",
        "[0, 1, 2]",
        "nothing is sorted; NaN belongs last",
    ),
    Deviation("mean of nothing", "mean", "t([]).mean()", "nan", None, "the result is left-over memory"),
    Deviation("sum of nothing", "sum over all axes", "t([]).sum()", "0.0", None, "the result is left-over memory"),
    Deviation(
        "prod over an empty axis",
        "prod",
        "t([]).reshape(0, 3).prod(0)",
        "[1.0, 1.0, 1.0]",
        None,
        "all but the first element are left-over memory",
    ),
    Deviation("any of fractions", "any", "t([[0.25, 0]]).any()", "True", "False", "fractions are cut to integers first"),
    Deviation("any of nothing", "any", "t([]).any()", "False", None, "the result is left-over memory"),
    Deviation(
        "integers divided by zero, rounded down",
        "//, floor_divide, floor_div",
        't([1, -1], "int32") // 0',
        "[0, 0]",
        "[2147483647, -2147483648]",
        "NumPy defines 0",
    ),
    Deviation(
        "remainder of integers divided by zero",
        "%, floor_mod, remainder",
        't([1, -1], "int32") % 0',
        "[0, 0]",
        "[-2147483648, -2147483648]",
        "NumPy defines 0",
    ),
    Deviation(
        "quotients rounded down",
        "//, floor_divide, floor_div",
        "t([5, -5]) // t([inf, inf])",
        "[0.0, -1.0]",
        "[0.0, -0.0]",
        "the quotient is rounded twice: to a float first, then down",
    ),
    Deviation(
        "remainder of a division by infinity",
        "%, floor_mod, remainder",
        "t([5, -5]) % t([inf, inf])",
        "[5.0, inf]",
        "[nan, nan]",
        "the remainder is x - y * floor(x / y) with an infinite y",
    ),
    Deviation(
        "slices with a step backwards beside another slice",
        "x[::-1, 1:]",
        "t([[0, 1], [2, 3]])[::-1, 1:]",
        "[[3.0], [1.0]]",
        "[[1.0], [3.0]]",
        "the step backwards is forgotten",
    ),
    Deviation(
        "strided slices with new axes or an ellipsis",
        "StridedSlice objects with new_axis_mask or ellipsis_mask",
        "ops.StridedSlice(new_axis_mask=1)(t([[0, 1], [2, 3]]), (0, 0), (1, 2), (1, 1))",
        "[[[0.0, 1.0], [2.0, 3.0]]]",
        None,
        "elements are read from the wrong places, some from left-over memory",
    ),
    Deviation(
        "in-place methods",
        "add_, sub_, mul_, div_, exp_, floor_divide_, remainder_",
        "t([1, 2]).T.add_(3).T",
        "[4.0, 5.0]",
        "[4.0, 5.0]",
        "the tensor itself keeps its old value; under BCVM it changes",
    ),
    Deviation(
        "index_add of the older form",
        "Tensor.index_add(indices, y, axis)",
        "t([1, 2]).index_add(t([0, 0], 'int32'), t([5, 6]), 0)",
        "[12.0, 2.0]",
        "[12.0, 2.0]",
        "the tensor itself is changed; under BCVM it keeps its value",
    ),
    Deviation(
        "scatter that adds or multiplies",
        "Tensor.scatter(dim, index, src, reduce)",
        "t([[1, 2]]).scatter(1, t([[0, 1]], 'int64'), t([[3, 4]]), 'add')",
        "[[4.0, 6.0]]",
        None,
        "`reduce` is forgotten where the same shapes were scattered without it before",
    ),
    Deviation(
        "max and min over all axes with a first value",
        "Tensor.max, Tensor.min",
        "t([1, 2]).max(initial=9.0)",
        "9.0",
        "2.0",
        "`initial` counts only where an axis is named",
    ),
    Deviation(
        "float64 ops computed in float32",
        "std, sort, masked_fill, log_softmax, mish, gelu, ...",
        'ops.masked_fill(t([0.1], "float64"), t([False], "bool"), 0.0)',
        "[0.1]",
        "[0.10000000149011612]",
        "a float64 tensor is rounded to float32 on the way",
    ),
)


def as_markdown() -> str:
    """The table for the documentation."""
    head = "| what | ops | example | BCVM | MindSpore 2.10, CPU | why |\n| --- | --- | --- | --- | --- | --- |"
    rows = [
        f"| {d.what} | {d.ops} | `{d.example}` | `{d.ours}` | {f'`{d.mindspore}`' if d.mindspore is not None else 'changes'} | {d.why} |"
        for d in TABLE
    ]
    return "\n".join([head, *rows])
