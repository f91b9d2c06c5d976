"""The spelling tables: they parse, name what is there, and say what MindSpore's own signatures say."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import mindspore as ms
import pytest
from door_support import MODULES, tensor

from bcvm_core.mindspore import handlers, promotion, spellings, spellings_tensor
from bcvm_core.ops import registry
from bcvm_core.ops.registry import Spelling

pytestmark = pytest.mark.mindspore
TABLES = spellings.tables()
OWNERS = {
    "mindspore.ops": MODULES["ops"],
    "mindspore.numpy": ms.numpy,
    "mindspore.mint": MODULES["mint"],
    "mindspore.mint.nn.functional": MODULES["F"],
    "mindspore.mint.linalg": MODULES["mint"].linalg,
    "mindspore.mint.special": MODULES["mint"].special,
    "mindspore.Tensor": ms.Tensor,
}

# What public MindSpore model code uses most, as far as the op table has a row for it.
MOST_USED = {
    "ops": """
        reshape concat cat transpose stack split tile expand_dims broadcast_to squeeze unsqueeze flip permute swapaxes chunk
        repeat_interleave pad gather_elements index_select nonzero meshgrid unbind unstack triu tril roll zeros_like ones_like
        full_like mul add sub div pow maximum minimum floor_divide remainder atan2 sigmoid log exp sqrt square abs sin cos tanh
        round rsqrt neg floor ceil sign erf log2 atan clamp logical_and logical_or logical_not eq ne lt le gt ge where masked_fill
        all any bitwise_and sum mean prod argmax argmin cumsum norm var std amax logsumexp sort argsort matmul bmm outer einsum
        conv1d conv2d layer_norm group_norm batch_norm max_pool2d avg_pool2d adaptive_avg_pool2d relu softmax gelu silu
        log_softmax hardswish leaky_relu relu6 cross_entropy mse_loss l1_loss smooth_l1_loss binary_cross_entropy_with_logits cast
    """,
    "mint": """
        reshape concat cat transpose stack split tile broadcast_to squeeze unsqueeze flip permute chunk repeat_interleave gather
        index_select nonzero meshgrid unbind triu tril roll zeros_like ones_like full_like mul add sub div pow maximum minimum
        floor_divide remainder atan2 sigmoid log exp sqrt square abs sin cos tanh round rsqrt neg floor ceil sign erf log2 atan
        clamp logical_and eq ne lt where all any sum mean max min prod argmax argmin cumsum norm var std amax logsumexp sort
        argsort matmul bmm outer einsum softmax
    """,
    "F": """
        relu softmax gelu silu log_softmax hardswish leaky_relu relu6 linear conv2d conv1d layer_norm group_norm batch_norm
        max_pool2d avg_pool2d adaptive_avg_pool2d interpolate embedding pad cross_entropy mse_loss l1_loss smooth_l1_loss
        binary_cross_entropy_with_logits
    """,
}
METHODS = """
    reshape transpose split tile expand_dims broadcast_to squeeze unsqueeze view flatten permute swapaxes chunk repeat_interleave
    gather_elements index_select nonzero unbind triu tril roll mul add sub div pow maximum minimum floor_divide remainder atan2
    sigmoid log exp sqrt square abs sin cos tanh round rsqrt neg floor ceil sign erf atan clamp logical_and eq ne lt le gt ge
    where masked_fill all any sum mean max min prod argmax argmin cumsum norm var std logsumexp argsort matmul bmm outer softmax
    astype to item tolist add_ mul_ exp_
