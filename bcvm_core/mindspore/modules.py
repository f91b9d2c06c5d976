"""What flattening must know of MindSpore's Cells: what a call of one does, where its attributes lie, what may be inlined."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
from mindspore import nn, ops
from mindspore.nn import cell
from mindspore.nn.layer import container
from mindspore.ops import _primitive_cache

from ..errors import Decline
from ..fusion.linears import Linear
from ..ops import pending
from ..tiers.select import CallSite
from ..vm.flatten.objects import Group, Joined, in_classes
from ..vm.flatten.reads import MISSING, Reads
from ..vm.flatten.values import UnflattenableError
from . import held_convolutions, held_groups, held_linears, held_sites
from .adapter import ADAPTER
from .memory import Held, view, within

personality = "mindspore"


def _own(name: str) -> Any:
    """A method of Cell's as MindSpore wrote it; one that somebody has replaced is no method that we know."""
    found = nn.Cell.__dict__[name]
    code = getattr(found, "__code__", None)
    known = code is not None and code.co_qualname == f"Cell.{name}" and found.__globals__ is vars(cell)
    return found if known else None


def _methods(cls: type) -> dict[str, Any]:
    """What tensors have by name, as far as it is MindSpore's."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base)
    return {name: value for name, value in found.items() if _is_theirs(value)}


def _is_theirs(value: Any) -> bool:
    function = value.fget if type(value) is property else getattr(value, "__func__", value)
    return type(function) is not types.FunctionType or str(function.__globals__.get("__name__")).startswith("mindspore")


_METHODS = {cls: _methods(cls) for cls in (ms.Tensor, ms.Parameter)}
_GETATTR, _RUN_CONSTRUCT, _COMPLEX_CALL = _own("__getattr__"), _own("_run_construct"), _own("_complex_call")
_calls: set[Any] = {_own("__call__")}
TENSOR: type = ms.Tensor
_tensors: set[type] = {ms.Tensor, ms.Parameter}
_STORES = ("_params", "_buffers", "_cells", "_params_list")
_EXTRAS = (  # what `Cell.__call__` does beside calling `construct`, and when
    ("_lazy_forward_pre_hook", "it has a forward pre-hook"),
    ("_lazy_forward_hook", "it has a forward hook"),
    ("_lazy_backward_pre_hook", "it has a backward pre-hook"),
    ("_lazy_backward_hook", "it has a backward hook"),
    ("_shard_fn", "it is sharded"),
    ("_recompute_cell", "it is recomputed"),
    ("requires_grad", "it records gradients"),
    ("_dynamic_shape_inputs", "its inputs are declared by set_inputs"),
    ("mixed_precision_type", "it computes in mixed precision (to_float)"),
    ("_saved_tensors_pack_hook", "it has hooks on saved tensors"),
)
_INLINED = ("mindspore.nn", "mindspore.ops", "mindspore.mint", "mindspore.common.tensor", "mindspore._checkparam", "mindspore.numpy")
_CONTAINERS = tuple(getattr(container, name) for name in ("CellList", "SequentialCell", "CellDict") if hasattr(container, name))
_LOOKUP_NAMES = ("__getitem__", "__iter__", "__len__", "__bool__")
_LOOKUPS = {(kind, name): getattr(kind, name, MISSING) for kind in _CONTAINERS for name in _LOOKUP_NAMES}
_CONSTANT_FUNCTIONS = ("CompileOp", "ProxyOp")  # what `constexpr` makes of a Python function
_memo: Any = _primitive_cache._get_cache_prim


def also_called_by(function: Any) -> None:
    """`function` stands in for `Cell.__call__` and does the same."""
    _calls.add(function)


class running:  # noqa: N801 (a context manager, used as a function)
    """The thread runs a flat program: tensors are held as arrays."""

    __slots__ = ("outer",)

    def __enter__(self) -> None:
        self.outer = within.program
        within.program = True

    def __exit__(self, *error: object) -> None:
        within.program = self.outer
        if error[0] is None:
            pending.settle()
        else:
            pending.drop()


def take(operands: tuple[Any, ...], originals: dict[int, Any]) -> tuple[Any, ...]:
    """Tensors, also those in tuples, lists and dicts, are held. Copies of containers are noted, as `Library.take` says."""
    return tuple([_take(v, originals) for v in operands])


def _take(value: Any, originals: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _tensors:
        return Held(view(value), value)
    copy: Any
    if kind in (tuple, list):
        copy = kind([_take(item, originals) for item in value])
    elif kind is dict:
        copy = {key: _take(item, originals) for key, item in value.items()}
    elif isinstance(value, ms.Tensor):
        if kind.__bases__ != (ms.Parameter, ms.Tensor) or kind.__module__ != "abc":  # what MindSpore makes for parameters
            raise Decline(f"tensors of type {kind.__qualname__} are left to MindSpore")
        _tensors.add(kind)
        return Held(view(value), value)
    else:
        return value
    originals[id(copy)] = value
    return copy


def give(value: Any, originals: dict[int, Any]) -> Any:
    """Held arrays become tensors; what came in as a tensor or container goes out as itself, and one object as one object."""
    kind = type(value)
    if kind is Held:
        return value.to_tensor()
    if kind in (tuple, list, dict):
        return _give(value, dict(originals))
    return value


def fused(kernel: Callable[..., Any], rows: bool = False) -> Callable[..., Any]:
    """A kernel of arrays as a function of held tensors."""
    return ADAPTER.fused(kernel, rows)


def step(site: CallSite) -> Callable[..., Any]:
    """What runs a CALL_OP of a flat program in place of its site."""
    return held_convolutions.held_site(site) if site.op.name in held_sites.OPS else site


def join(group: Group, steps: Sequence[Any]) -> Joined | None:
    """What runs a convolution with the ops after it, where there is a library for that, or a product with those after it."""
    return held_linears.held_linear(group, steps) if isinstance(group, Linear) else held_groups.held_group(group, steps)


def _give(value: Any, known: dict[int, Any]) -> Any:
    kind = type(value)
    if kind not in (tuple, list, dict):
        return give(value, known)
    found = known.get(id(value))
    if found is not None:
        return found
    if kind is tuple:
        items = [_give(v, known) for v in value]
        found = value if all(map(operator.is_, items, value)) else tuple(items)
        known[id(value)] = found
    elif kind is list:
        found = known[id(value)] = []
        found += [_give(v, known) for v in value]
    else:
        found = known[id(value)] = {}
        found.update({key: _give(v, known) for key, v in value.items()})
    return found


def class_of(value: Any, settled: bool) -> type:
    """Held arrays are tensors to the user, those that came in what they were."""
    if type(value) is Held and value.tensor is None:
        return TENSOR
    if not settled:
        raise UnflattenableError("the class of a tensor that came in")
    found: type = type(value.tensor) if type(value) is Held else type(value)
    return found


def has_own(value: Any, name: str, reads: Reads) -> bool:
    """Whether tensors have the method that MindSpore wrote, and no other that somebody has put in its place."""
    return all(_in_class(cls, name, reads) is _METHODS[cls].get(name, MISSING) for cls in _METHODS)


def is_module(value: Any) -> bool:
    """Whether the object is a Cell."""
    return isinstance(value, nn.Cell)


def entry(module: Any, reads: Reads) -> str:
    """ "construct", where a call of the Cell does nothing else."""
    for name, known in (("__call__", _calls), ("_run_construct", (_RUN_CONSTRUCT,)), ("_complex_call", (_COMPLEX_CALL,))):
        if _in_class(type(module), name, reads) not in known:
            raise UnflattenableError(f"{type(module).__name__} has a {name} of its own")
    for name, why in _EXTRAS:
        value = reads.attribute(module, name)
        if value is MISSING:
            continue
        if isinstance(value, dict):
            reads.all_of(value)
        if value:
            raise UnflattenableError(f"{type(module).__name__} is left to MindSpore: {why}")
    return "construct"


def _in_class(cls: type, name: str, reads: Reads) -> Any:
    return in_classes(reads.mro(cls), name, reads)


def getter(module: Any) -> Any:
    """`Cell.__getattr__`."""
    return _GETATTR


def stores(module: Any, reads: Reads) -> list[dict[str, Any]]:
    """Parameters, buffers and parts, in the order in which `Cell.__getattr__` looks."""
    found = [reads.attribute(module, name) for name in _STORES]
    return [store for store in found if store is not MISSING]


def parts(module: Any, reads: Reads) -> dict[str, Any] | None:
    """The parts of a CellList, SequentialCell or CellDict."""
    kind = next((c for c in _CONTAINERS if isinstance(module, c)), None)
    if kind is None or any(_in_class(type(module), name, reads) is not _LOOKUPS[kind, name] for name in _LOOKUP_NAMES):
        return None
    found = reads.attribute(module, "_cells")
    return found if isinstance(found, dict) else None


def is_pure(function: Any) -> bool:
    """The memo of primitives, and primitives themselves: making one has no effect."""
    if function is _memo or getattr(function, "__qualname__", "").startswith("_get_cache_prim.<locals>"):
        return True
    return isinstance(function, type) and issubclass(function, ops.Primitive) and function.__module__.startswith("mindspore.ops")


def inlines(function: types.FunctionType) -> bool:
    """Functions of the user's, and those of MindSpore that are built from its ops."""
    module = function.__globals__.get("__name__") or ""
    if module.partition(".")[0] != "mindspore":
        return True
    if function in _calls or not module.startswith(_INLINED):
        return False
    owner, _, name = function.__qualname__.rpartition(".")
    return name != "__call__" or owner.endswith(_CONSTANT_FUNCTIONS)  # a primitive that is no op of the table is MindSpore's
