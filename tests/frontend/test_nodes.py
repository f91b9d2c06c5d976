"""Walking, copying and placing of syntax trees, beside what `ast` does."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import pytest

import bcvm_core
from bcvm_core.frontend import nodes

FILES = sorted(Path(bcvm_core.__file__).parent.rglob("*.py"))[::9]


@pytest.fixture(scope="module")
def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]


def test_children_and_walks_are_those_of_ast(trees: list[ast.Module]) -> None:
    for tree in trees:
        everything = list(ast.walk(tree))
        assert sorted(map(id, nodes.walk(tree))) == sorted(map(id, everything))
        for node in everything:
            assert nodes.children(node) == list(ast.iter_child_nodes(node))


def test_copies_are_equal_and_share_nothing_that_can_change(trees: list[ast.Module]) -> None:
    for tree in trees:
        made = nodes.copied(tree)
        assert ast.dump(made, include_attributes=True) == ast.dump(tree, include_attributes=True)
        assert not {id(n) for n in ast.walk(made) if n._fields or n._attributes} & set(map(id, ast.walk(tree)))
        compile(made, "<copy>", "exec")


def test_copies_leave_behind_what_others_hung_on_nodes() -> None:
    tree = ast.parse("f(x)[1:2] += [y, *z]")
    for node in ast.walk(tree):
        node.parent = tree  # type: ignore[attr-defined]
    assert not any(hasattr(node, "parent") for node in ast.walk(nodes.copied(tree)) if node._fields)


def holes(tree: ast.AST, step: int) -> Any:
    """A copy in which every `step`th position is missing, in part or as a whole."""
    made = copy.deepcopy(tree)
    for k, node in enumerate(n for n in ast.walk(made) if n._attributes):
        if k % step == 0:
            for name in node._attributes[: 1 + k % 4] if k % 3 else node._attributes:
                delattr(node, name)
        elif k % step == 1:
            node.end_lineno = None  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("step", [1, 2, 5])
def test_missing_positions_come_from_above(trees: list[ast.Module], step: int) -> None:
    for tree in trees[:6]:
        mine, theirs = holes(tree, step), ast.fix_missing_locations(holes(tree, step))
        nodes.located(mine)
        assert ast.dump(mine, include_attributes=True) == ast.dump(theirs, include_attributes=True)