"""


def entries() -> Iterator[tuple[str, spellings.Line]]:
    for owner, lines in TABLES.items():
        for line in lines:
            yield owner, line


def chain(spelling: Spelling | None) -> Iterator[Spelling]:
    while spelling is not None:
        yield spelling
        spelling = spelling.otherwise


def test_every_line_names_a_row_and_a_callable() -> None:
    rows = {row.name for row in registry.rows()}
    assert [line for _, line in entries() if line.row not in rows] == []
    assert [f"{owner}.{line.name}" for owner, line in entries() if not hasattr(OWNERS[owner], line.name)] == []


def test_canonical_names_are_the_rows() -> None:
    wrong = []
    for owner, line in entries():
        row = registry.row(line.row)
        spelling = spellings.spelling(line, row, owner)
        parameters = {p.name for p in row.params}
        wrong += [f"{line}: {name}" for name in spelling.rename.values() if name not in parameters]
        wrong += [f"{line}: {name}" for name in spelling.fixed if name not in parameters | {"dialect"}]
    assert wrong == []


def test_signatures_are_mindspores() -> None:
    """Same parameters, same order, same defaults, for callables that show them."""
    wrong = []
    for owner, line in entries():
        if line.parameters is None or owner == "mindspore.Tensor":
            continue
        try:
            theirs = inspect.signature(getattr(OWNERS[owner], line.name))
        except (TypeError, ValueError):
            continue
        kinds = {p.kind for p in theirs.parameters.values()}
        if inspect.Parameter.VAR_KEYWORD in kinds or (
            inspect.Parameter.VAR_POSITIONAL in kinds and "*" not in line.parameters.split(",")[0]
        ):
            continue  # a callable that sorts its arguments itself shows nothing
        ours = inspect.signature(eval(f"lambda {spellings._RENAMED.sub(chr(92) + '2', line.parameters)}: 0"))
        for name, mine in ours.parameters.items():
            other = theirs.parameters.get(name)
            if other is None:
                wrong.append(f"{owner}.{line.name}: no parameter {name} in {theirs}")
            elif mine.default is not mine.empty and mine.default not in (other.default, None) and other.default is not None:
                wrong.append(f"{owner}.{line.name}: {name}={mine.default}, MindSpore {other.default}")
        required = [n for n, p in theirs.parameters.items() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        wrong += [f"{owner}.{line.name}: {n} is required" for n in required if n not in ours.parameters and "*" not in line.parameters]
        positional = [n for n, p in theirs.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        mine_positional = [n for n, p in ours.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if mine_positional != positional[: len(mine_positional)] and "*" not in line.parameters.split(",")[0]:
            wrong.append(f"{owner}.{line.name}: {mine_positional} against {positional}")
    assert wrong == [], wrong


def test_method_objects_carry_their_names() -> None:
    """A site that holds `x.sum` finds the method by its receiver and name."""
    x = tensor([1.0])
    for line in spellings.parse(spellings_tensor.TENSOR):
        if line.parameters is not None:
            method = getattr(x, line.name)
            assert method.__self__ is x and method.__name__ == line.name


@pytest.mark.parametrize("module", MOST_USED)
def test_most_used_functions_are_spelled(module: str) -> None:
    there = [name for name in MOST_USED[module].split() if hasattr(MODULES[module], name)]
    assert [name for name in there if registry.by_callable(getattr(MODULES[module], name)) is None] == []


def test_most_used_methods_are_spelled() -> None:
    assert [name for name in METHODS.split() if registry.method_spelling_for(ms.Tensor, name) is None] == []
    parameter = type(ms.Parameter(tensor([1.0]), name="p"))
    assert registry.method_spelling_for(parameter, "sum") == registry.method_spelling_for(ms.Tensor, "sum")


def test_rules_and_handlers_are_about_rows() -> None:
    rows = {row.name for row in registry.rows()}
    assert sorted(promotion.RULES.keys() - rows) == []
    assert sorted(name for name in handlers.HANDLERS if name.partition(":")[0] not in rows) == []


def test_every_spelled_row_has_a_meaning_for_mindspore() -> None:
    """A spelling whose op the adapter always hands back would only look like support."""
    empty = []
    for _, line in entries():
        row = registry.row(line.row)
        dialect = ast.literal_eval(line.fixed.partition("dialect=")[2].partition(",")[0] or "''")
        if not {row.name, f"{row.name}:{dialect}"} & handlers.HANDLERS.keys() and promotion.rule_of(row) is None:
            empty.append(row.name)
    assert empty == []


def test_overloads_are_tried_in_order() -> None:
    x = tensor([[1.0, 2.0]])
    found = registry.method_spelling_for(ms.Tensor, "transpose")
    assert found is not None and len(list(chain(found[1]))) == 2
    assert registry.bind(*found, (0, 1), {}, x).op.name == "swapaxes"  # type: ignore[union-attr]
    assert registry.bind(*found, ((1, 0),), {}, x).op.name == "transpose"  # type: ignore[union-attr]
    maximum = registry.method_spelling_for(ms.Tensor, "max")
    assert maximum is not None and registry.bind(*maximum, (0,), {}, x).op.name == "max_pairs"  # type: ignore[union-attr]
    assert registry.bind(*maximum, (), {"axis": 0}, x).op.name == "max"  # type: ignore[union-attr]


def test_parameters_that_a_row_does_not_have() -> None:
    """`only`: a constant is dropped, another value is looked at when the call runs; `also`: passed along."""
    found = registry.by_callable(MODULES["F"].relu)
    assert found is not None
    constant, name = (ast.parse(text, mode="eval").body for text in ("False", "flag"))
    assert registry.bind(*found, (1,), {"inplace": constant}).attrs == {}  # type: ignore[union-attr]
    nodes = registry.bind(*found, (name,), {"inplace": name})
    assert nodes is not None and nodes.attrs["inplace"] is name and nodes.attrs["only"].value == (("inplace", False),)
    assert registry.bind(*found, (1,), {"inplace": True}).attrs == {"inplace": True, "only": (("inplace", False),)}  # type: ignore[union-attr]
    soft = registry.by_callable(MODULES["F"].softmax)
    assert soft is not None and registry.bind(*soft, (1, 2), {"dtype": 3}).attrs == {"axis": 2, "dtype": 3}  # type: ignore[union-attr]


def test_defaults_of_their_own_are_passed() -> None:
    found = registry.by_callable(MODULES["mint"].std)
    assert found is not None
    bound = registry.bind(*found, (1,), {})
    assert bound is not None and bound.attrs == {"ddof": 1}
    nodes = registry.bind(*found, (ast.parse("x", mode="eval").body,), {})
    assert nodes is not None and isinstance(nodes.attrs["ddof"], ast.Constant) and nodes.attrs["ddof"].value == 1


def test_numpy_functions_of_tensors_are_numpys() -> None:
    import numpy as np

    found = registry.by_callable(np.exp)
    assert found is not None
    assert registry.takes(found[1], "numpy") and not registry.takes(found[1], "mindspore")


@pytest.mark.parametrize("text", ["nonsense", "a = b(", "sum = sum(x"])
def test_bad_lines_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        spellings.parse(text)


def test_lines_of_rows_that_are_not_there_are_passed_over() -> None:
    line: Any = spellings.parse("no_such_op = add(x:input, y:other)")
    assert spellings.chains(line, "mindspore.ops") == []
