"""Reading known objects: attributes, names, containers. Whatever is read is noted, and no user code runs."""

from __future__ import annotations

import builtins
import enum
import gc
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ...fusion import convolutions, linears
from ...tiers.select import CallSite
from .reads import HEAP_TYPE, MISSING, Reads
from .values import Known, Method, UnflattenableError, Value

_GETATTRIBUTE: Any = object.__dict__["__getattribute__"]
_MAX_DEPTH = 8  # of containers
_TITLES = ("__name__", "__qualname__", "__module__")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)


Group = convolutions.Group | linears.Linear


class Joined(Protocol):
    """A group of ops that run as one."""

    def prepare(self, weight: Any, *numbers: Any) -> Any:
        """What its call needs of the weight and the numbers per channel or column."""

    def lead(self, others: Sequence[Any], pools: Sequence[convolutions.Pool]) -> None:
        """Told once which groups follow in the program, and of all its maxima of windows."""

    def ahead(self, operand: Any, *ready: Any) -> Any:
        """The results of this and other groups of the same operand, from what they prepared, for their calls to find; or None."""

    def __call__(self, ready: Any, *operands: Any) -> Any:
        """The result, from what `prepare` gave; None where the ops must run one by one. What `ahead` gave and a place may come last."""


class Library(Protocol):
    """What the library whose models are flattened (MindSpore) must say of its objects."""

    personality: str

    def take(self, operands: tuple[Any, ...], originals: dict[int, Any]) -> tuple[Any, ...]:
        """Operands of a call as the program works on them. Where containers are copied for that, `originals` gets id(copy) -> container."""

    def give(self, result: Any, originals: dict[int, Any]) -> Any:
        """The result of a program as the caller sees it: containers of `originals` as themselves, what is one object as one object."""

    def running(self) -> AbstractContextManager[Any]:
        """The state in which programs run."""

    def fused(self, kernel: Callable[..., Any], rows: bool = False) -> Callable[..., Any]:
        """`kernel`, which takes and gives arrays (or None), as a function of the values that programs work on; `rows`: it reduces rows."""

    def step(self, site: CallSite) -> Callable[..., Any]:
        """What is called in a program in place of an op's site: the same, on a shorter way."""

    def join(self, group: Group, steps: Sequence[Any]) -> Joined | None:
        """What runs a convolution or product with the ops after it, by what `step` gave for them. None: they always run one by one."""

    def class_of(self, value: Any, settled: bool) -> type:
        """The class that the user would see of a tensor in a program, `settled` when it comes from the operands in the same way each time.

        Raises UnflattenableError where it may be another one in another run.
        """

    def has_own(self, value: Any, name: str, reads: Reads) -> bool:
        """Whether the class of a tensor has its library's own method under this name, now and while the reads hold."""

    def is_module(self, value: Any) -> bool:
        """Whether the object is a model part: called like a function, with parts and parameters of its own."""

    def entry(self, module: Any, reads: Reads) -> str:
        """The name of the method that a call of a model part runs. Raises UnflattenableError where a call does more than that."""

    def stores(self, module: Any, reads: Reads) -> list[dict[str, Any]]:
        """The dictionaries in which attributes of a model part are found after its own `__dict__`."""

    def getter(self, module: Any) -> Any:
        """The `__getattr__` that looks into `stores` and does nothing else."""

    def parts(self, module: Any, reads: Reads) -> dict[str, Any] | None:
        """The dictionary of parts of a container of parts, in order; None when it is none."""

    def is_pure(self, function: Any) -> bool:
        """Whether calling the function with known arguments gives the same each time and changes nothing."""

    def inlines(self, function: types.FunctionType) -> bool:
        """Whether the function's Python code may be evaluated in place of a call."""


def namespace_of(cls: type) -> dict[str, Any]:
    """The dictionary behind a class's `__dict__`."""
    for found in gc.get_referents(cls.__dict__):
        if type(found) is dict:
            return found
    raise UnflattenableError(f"the namespace of {cls.__name__} cannot be read")


def in_classes(classes: Iterable[type], name: str, reads: Reads) -> Any:
    """What the first of some classes that has the name has under it, or MISSING; that must stay so."""
    for cls in classes:
        found = reads.entry(namespace_of(cls), name) if cls.__flags__ & HEAP_TYPE else cls.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def join(path: str, name: str) -> str:
    """The path of an attribute, made of identifiers."""
    if not name.isidentifier():
        name = "_" + "".join(c if c.isalnum() else "_" for c in name)
    return f"{path}.{name}" if path else name


