"""What flattening must know of MindSpore's Cells: what a call of one does, where its attributes lie, what may be inlined."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import nn, ops
from mindspore.nn.layer import container
from mindspore.ops import _primitive_cache

from ..vm.flatten.objects import namespace_of
from ..vm.flatten.reads import MISSING, Reads
from ..vm.flatten.values import UnflattenableError
from .adapter import ADAPTER
from .memory import Held, view, within, wrap

personality = "mindspore"
reports_events = False

_CELL_CALL: Any = nn.Cell.__dict__["__call__"]
_calls: set[Any] = {_CELL_CALL}
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
_LOOKUPS = ("__getitem__", "__iter__", "__len__", "__bool__")
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


def take(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors, also those in tuples, lists and dicts, are held."""
    return tuple(map(_take, operands))


def _take(value: Any) -> Any:
    if isinstance(value, ms.Tensor):
        return Held(view(value), value)
    kind = type(value)
    if kind in (tuple, list):
        return kind(map(_take, value))
    if kind is dict:
        return {key: _take(item) for key, item in value.items()}
    return value


def give(value: Any) -> Any:
    """Held arrays become tensors; what came in as a tensor goes out as itself."""
    kind = type(value)
    if kind is Held:
        return value.tensor if value.tensor is not None else wrap(value.array)
    if kind in (tuple, list):
        return kind(map(give, value))
    if kind is dict:
        return {key: give(item) for key, item in value.items()}
    return value


def fused(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of arrays as a function of held tensors."""
    return ADAPTER.fused(kernel)


def stands_for(tp: type) -> type:
    """Held arrays are tensors to the user."""
    return ms.Tensor if tp is Held else tp


def is_module(value: Any) -> bool:
    """Whether the object is a Cell."""
    return isinstance(value, nn.Cell)


def entry(module: Any, reads: Reads) -> str:
    """ "construct", where a call of the Cell does nothing else."""
    for cls in type(module).__mro__:
        call = reads.entry(namespace_of(cls), "__call__")
        if call is not MISSING:
            if call not in _calls:
                raise UnflattenableError(f"{type(module).__name__} has a __call__ of its own")
            break
    state = module.__dict__
    for name, why in _EXTRAS:
        value = reads.entry(state, name)
        if value is MISSING:
            continue
        if isinstance(value, dict):
            reads.all_of(value)
        if value:
            raise UnflattenableError(f"{type(module).__name__} is left to MindSpore: {why}")
    return "construct"


def stores(module: Any) -> list[dict[str, Any]]:
    """Parameters, buffers and parts, in the order in which `Cell.__getattr__` looks."""
    return [module.__dict__[name] for name in _STORES if name in module.__dict__]


def parts(module: Any) -> dict[str, Any] | None:
    """The parts of a CellList, SequentialCell or CellDict."""
    kind = next((c for c in _CONTAINERS if isinstance(module, c)), None)
    if kind is None or any(getattr(type(module), name, None) is not getattr(kind, name, None) for name in _LOOKUPS):
        return None
    found: dict[str, Any] = module._cells
    return found


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
