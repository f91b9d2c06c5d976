"""A Python function in the place of a region that one kernel does whole, for MindSpore tensors.

It checks what the region would check, lends the kernel arrays over the tensors' memory and wraps what comes out.
Arrays are kept from call to call, by shape: only the address in them is written anew, while making one costs as much
as the kernel of a small tensor. Whatever the function does not know it hands to the region: other types, layouts and
element types, new shapes (once each), a tracing debugger, recorded gradients, a switched-off VM.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import mindspore as ms
import numpy as np

from .. import config
from ..codegen.stencils import offsets, region_entry
from ..vm.site import leave_to_python
from . import executor, memory

_MAX_SHAPES: Final = 64
_MAX_SPARE: Final = 8  # arrays per shape: operands of one call, times threads

Lent = tuple[Any, Any]  # an array, and its address as a ctypes integer


class _Direct(partial[Any]):
    """A site's function. Pickled by value, it is a stranger to whatever process it arrives in: plain Python runs there."""

    def __reduce__(self) -> Any:
        return leave_to_python, ()


class DirectSite:
    """The direct form of one region: `function` goes where the region was; `hits` counts what it ran itself."""

    def __init__(self, region: Callable[..., Any], entry: Any, tensors: Sequence[Any], guards: Sequence[Any], in_tuple: bool) -> None:
        """`entry`: of the kernel for tensors like these, all of one element type. Raises ValueError where there is no native entry."""
        if not region_entry.available(entry):  # it has looked at where arrays keep their address, too
            raise ValueError("no native form")
        self.region = region
        self.dtype = tensors[0].dtype
        self.views: dict[tuple[int, ...], list[Lent]] = {}
        self.entry = entry
        self.owner: Any = None
        self.base = 0
        self._element_type = _element_type(entry)
        self.counter = [0]
        make = _maker(len(tensors), len(guards), in_tuple)
        function = make(entry, self.dtype, self.views, self.counter, self.ask, region, *map(type, tensors), *guards)
        self._cell = function.__closure__[function.__code__.co_freevars.index("entry")]
        self.function: Callable[..., Any] = _Direct(function)

    @property
    def hits(self) -> int:
        """Runs of the kernel by this function."""
        return self.counter[0]

    def use(self, entry: Any) -> None:
        """After `drop`: this kernel, if it is for the same element type; others are the region's."""
        if self.entry is None and region_entry.available(entry) and _element_type(entry) == self._element_type:
            self.entry = self._cell.cell_contents = entry

    def drop(self) -> bool:
        """Leave all calls to the region until `use`. A call that is in the kernel holds on to it."""
        self.entry, self._cell.cell_contents = None, leave_to_python()
        return True

    def ask(self, *args: Any) -> Any:
        """Let the region do the call; lay arrays aside for the next call with these shapes."""
        for tensor in args:
            if isinstance(tensor, ms.Tensor) and tensor.dtype is self.dtype:
                self._lay_aside(tensor)
        return self.region(*args)

    def _lay_aside(self, tensor: Any) -> None:
        shape = tensor.shape
        if len(self.views) >= _MAX_SHAPES and shape not in self.views:
            self.views.clear()
        spare = self.views.setdefault(shape, [])
        if shape and 0 not in shape and len(spare) < _MAX_SPARE:
            spare.append(_new(shape, memory.TO_NUMPY[self.dtype]))


def _element_type(entry: Any) -> int:
    """What tells the element types of kernels apart: the address of that of the first operand."""
    found: int = struct.unpack_from("<q", entry.__self__, offsets.D_OPERANDS)[0]
    return found


def _new(shape: tuple[int, ...], dtype: memory.DType) -> Lent:
    array: memory.Array = np.ndarray(shape, dtype, memory.Anywhere.from_address(_HOME))
    return array, ctypes.c_int64.from_address(id(array) + offsets.DATA)


_home = ctypes.create_string_buffer(64)
_HOME: Final = ctypes.addressof(_home)


def _source(inputs: int, guards: int, in_tuple: bool) -> str:
    """`make(...)`, which gives the function of a site: no loops, no calls beyond those that tell about a tensor."""
    numbers = range(inputs)
    args = ", ".join([*(f"a{k}" for k in numbers), *(f"h{k}" for k in range(guards))])
    strange = [f"h{k} is not g{k}" for k in range(guards)] + [f"type(a{k}) is not t{k} or a{k}.dtype is not dtype" for k in numbers]
    strange += ["plain.value", "trace() is not None", "recording()", "dispatching()", "theirs.value"]
    strange += [f"a{k}.device not in HOST" for k in numbers if not memory.HOST_ONLY] + [f"not is_contiguous(a{k})" for k in numbers]
    lines = [f"def site({args}):", f"    if {' or '.join(strange)}:", f"        return region({args})", "    try:"]
    for k in numbers:
        lines += [f"        v{k} = views[a{k}.shape]", f"        l{k}, s{k} = w{k} = v{k}.pop()"]
    lines += ["    except (KeyError, IndexError):", f"        return ask({args})"]
    for k in numbers:
        lines += [f"    s{k}.value = p{k} = data_ptr(a{k})", f"    if not p{k}:", f"        return ask({args})"]
    lines.append(f"    result = entry({', '.join(f'l{k}' for k in numbers)})")
    lines += [f"    v{k}.append(w{k})" for k in numbers]
    lines += ["    if result is None:", f"        return region({args})", "    counter[0] += 1"]
    lines += ["    result = wrap(result) if type(result) is not tuple else tuple(map(wrap, result))"]
    lines.append("    return (result,)" if in_tuple else "    return result")
    names = ", ".join([*(f"t{k}" for k in numbers), *(f"g{k}" for k in range(guards))])
    head = f"def make(entry, dtype, views, counter, ask, region{', ' if names else ''}{names}):\n"
    return head + "".join(f"    {line}\n" for line in [*lines, "return site"])


@cache
def _maker(inputs: int, guards: int, in_tuple: bool) -> Callable[..., Any]:
    space = {
        "plain": config.plain,
        "trace": sys.gettrace,
        "recording": executor.recording,
        "dispatching": executor.dispatching,
        "theirs": executor.theirs,
        "HOST": memory.HOST,
        "data_ptr": memory.data_ptr,
        "is_contiguous": ms.Tensor.is_contiguous,
        "wrap": memory.from_contiguous,
        "__name__": f"{__package__}.steps",
    }
    exec(compile(_source(inputs, guards, in_tuple), "<bcvm direct site>", "exec"), space)
    return space["make"]  # type: ignore[no-any-return]
