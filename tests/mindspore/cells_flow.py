"""Scenarios about Python in `construct`: control flow, arguments and results, errors, nesting, shapes and types that change."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from cells_support import Log, dense, scenario, tensor
from mindspore import mint, nn, ops


@scenario()
def branches_on_shapes(log: Log) -> None:
    class Ranks(nn.Cell):
        def construct(self, x: Any) -> Any:
            if x.ndim == 1:
                return x[None] * 2
            rows, columns = x.shape[:2]
            if rows > columns:
                return x.sum(0)
            if rows == columns:
                return x.T
            return x.reshape(columns, -1) / rows

    net = Ranks()
    for _ in range(2):
        for shape in ((3,), (2, 3), (4, 3), (3, 3), (2, 5), (1, 1), (2, 3, 4)):
            log.thrice(net, tensor(*shape))


@scenario()
def branches_on_values(log: Log) -> None:
    class Gate(nn.Cell):
        def construct(self, x: Any, n: Any) -> Any:
            if x.sum() > 0:
                y = x + 1
            else:
                y = -x
            while y.max() > n:
                y = y / 2
            return y if float(x[0]) > 0 else (y, x)

    net = Gate()
    for seed in range(6):
        log.thrice(net, tensor(4, seed=seed), 0.7)


@scenario()
def branches_on_arguments(log: Log) -> None:
    class Options(nn.Cell):
        def construct(self, x: Any, flag: bool = False, n: int = 2, mask: Any = None, *rest: Any, act: str = "relu", **more: Any) -> Any:
            if mask is not None:
                x = ops.where(mask, x, 0.0)
            if flag:
                x = x * n
            for _ in range(n):
                x = getattr(ops, act)(x) + 0.5
            for r in rest:
                x = x + r
            return x * more.get("gain", 1)

    net, x = Options(), tensor(2, 3)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x, True), {}),
        ((x,), {"flag": True, "n": 3}),
        ((x, False, 0), {}),
        ((x, True, 1, x > 0), {}),
        ((x,), {"mask": x < 0, "act": "tanh"}),
        ((x, True, 1, None, x, 2.0), {"gain": 3}),
        ((), {"x": x}),
        ((x, 1, True), {}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            log.thrice(net, *args, **kwargs)
    log.error(net)
    log.error(net, x, flag=1, x=2)
    log.error(net, x, act="no_such_function")


@scenario()
def none_inputs(log: Log) -> None:
    class Maybe(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.SequentialCell([nn.Identity()])

        def construct(self, x: Any, y: Any = None) -> Any:
            x = self.inner(x)
            if x is None:
                return None if y is None else y + 1
            return x if y is None else x + y

    net, x = Maybe(), tensor(2, 3)
    for _ in range(2):
        for args in ((x,), (None,), (None, x), (x, None), (x, x)):
            log.thrice(net, *args)


class Pair(NamedTuple):
    left: Any
    right: Any


@scenario(share=0.9)
def results_of_every_form(log: Log) -> None:
    class Forms(nn.Cell):
        def construct(self, x: Any, form: str) -> Any:
            y = x * 2
            if form == "tuple":
                return x, (y, x + y), 3
            if form == "list":
                return [y, [x]]
            if form == "dict":
                return {"y": y, "more": {"shape": y.shape, "n": len(x)}}
            if form == "named":
                return Pair(x, y)
            if form == "none":
                return None
            if form == "same":
                return x
            if form == "number":
                return x.shape[0] / 2
            return y.dtype

    net, x = Forms(), tensor(2, 3)
    for _ in range(2):
        for form in ("tuple", "list", "dict", "named", "none", "same", "number", "type"):
            log.thrice(net, x, form)
    log(net(x, "same") is x, net(x, "tuple")[0] is x, type(net(x, "named")).__name__)


@scenario(share=0.7)
def containers_as_inputs(log: Log) -> None:
    class Mixed(nn.Cell):
        def construct(self, pair: Any, table: Any) -> Any:
            a, b = pair
            return a * table["k"] + b, [v for v in pair], {**table, "n": len(pair)}  # noqa: C416 - a comprehension is the point

    net, x, y = Mixed(), tensor(2, 3), tensor(3, seed=5)
    log.thrice(net, (x, y), {"k": 2.0})
    log.thrice(net, [x, y], {"k": y, "j": None})
    log.thrice(net, (y, x), {"k": x})


@scenario()
def loops_and_comprehensions(log: Log) -> None:
    class Loops(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.CellList([dense(3, 2, seed=s) for s in range(3)])

        def construct(self, x: Any) -> Any:
            parts = [head(x) for head in self.heads]
            total = sum(parts)
            best: Any = None
            for i, (_, part) in enumerate(zip(self.heads, parts, strict=True)):
                if i == 1:
                    continue
                best = part if best is None else mint.maximum(best, part)
                if i == 2:
                    break
            else:
                best = total
            return ops.concat([p for i, p in enumerate(parts) if i != 1], axis=1), total, best, {i: p + 1 for i, p in enumerate(parts)}

    net = Loops()
    log.thrice(net, tensor(2, 3))
    log.thrice(net, tensor(4, 3))


@scenario(share=0.8)
def nested_functions_and_lambdas(log: Log) -> None:
    class Nested(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 3.0

        def construct(self, x: Any, k: int) -> Any:
            def inner(v: Any, again: bool = True) -> Any:
                return inner(v * self.scale, False) if again else v + k

            twice = lambda f, v: f(f(v))  # noqa: E731 - a lambda is the point
            bound = functools.partial(ops.concat, axis=1)
            return twice(inner, x), bound((x, x)), list(map(lambda v: v + 1, [x, x]))  # noqa: C417

    net = Nested()
    log.thrice(net, tensor(2, 3), 1)
    net.scale = 1.0
    log.thrice(net, tensor(2, 3), 2)


@scenario()
def recursion(log: Log) -> None:
    class Tree(nn.Cell):
        def __init__(self, depth: int) -> None:
            super().__init__()
            self.left = Tree(depth - 1) if depth else dense(3, 3, seed=depth)
            self.depth = depth

        def halves(self, x: Any, n: int) -> Any:
            return x if n == 0 else self.halves(x / 2 + 1, n - 1)

        def construct(self, x: Any) -> Any:
            return self.halves(self.left(x), self.depth)

    log.thrice(Tree(4), tensor(2, 3))


@scenario(share=0.0)
def endless_recursion(log: Log) -> None:
    class Endless(nn.Cell):
        def construct(self, x: Any) -> Any:
            return self(x + 1)

    for _ in range(2):
        try:
            log("no error", Endless()(tensor(2)))
        except RecursionError as error:
            log(type(error))
    log(ops.relu(tensor(2)))


@scenario(share=0.5)
def errors_in_construct(log: Log) -> None:
    class Faulty(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dense(3, 3)

        def construct(self, x: Any, what: str) -> Any:
            y = self.inner(x)
            if what == "raise":
                raise ValueError(f"no good: {x.shape} and {what}")
            if what == "cause":
                try:
                    return {}["k"]
                except KeyError as error:
                    raise RuntimeError("with a cause") from error
            if what == "shapes":
                y = y + 1
                return y + tensor(7)
            if what == "reshape":
                return y.reshape(5, 5)
            if what == "name":
                return y + no_such_name  # type: ignore[name-defined]  # noqa: F821 - the error is the point
            if what == "attribute":
                return self.nothing
            if what == "index":
                return y[7]
            if what == "division":
                return y * (1 / (x.ndim - 2))
            if what == "assert":
                assert x.ndim == 3, "three dimensions"
            if what == "unpack":
                a, b, c = x.shape
                return y
            if what == "inner":
                return self.inner(y[:, :2])
            return y

    net, outer, x = Faulty(), nn.SequentialCell([nn.Identity()]), tensor(2, 3)
    for _ in range(2):
        for what in ("raise", "cause", "name", "attribute", "division", "assert", "unpack", "fine"):
            log.error(net, x, what)
    for what in ("shapes", "reshape", "index", "inner"):
        for _ in range(2):
            log(_kind(net, x, what))
    log.error(net, x)
    outer.append(net)
    log.error(outer, x)


def _kind(net: Any, *args: Any) -> Any:
    """Type and place of an error; texts of MindSpore's own ops carry places of its C++."""
    try:
        return "no error", net(*args)
    except Exception as error:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)
        return type(error), [f.lineno for f in frames if f.filename.rpartition("/")[2].startswith("cells_")][1:]


@scenario(share=0.5)
def an_error_does_not_spoil_later_calls(log: Log) -> None:
    class Checks(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = x * 2
            if x.shape[0] > 3:
                raise ValueError(f"too many rows: {x.shape[0]}")
            return y

    net = Checks()
    for rows in (2, 5, 3, 4, 1, 2):
        log.error(net, tensor(rows, 2))
