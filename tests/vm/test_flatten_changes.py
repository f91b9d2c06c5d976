"""Flattening: no user code runs that Python would not run, and whatever changes between calls is seen."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import math
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen import loops
from bcvm_core.vm.flatten import words
from bcvm_core.vm.flatten.site import MISS
from tests.in_threads import in_threads
from tests.vm.flatten_support import Body, Flat, Part, Parts, agree, same

X = np.arange(-6.0, 6.0).reshape(3, 4)


def scaled(x: Any, by: float = 1.0) -> Any:
    return x * by


# -- user code that must not run, or runs every time --------------------------------------------------


class Counted:
    """An object whose every use counts."""

    uses = 0

    def _use(self, *_: Any) -> Any:
        Counted.uses += 1
        return Counted.uses

    __index__ = __hash__ = __len__ = _use

    def __call__(self, value: Any) -> Any:
        return self._use()

    def __str__(self) -> str:
        return str(self._use())

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return str(self._use())

    def __eq__(self, other: object) -> bool:
        return bool(self._use() % 2)

    def __contains__(self, other: object) -> bool:
        return bool(self._use() % 2)

    def __lt__(self, other: object) -> bool:
        return bool(self._use() % 2)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._use()

    @property
    def prop(self) -> Any:
        return self._use()


class Checked(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        Counted.uses += 1
        return bool(Counted.uses % 2)


class Odd(metaclass=Checked):
    pass


USES: list[Callable[[Any, Any], Any]] = [
    lambda self, x: (x + 1, str(self.it)),
    lambda self, x: (x + 1, f"{self.it}"),
    lambda self, x: (x + 1, repr([self.it])),
    lambda self, x: (x + 1, "{}".format(self.it)),  # noqa: UP032
    lambda self, x: (x + 1, self.it == 3),
    lambda self, x: (x + 1, 3 in self.it),
    lambda self, x: (x + 1, self.it in [1, 2]),
    lambda self, x: (x + 1, max(self.it, 3) is None),
    lambda self, x: (x + 1, len(self.it)),
    lambda self, x: (x + 1, [1, 2, 3][self.it] if self.it else 0),
    lambda self, x: (x + 1, {}.get(self.it)),
    lambda self, x: (x + 1, sorted([2, 1], key=self.it)),
    lambda self, x: (x + 1, sorted([2, 1], key=effect)),
    lambda self, x: (x + 1, getattr(self.it, "prop", 0)),
    lambda self, x: (x + 1, getattr(self.it, "other", 0)),
    lambda self, x: (x + 1, hasattr(self.it, "other")),
    lambda self, x: (x + 1, isinstance(x, Odd)),
    lambda self, x: (x + 1, self.it(x)),
    lambda self, x: (x + 1, range(self.it)),
    lambda self, x: (x + 1, math.floor(self.it) if False else 0, self.it is None),
    lambda self, x: (x + 1, "a" * self.it),
    lambda self, x: (x + 1, {self.it: 1} and 2),
    lambda self, x: x[self.it : 3],
]


def effect(value: Any) -> Any:
    Counted.uses += 1
    return Counted.uses


@pytest.mark.parametrize("function", USES, ids=range(len(USES)))
def test_user_code_runs_as_often_as_in_python(function: Any) -> None:
    part = Body(function, it=Counted())

    def run(call: Callable[..., Any]) -> list[Any]:
        Counted.uses = 0
        seen: list[Any] = []
        for _ in range(3):
            try:
                value = call(X)
                seen.append(repr(value[1]) if type(value) is tuple and type(value[1]) is not Counted else len(value))
            except Exception as error:
                seen.append((type(error), str(error)))
            seen.append(Counted.uses)
        return seen

    flat = Flat(part)

    def ours(x: Any) -> Any:
        found = flat.site(part, (x,), {})
        return part(x) if found is MISS else found

    assert run(ours) == run(part)


# -- things that change -------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Left(Part):
    factor = 2.0

    def forward(self, x: Any) -> Any:
        return x * self.factor


class Right(Left):
    factor = 3.0


def seen_again(part: Any, change: Callable[[], Any], *args: Any) -> None:
    """A change between calls is seen."""
    flat = agree(part, args)
    assert flat.site.programs or flat.site.reasons
    change()
    agree(part, args, flat=flat)


class OtherMeta(type):
    @property
    def level(cls) -> float:
        return 7.0


class SubMeta(OtherMeta):
    pass


class Levelled(metaclass=SubMeta):
    level = 1.0


def changes() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Parts, and what happens to them."""
    found: dict[str, tuple[Any, Callable[[], Any]]] = {}
    left = Left()
    found["class of the part"] = left, lambda: setattr(left, "__class__", Right)
    inner = Left()
    found["class of an inner part"] = Body(lambda self, x: self.inner(x), inner=inner), lambda: setattr(inner, "__class__", Right)
    plain = types.SimpleNamespace(a=1.0)
    holder = Body(lambda self, x: x * self.inner.factor, inner=Left())
    found["__dict__ as a whole"] = holder, lambda: setattr(holder, "__dict__", {**holder.__dict__, "inner": Right()})
    deep = Left()
    deep.factor = 5.0
    found["__dict__ of an inner object"] = (
        Body(lambda self, x: x * self.o.factor, o=deep),
        lambda: setattr(deep, "__dict__", {"factor": 6.0}),
    )
    found["namespace"] = Body(lambda self, x: x * self.o.a, o=plain), lambda: setattr(plain, "a", 2.0)

    class Base:
        factor = 1.0

    class Other:
        factor = 9.0

    class Derived(Left, Base):
        pass

    derived = Derived()
    found["bases"] = derived, lambda: setattr(Derived, "__bases__", (Right, Other))

    class Getting(Left):
        pass

    getting = Getting()
    found["a __getattribute__ later"] = (
        getting,
        lambda: setattr(Getting, "__getattribute__", lambda self, name: 11.0 if name == "factor" else object.__getattribute__(self, name)),
    )
    found["set"] = (part := Body(lambda self, x: x if 3 in self.s else -x, s=set())), lambda: part.s.add(3)
    queue: Any = collections.deque([1])
    found["deque"] = Body(lambda self, x: x if 3 in self.q else -x, q=queue), lambda: queue.append(3)
    ordered: Any = collections.OrderedDict(a=1.0, b=2.0)
    found["order"] = Body(lambda self, x: [x * v for v in self.d.values()], d=ordered), lambda: ordered.move_to_end("a")
    parts = Parts(Left(), Right())
    parts.parts = collections.OrderedDict(parts.parts)
    found["order of parts"] = Body(lambda self, x: [p(x) for p in self.ps], ps=parts), lambda: parts.parts.move_to_end("0")
    others = Parts(Left(), Right())
    found["parts as a whole"] = Body(lambda self, x: [p(x) for p in self.ps], ps=others), lambda: setattr(others, "parts", {"0": Left()})
    array = np.array(3.0)
    found["an array as a number"] = Body(lambda self, x: x * float(self.a) + max(self.b), a=array, b=np.ones(2)), lambda: array.fill(4.0)

    def keyword_only(self: Any, x: Any, *, by: float = 2.0) -> Any:
        return x * by

    found["keyword defaults"] = Body(keyword_only), lambda: keyword_only.__kwdefaults__.update(by=5.0)
    bound = functools.partial(scaled, by=2.0)
    found["partial"] = Body(lambda self, x: self.p(x), p=bound), lambda: bound.keywords.update(by=7.0)

    class Named(Left):
        pass

    found["a class's name"] = Body(lambda self, x: (x + 1, type(self.i).__name__), i=Named()), lambda: setattr(Named, "__name__", "Changed")
    nested: Any = [1.0]
    for _ in range(12):
        nested = [nested]

    def deepest(self: Any, x: Any) -> Any:
        value = self.n
        while isinstance(value, list):
            value = value[0]
        return x * value

    def change_deepest() -> None:
        value = nested
        while isinstance(value[0], list):
            value = value[0]
        value[0] = 2.0

    found["deep in lists"] = Body(deepest, n=nested), change_deepest

    class Slotted:
        __slots__ = ("a",)

    slotted = Slotted()
    slotted.a = 1.0  # type: ignore[attr-defined]
    found["slots"] = Body(lambda self, x: x * self.s.a, s=slotted), lambda: setattr(slotted, "a", 2.0)
    found["enum"] = (
        (coloured := Body(lambda self, x: x if self.c is Colour.RED else -x, c=Colour.RED)),
        lambda: setattr(coloured, "c", Colour.BLUE),
    )
    found["metaclass"] = Body(lambda self, x: x * self.c.level, c=Levelled), lambda: setattr(OtherMeta, "level", property(lambda cls: 8.0))

    def wrapped(self: Any, x: Any, y: float = 2.0) -> Any:
        return x * y

    found["signature"] = Body(wrapped), lambda: setattr(wrapped, "__signature__", None)
    return found