class Reader:
    """Reads attributes and names for one flattening."""

    def __init__(self, library: Library, reads: Reads) -> None:
        self.library = library
        self.reads = reads

    def hold(self, value: Any, path: str = "") -> Known:
        """A known value; lists and dicts it consists of must stay as they are."""
        self._hold(value, 0)
        return Known(value, path)

    def _hold(self, value: Any, depth: int) -> None:
        if type(value) not in (list, tuple, dict):
            return
        if depth > _MAX_DEPTH:
            raise UnflattenableError("containers are nested too deeply")
        if type(value) is list:
            self.reads.contents(value)
        elif type(value) is dict:
            self.reads.all_of(value)
        for item in value.values() if type(value) is dict else value:
            self._hold(item, depth + 1)

    def name(self, name: str, space: dict[str, Any]) -> Known:
        """A global or builtin name."""
        value = self.reads.entry(space, name)
        if value is MISSING:
            found = space.get("__builtins__", builtins)
            value = self.reads.entry(found if isinstance(found, dict) else vars(found), name)
        if value is MISSING:
            raise UnflattenableError(f"the name {name} is not defined")
        return self.hold(value, name)

    def attribute(self, owner: Known, name: str) -> Value:
        """`owner.name`, by the rules of Python and of the library's model parts."""
        value, path = owner.value, join(owner.path, name)
        if isinstance(value, types.ModuleType):
            return self._of_module(value, name)
        if isinstance(value, type):
            return self._of_class(value, name, path)
        if type(value) is types.FunctionType and name in _TITLES:
            return Known(self.reads.title(value, name))
        tp = type(value)
        self.reads.attribute(value, name)  # the class stays
        if self.in_class(tp, "__getattribute__") is not _GETATTRIBUTE:
            raise UnflattenableError(f"{tp.__name__} reads its attributes by code of its own")
        in_class = self.in_class(tp, name)
        if in_class is object.__dict__["__class__"]:
            return Known(tp, path)
        if in_class is not MISSING and any(hasattr(type(in_class), access) for access in ("__set__", "__delete__")):
            return self._described(owner, in_class, name, path)
        found = self.reads.attribute(value, name)
        if found is not MISSING:
            return self.hold(found, path)
        if in_class is not MISSING:
            return self._described(owner, in_class, name, path)
        return self._missing(owner, tp, name, path)

    def class_of(self, value: Any) -> type:
        """The class of an object, which says itself of what class it is."""
        tp = type(value)
        self.reads.attribute(value, "__class__")
        if self.in_class(tp, "__class__") is not object.__dict__["__class__"]:
            raise UnflattenableError(f"{tp.__name__} says of what class it is by code of its own")
        return tp

    def _missing(self, owner: Known, tp: type, name: str, path: str) -> Known:
        """An attribute that only `__getattr__` can find."""
        getter = self.in_class(tp, "__getattr__")
        if getter is MISSING:
            raise NoAttributeError(f"{tp.__name__} has no attribute {name}")
        if self.library.is_module(owner.value) and getter is self.library.getter(owner.value):
            for store in self.library.stores(owner.value, self.reads):
                found = self.reads.entry(store, name)
                if found is not MISSING:
                    return self.hold(found, path)
            raise NoAttributeError(f"{tp.__name__} has no attribute {name}")
        raise UnflattenableError(f"{tp.__name__} has no attribute {name} that can be read without running its code")

    def after(self, owner: Known, cls: type, name: str) -> Value:
        """`super(cls, owner).name`."""
        mro = self.reads.mro(type(owner.value))
        rest = mro[mro.index(cls) + 1 :]
        found = in_classes(rest, name, self.reads)
        if not isinstance(found, types.FunctionType):
            raise UnflattenableError(f"super().{name}")
        return Method(owner, found)

    def in_class(self, cls: type, name: str) -> Any:
        """What a class and those it inherits from have under a name, or MISSING."""
        return in_classes(self.reads.mro(cls), name, self.reads)

    def _described(self, owner: Known, found: Any, name: str, path: str) -> Value:
        """A class attribute seen through an instance."""
        if isinstance(found, types.FunctionType):
            return Method(owner, found)
        if type(found) is staticmethod:
            return self.hold(found.__func__, path)
        if type(found) is classmethod:
            inner: Any = found.__func__
            return Method(Known(type(owner.value), path), inner) if isinstance(inner, types.FunctionType) else self._refuse(name)
        if isinstance(found, types.MemberDescriptorType) and not isinstance(owner.value, enum.Enum):
            return self._refuse(name)  # a slot has no version
        if type(found) is property and isinstance(found.fget, types.FunctionType):
            raise PropertyRead(Method(owner, found.fget))
        if hasattr(type(found), "__get__"):
            if type(owner.value) in (*_PLAIN, list, dict, tuple):
                return Known(getattr(owner.value, name), path)  # a method of a builtin value
            return self._refuse(name)
        return self.hold(found, path)

    def _refuse(self, name: str) -> Value:
        raise UnflattenableError(f"reading {name} may run code")

    def _of_module(self, module: types.ModuleType, name: str) -> Known:
        if type(module).__getattribute__ is not types.ModuleType.__getattribute__:
            raise UnflattenableError(f"{module.__name__} reads its attributes by code of its own")
        found = self.reads.entry(vars(module), name)
        if found is MISSING and "__getattr__" in vars(module) and module.__name__.partition(".")[0] in ("bcvm_core", "mindspore", "numpy"):
            getattr(module, name, None)  # made when first asked for
            found = self.reads.entry(vars(module), name)
        if found is MISSING:
            raise UnflattenableError(f"{module.__name__} has no {name}")
        return self.hold(found, f"{module.__name__.rpartition('.')[2]}.{name}")

    def _of_class(self, cls: type, name: str, path: str) -> Value:
        meta = type(cls)
        own = meta is not type and self.in_class(meta, name) is not MISSING and name not in _TITLES
        if own or type(self.in_class(meta, "__getattribute__")) is not types.WrapperDescriptorType:
            raise UnflattenableError(f"{cls.__name__}.{name} is read by its metaclass")
        if name in _TITLES:
            return Known(self.reads.title(cls, name))
        found = self.in_class(cls, name)
        if found is MISSING:
            raise UnflattenableError(f"{cls.__name__} has no attribute {name}")
        if type(found) is staticmethod:
            found = found.__func__
        elif type(found) is classmethod and isinstance(found.__func__, types.FunctionType):
            return Method(Known(cls, path), found.__func__)
        elif hasattr(type(found), "__get__") and not isinstance(found, types.FunctionType):
            return self._refuse(name)
        return self.hold(found, path)


class NoAttributeError(UnflattenableError):
    """There is no such attribute, and Python would find out without running code."""


class PropertyRead(Exception):
    """The attribute is a property: its getter is to be evaluated."""

    def __init__(self, getter: Method) -> None:
        self.getter = getter
        super().__init__(getter.function.__name__)
