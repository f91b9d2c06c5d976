"""What is measured, as expression trees, and their text in the words of each peer.

A tree is "x" or "b", a whole number, or (operation, operand, ...). Numbers are whole and small so that no peer
widens float32 because of them, and so that generated functions overflow nowhere.
"""

from __future__ import annotations

import random
from typing import Any

Tree = Any
Dialect = dict[str, str]

_PLUS_B = ("add", "x", "b")
TREES: dict[str, Tree] = {
    "nothing": "x",
    "relu1": ("add", ("relu", "x"), 1),
    "chain": ("mul", ("sigmoid", ("add", ("mul", ("relu", _PLUS_B), 2), 1)), ("tanh", _PLUS_B)),
    "eight": ("abs", ("add", ("mul", ("tanh", ("sub", ("relu", ("add", ("mul", "x", 2), 1)), 3)), "x"), 2)),
}
ARITY = {"nothing": 1, "relu1": 1, "chain": 2, "eight": 1}
GENERATED_OPS = 6

_OPERATORS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}"}


def in_module(name: str, *, number: str = "{0}", relu: str = "{m}.relu({0})", sigmoid: str = "{m}.sigmoid({0})") -> Dialect:
    """The words of a peer whose functions lie in a module; `number` is how a constant is written."""
    calls = {"tanh": "{m}.tanh({0})", "abs": "{m}.abs({0})", "maximum": "{m}.maximum({0}, {1})", "minimum": "{m}.minimum({0}, {1})"}
    words = {**_OPERATORS, **calls, "relu": relu, "sigmoid": sigmoid, "number": number}
    return {op: text.replace("{m}", name) for op, text in words.items()}


NUMPY = in_module("np", relu="{m}.maximum({0}, 0)", sigmoid="1 / (1 + {m}.exp(-({0})))")


def expression(tree: Tree, words: Dialect) -> str:
    """The tree as one expression."""
    if isinstance(tree, int):
        return words["number"].format(tree)
    if isinstance(tree, str):
        return tree
    op, *operands = tree
    inside = [expression(operand, words) for operand in operands]
    if op in _OPERATORS:
        inside = [f"({text})" if isinstance(operand, tuple) else text for text, operand in zip(inside, operands, strict=True)]
    return words[op].format(*inside)


def statements(tree: Tree, words: Dialect) -> list[str]:
    """The tree as lines, one per op, the last of which returns."""
    lines: list[str] = []

    def value(node: Tree) -> Tree:
        if not isinstance(node, tuple):
            return node
        op, *operands = node
        inside = (op, *(value(operand) for operand in operands))
        lines.append(f"v{len(lines)} = {expression(inside, words)}")
        return f"v{len(lines) - 1}"

    value(tree)
    last = lines.pop()
    return [*lines, f"return {last.partition(' = ')[2]}"]


def function(name: str, words: Dialect) -> str:
    """The text of a named function."""
    return f"def f({', '.join(['x', 'b'][: ARITY[name]])}):\n    return {expression(TREES[name], words)}\n"


def generated_tree(seed: int) -> Tree:
    """A chain of six ops on x and b; each number gives another one."""
    rng = random.Random(seed)
    tree: Tree = (rng.choice(("add", "sub", "mul", "maximum", "minimum")), "x", "b")
    for _ in range(GENERATED_OPS - 1):
        op = rng.choice(("add", "mul", "add b", "sub b", "mul b", "maximum b", "minimum b", "tanh", "abs", "relu"))
        name, _, other = op.partition(" ")
        if other:
            tree = (name, tree, "b")
        elif name in ("add", "mul"):
            tree = (name, tree, rng.randint(2, 3))
        else:
            tree = (name, tree)
    return tree


def generated(seed: int, words: Dialect) -> str:
    """The text of a function that nobody has seen: one statement per op."""
    lines = "".join(f"    {line}\n" for line in statements(generated_tree(seed), words))
    return f"def f(x, b):\n{lines}"


def distinct_seeds(start: int, count: int) -> list[int]:
    """Seeds from `start` on whose functions all differ in their ops."""
    seen: set[str] = set()
    seeds = []
    while len(seeds) < count:
        shape = expression(generated_tree(start), {**NUMPY, "number": "c"})
        if shape not in seen:
            seen.add(shape)
            seeds.append(start)
        start += 1
    return seeds