@pytest.mark.parametrize("name", changes())
def test_changes_are_seen(name: str) -> None:
    part, change = changes()[name]
    seen_again(part, change, X)


def test_attribute_that_appears_on_an_array() -> None:
    class Tagged(np.ndarray):
        pass

    tagged = X.view(Tagged)
    part = Body(lambda self, x: (x + 1, hasattr(x, "tag"), getattr(x, "tag", None), getattr(x, "tag", None) is None))
    flat = agree(part, (tagged,))
    tagged.tag = 3  # type: ignore[attr-defined]
    agree(part, (tagged,), (X,), flat=flat)


def test_threads() -> None:
    part = Body(lambda self, x: x * 2 if x.shape[0] % 2 else x + x.shape[0] if x.shape[0] < 5 else -x, unread=0)
    flat = Flat(part)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(300):
            x = np.ones(((seed + i) % 9, 2))
            part.unread = i
            found = flat.site(part, (x,), {})
            if found is not MISS and not same(found, part(x)):
                wrong.append(found)

    in_threads(4, work)
    assert not wrong


def test_dynamic_classes_are_let_go() -> None:
    def once() -> weakref.ref[Any]:
        class Short(Left):
            pass

        part = Body(lambda self, x: self.inner(x), inner=Short())
        part.own = part.forward
        Flat(part).run(X)
        return weakref.ref(Short)

    gone = once()
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12)), reason="other objects")
def test_changes_are_found_by_machine_code() -> None:
    assert words.known_layout()
    words.comparer()  # asked for: it is compiled in the background
    assert loops.wait()
    assert words.comparer() is not None
    part = Body(lambda self, x: [p(x) for p in self.ps] + [type(self).__name__, self.table["k"], self.items], ps=Parts(Left(), Right()))
    part.table, part.items, part.ps.parts = {"k": [1]}, [1, 2], collections.OrderedDict(part.ps.parts)
    flat = Flat(part)
    flat.run(X)
    assert flat.site.programs[0].reads._changed() is False
    part.unread = 3
    assert flat.site.programs[0].reads._changed() is True
    flat.run(X)
    assert flat.stats.bound == 1
    assert flat.site.programs[0].reads._changed() is False
