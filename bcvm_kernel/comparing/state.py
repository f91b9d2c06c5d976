"""What a cell's code can reach in the notebook, kept so that it can be put back as it was.

Kept are the bindings of the names that the code, and the notebook's functions that it can reach, mention; the contents of arrays,
tensors, lists, dicts, sets and instances of the notebook's classes behind them; and the state of random generators. All of it is put
back in place, so that what was one object stays one. Iterators, open files, and objects of libraries that are none of the above stay
as a run left them.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from bcvm_core.jit import linker_of

from ..options import MagicError

MAX_BYTES = 1 << 30  # of arrays: a comparison holds about three copies
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<not there>"})()
_ANYTHING = frozenset("eval exec globals locals vars get_ipython".split())  # code that mentions these may reach every name
Restore = Callable[[], None]


def is_tensor(value: object) -> bool:
    """Whether it is a MindSpore tensor."""
    mindspore = sys.modules.get("mindspore")
    return mindspore is not None and isinstance(value, mindspore.Tensor)


def is_torch(value: object) -> bool:
    """Whether it is a PyTorch tensor, or an array of the NumPy-like interface that PyTorch carries."""
    torch = sys.modules.get("torch")
    return torch is not None and (isinstance(value, torch.Tensor) or type(value).__module__ == "torch._numpy._ndarray")


def is_model(value: object) -> bool:
    """Whether it is a MindSpore `nn.Cell`."""
    nn = sys.modules.get("mindspore.nn")
    return nn is not None and isinstance(value, nn.Cell)


def names_in(code: CodeType) -> Iterator[str]:
    """The global names that code mentions, that of functions inside it included (and attributes, which do no harm)."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def of_notebook(value: object) -> bool:
    """Whether an object's attributes are part of the state: it is of a class of the notebook's, or a model."""
    return type(value).__module__ == "__main__" or is_model(value)


class State:
    """The state that `code` can reach from `namespace` now. Raises MagicError when it holds too much to be copied.

    `every`: the names to be considered when the code may reach all of them; `also`: objects to keep beside what it reaches.
    """

    def __init__(self, namespace: dict[str, Any], code: CodeType, every: Callable[[], Iterable[str]], also: Iterable[Any] = ()) -> None:
        self.namespace = namespace
        self._bytes = 0
        self._seen: dict[int, Any] = {}  # by id; holds what it names, so that no id is used twice
        self._restores: list[Restore] = []
        self.bindings: dict[str, Any] = {}
        self._todo: list[str] = list(names_in(code))
        if _ANYTHING.intersection(self._todo):
            self._todo += every()
        for value in also:
            self._keep(value)
        while self._todo:
            name = self._todo.pop()
            if name not in self.bindings:
                self.bindings[name] = namespace.get(name, ABSENT)
                self._keep(self.bindings[name])
        self._restores += _generators()

    @property
    def names(self) -> list[str]:
        """The names that may be read, bound or changed, in alphabetical order."""
        return sorted(self.bindings)

    def restore(self) -> None:
        """Put everything back."""
        for name, value in self.bindings.items():
            if value is not ABSENT:
                self.namespace[name] = value
            else:
                self.namespace.pop(name, None)
        for restore in self._restores:
            restore()

    def values(self) -> Iterator[Any]:
        """Every object that was looked at."""
        return iter(self._seen.values())

    # -- one object ---------------------------------------------------------------------------------

    def _keep(self, first: Any) -> None:
        left = [first]  # no recursion: linked lists may be long
        while left:
            value = left.pop()
            if id(value) in self._seen or isinstance(value, str | int | float | complex | bytes | ModuleType | None):
                continue
            self._seen[id(value)] = value
            restore, inside = self._look_at(value)
            if restore is not None:
                self._restores.append(restore)
            left += inside

    def _look_at(self, value: Any) -> tuple[Restore | None, list[Any]]:
        """How to put an object back, and what else it leads to."""
        if isinstance(value, np.ndarray):
            return self._array(value)
        if is_tensor(value):
            self._count(value.nbytes)
            saved = value.copy()
            return (lambda: value.assign_value(saved.copy())), []
        if type(value) in (list, deque, set, bytearray, dict, OrderedDict, defaultdict, Counter):
            return _container(value)
        if isinstance(value, tuple | frozenset):
            return None, list(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return None, [value.__self__, value.__func__]
        if isinstance(value, functools.partial):
            return None, [value.func, *value.args, *value.keywords.values()]
        if isinstance(value, np.random.Generator):
            state = value.bit_generator.state
            return (lambda: setattr(value.bit_generator, "state", state)), []
        if isinstance(value, np.random.RandomState):
            return functools.partial(value.set_state, value.get_state()), []
        if isinstance(value, random.Random):
            return functools.partial(value.setstate, value.getstate()), []
        if isinstance(value, type):
            return self._class(value)
        if of_notebook(value) and hasattr(value, "__dict__"):
            attributes = dict(vars(value))
            return (lambda: _refill(vars(value), attributes)), [*attributes.values(), type(value)]
        return None, []

    def _array(self, value: np.ndarray[Any, Any]) -> tuple[Restore | None, list[Any]]:
        inside: list[Any] = [value.base] if isinstance(value.base, np.ndarray) else []
        if value.dtype.hasobject:
            inside += value.ravel().tolist()
        if not value.flags.writeable or inside and not value.dtype.hasobject:  # what it is a view of is kept whole
            return None, inside
        self._count(value.nbytes)
        saved = value.copy(order="K")
        return (lambda: np.copyto(value, saved)), inside

    def _function(self, value: FunctionType) -> tuple[Restore | None, list[Any]]:
        if value.__globals__ is self.namespace:
            linker = linker_of(value)
            for code in {value.__code__} if linker is None else {value.__code__, linker.original}:
                self._todo += names_in(code)
        cells = [(cell, cell.cell_contents) for cell in value.__closure__ or () if _filled(cell)]
        inside = [content for _, content in cells] + [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]

        def restore() -> None:
            for cell, content in cells:
                cell.cell_contents = content

        return (restore if cells else None), inside

    def _class(self, value: type) -> tuple[Restore | None, list[Any]]:
        if value.__module__ != "__main__":
            return None, []
        attributes = {name: each for name, each in vars(value).items() if not (name.startswith("__") and name.endswith("__"))}
        special = [each for each in vars(value).values() if isinstance(each, FunctionType)]
        inside = [getattr(each, "__func__", getattr(each, "fget", each)) for each in attributes.values()]

        def restore() -> None:
            for name in [name for name in vars(value) if name not in attributes and not name.startswith("__")]:
                delattr(value, name)
            for name, each in attributes.items():
                if vars(value).get(name) is not each:
                    setattr(value, name, each)

        return restore, [*inside, *special, *value.__bases__]

    def _count(self, nbytes: int) -> None:
        self._bytes += nbytes
        if self._bytes > MAX_BYTES:
            fix = "compare a cell that uses smaller arrays, or fewer"
            raise MagicError(f"--compare copies what the cell can reach, and that is more than {MAX_BYTES >> 30} GiB of arrays", fix=fix)


def _container(value: Any) -> tuple[Restore, list[Any]]:
    saved = value.copy()
    if isinstance(value, dict):
        return (lambda: _refill(value, saved)), [*saved.values()]
    if isinstance(value, list | bytearray):
        return (lambda: value.__setitem__(slice(None), saved)), ([] if isinstance(value, bytearray) else list(saved))

    def restore() -> None:
        value.clear()
        (value.update if isinstance(value, set) else value.extend)(saved)

    return restore, list(saved)


def _refill(target: dict[Any, Any], saved: dict[Any, Any]) -> None:
    target.clear()
    target.update(saved)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _generators() -> Iterator[Restore]:
    """The random generators that belong to nobody. MindSpore's starts again from its seed, where one was set."""
    yield functools.partial(random.setstate, random.getstate())
    yield functools.partial(np.random.set_state, np.random.get_state())
    mindspore = sys.modules.get("mindspore")
    seed = mindspore.get_seed() if mindspore is not None else None
    if mindspore is not None and seed is not None:
        yield functools.partial(mindspore.set_seed, seed)
