"""Primitives: convolutions and changes of layout, made for one set of shapes and kept by it.

A primitive is a function of addresses. Each call takes a *frame* (memory objects and the argument list that names them), sets its
addresses and puts it back, so that calls in several threads do not meet. Scratch memory is ours, one piece per thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_void_p
from typing import Any, Final

import numpy as np

from ... import locks
from ..loops import address
from ..scratch import Scratch
from ..stencils import primitive_code as c
from ..stencils.driver import driver
from .columns import InColumns, Run
from .keys import ConvolutionKey, as_product
from .library import SLICES, Library, OneDNNError, vector

SRC, DST, WEIGHTS, BIAS, SCRATCH, FROM, TO = 1, 17, 33, 41, 80, 1, 17
_POST_OPERAND: Final = 32768  # times (number of the post-op + 1), with the bits of its second source
_SECOND_SOURCE: Final = 2
_FORWARD_INFERENCE, _DIRECT = 96, 1
_IMPLEMENTATION, _WEIGHTS_MD, _SCRATCH_MD = 8, 131, 136
BINARY: Final = {"add": 0x1FFF0, "mul": 0x1FFF1, "div": 0x1FFF4, "sub": 0x1FFF5, "residual": 0x1FFF0}
_RELU: Final = 0x20
_VECTORISED: Final = (":avx2", ":avx512")
_MAX_KEPT: Final = 512


scratch = Scratch()


class Primitive:
    """A primitive and its frames. `roles` says which argument each memory descriptor is for; scratch memory comes last by itself."""

    def __init__(self, library: Library, descriptor: c_void_p, roles: Sequence[tuple[int, c_void_p]]) -> None:
        """Takes the primitive descriptor over. Raises OneDNNError.

        Its code is made at the first call; that of the first primitive now.
        """
        self.library = library
        self.handle: c_void_p | None = None
        self.descriptor = descriptor
        self.roles = list(roles)
        self.frames: list[_Frame] = []
        self.making = locks.lock()
        wanted = library.primitive_desc_query_md(descriptor, _SCRATCH_MD, 0)
        self.scratch_size = int(library.memory_desc_get_size(wanted)) if wanted else 0
        if self.scratch_size:
            self.roles.append((SCRATCH, c_void_p(wanted)))
        if not library.generates:  # where it cannot, whoever asks must hear of it now
            self.handle = library.made(library.primitive_create, descriptor)
            library.generates = True

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for frame in self.frames:
            for memory in frame.memories:
                self.library.memory_destroy(memory)
        if self.handle is not None:
            self.library.primitive_destroy(self.handle)
        self.library.primitive_desc_destroy(self.descriptor)

    def make(self) -> None:
        """Have the code generated now."""
        self._made()

    def _made(self) -> c_void_p:
        """The primitive itself, whose code the library generates now: one that is only asked about never needs it."""
        with self.making, self.library.limits(SLICES):
            if self.handle is None:
                self.handle = self.library.made(self.library.primitive_create, self.descriptor)
            return self.handle

    def _frame(self, handle: c_void_p) -> _Frame:
        memories = [self.library.memory(descriptor) for _, descriptor in self.roles]
        return _Frame(self.library, handle, [role for role, _ in self.roles], memories)

    def __call__(self, addresses: Sequence[int], stream: c_void_p | None = None) -> bool | None:
        """Run on the memory at these addresses, in the order of `roles`. Raises OneDNNError.

        Whether the processor's flag "invalid" went up; None: nobody has looked.
        """
        library = self.library
        handle = self.handle or self._made()
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self._frame(handle)
        if self.scratch_size:
            addresses = (*addresses, scratch.at(self.scratch_size))
        native = driver().primitive
        if native is None:
            status, raised = frame.slowly(library, handle, addresses, stream), None
        else:
            frame.put(frame.words, c.PRIMITIVE_LIST + 8 * len(addresses), *addresses)
            found = native(frame.address, stream or library.stream)
            status, raised = found & c.SAID, found > c.SAID
        self.frames.append(frame)
        if status:
            library.check(status, library.primitive_execute)
        return raised


def tells_invalid() -> bool:
    """Whether calls say that the processor's flag went up."""
    return driver().primitive is not None


class _Frame:
    """Memory objects, the list of arguments that names them, and the job that native code is told of them, all in one piece of memory."""

    __slots__ = ("memories", "words", "address", "arguments", "put")

    def __init__(self, library: Library, handle: c_void_p, roles: Sequence[int], memories: list[c_void_p]) -> None:
        count = len(memories)
        self.memories = memories
        objects = [m.value for m in memories]
        words = self.words = np.empty((c.PRIMITIVE_LIST >> 3) + 4 * count, np.int64)
        self.address = address(words)
        self.arguments = self.address + c.PRIMITIVE_LIST + 16 * count
        head = (library.set_address, library.execute_address, handle.value, self.arguments, count)
        words[:] = (*head, *objects, *(0,) * count, *[word for pair in zip(roles, objects, strict=True) for word in pair])
        self.put = _words(count)

    def slowly(self, library: Library, handle: c_void_p, addresses: Sequence[int], stream: c_void_p | None) -> int:
        """The call without native code: what the library says."""
        for memory, place in zip(self.memories, addresses, strict=True):
            library.memory_set_data_handle(memory, place)
        return int(library.primitive_execute(handle, stream or library.stream, len(self.memories), self.arguments))


@functools.cache
def _words(count: int) -> Any:
    """What writes so many words into memory, from an offset on."""
    return struct.Struct(f"<{count}q").pack_into


class Convolution:
    """A convolution of float32 images whose channels lie innermost; `format` numbers the order in which it wants its weight."""

    def __init__(self, library: Library, key: ConvolutionKey) -> None:
        """Raises OneDNNError where the library has no vectorised implementation for these shapes."""
        self.implementation: str
        self.format: int
        self.key = key
        n, c, height, width = key.images
        o, per_group, kh, kw = key.weight
        self.out_shape = n, *key.out, o
        self.flops = 2.0 * n * o * key.out[0] * key.out[1] * per_group * kh * kw
        self.followed: dict[tuple[str, ...], Convolution | None] = {}  # the same with steps after it, as far as it was asked for
        inner = as_product(key)
        if inner is not None:
            product = Convolution(library, inner)
            self.implementation, self.format = product.implementation, product.format
            self.run: Run = InColumns(key, product.run)
            return
        dims: tuple[int, ...] = (key.groups, o // key.groups, per_group, kh, kw) if key.groups > 1 else key.weight
        channel = library.dense((1, o, 1, 1), (o, 1, o, o))
        source = library.dense((n, c, height, width), channels_last(c, height, width))
        result = library.dense((n, o, *key.out), channels_last(o, *key.out))
        any_order, bias = library.dense(dims), library.dense((o,), (1,))
        (top, bottom), (left, right) = key.edges
        descriptor = _described(
            library,
            library.convolution_forward_primitive_desc_create,
            (library.engine, _FORWARD_INFERENCE, _DIRECT, source, any_order, bias if key.has_bias else None, result)
            + (vector(key.stride), vector([d - 1 for d in key.dilation]), vector((top, left)), vector((bottom, right))),
            [(step, result if step == "residual" else channel) for step in key.steps],
        )
        self.implementation = _vectorised(library, descriptor)
        weight = c_void_p(library.primitive_desc_query_md(descriptor, _WEIGHTS_MD, 0))
        self.format = format_number(library, dims, weight)
        roles = [(SRC, source), (WEIGHTS, weight), (DST, result)]
        if key.has_bias:
            roles.append((BIAS, bias))
        for i, step in enumerate(key.steps):
            if step != "relu":
                roles.append((_POST_OPERAND * (i + 1) | _SECOND_SOURCE, result if step == "residual" else channel))
        self.run = Primitive(library, descriptor, roles)


def channels_last(channels: int, height: int, width: int) -> tuple[int, ...]:
    """Strides, in elements, of (n, channels, height, width) with the channels innermost."""
    return height * width * channels, 1, width * channels, channels


def _described(library: Library, create: Any, arguments: tuple[Any, ...], steps: Sequence[tuple[str, c_void_p]] = ()) -> c_void_p:
    """A primitive descriptor: float32 throughout, scratch memory of ours, and the post-ops with what they take. Raises OneDNNError."""
    attributes, chain = library.made(library.primitive_attr_create), library.made(library.post_ops_create)
    try:
        library.check(library.primitive_attr_set_scratchpad_mode(attributes, 1), library.primitive_attr_set_scratchpad_mode)
        library.check(library.primitive_attr_set_fpmath_mode(attributes, 0), library.primitive_attr_set_fpmath_mode)
        for step, operand in steps:
            if step == "relu":
                library.check(library.post_ops_append_eltwise(chain, _RELU, 0.0, 0.0), library.post_ops_append_eltwise)
            else:
                library.check(library.post_ops_append_binary(chain, BINARY[step], operand), library.post_ops_append_binary)
        library.check(library.primitive_attr_set_post_ops(attributes, chain), library.primitive_attr_set_post_ops)
        return library.made(create, *arguments, attributes)
    finally:
        library.post_ops_destroy(chain)
        library.primitive_attr_destroy(attributes)


def _vectorised(library: Library, descriptor: c_void_p) -> str:
    """Move to the first implementation that is vectorised code; its name. In which order the library lists them, shapes alone decide."""
    while True:
        text = c_char_p()
        library.primitive_desc_query(descriptor, _IMPLEMENTATION, 0, ctypes.byref(text))
        name = (text.value or b"").decode()
        if any(level in name for level in _VECTORISED):
            return name
        if library.primitive_desc_next_impl(descriptor):
            library.primitive_desc_destroy(descriptor)
            raise OneDNNError("no vectorised implementation")


# -- orders of weights ----------------------------------------------------------------------------

_formats: list[tuple[tuple[int, ...], c_void_p]] = []
_format_lock = locks.lock()


def format_number(library: Library, dims: tuple[int, ...], descriptor: c_void_p) -> int:
    """The number of an order of a weight's elements in memory; equal orders of equal shapes have one number."""
    with _format_lock:
        for number, (known, held) in enumerate(_formats):
            if known == dims and library.memory_desc_equal(held, descriptor):
                return number
        _formats.append((dims, library.made(library.memory_desc_clone, descriptor)))
        return len(_formats) - 1


def packed_size(library: Library, number: int) -> int:
    """Bytes of a weight in that order."""
    return int(library.memory_desc_get_size(_formats[number][1]))


def turned(library: Library, weight: Any, number: int) -> Any:
    """The weight as its packer takes it: its channels innermost where it is a matrix of what windows hold."""
    dims = _formats[number][0]
    if len(dims) > 4 or dims == weight.shape:
        return weight
    made = np.empty(dims, weight.dtype)
    mover(library, weight.shape, True)((address(weight), address(made)))
    return made


def packer(library: Library, number: int) -> Primitive:
    """What brings a plain weight into that order."""

    def make() -> Primitive:
        dims, packed = _formats[number]
        return _reorder(library, library.dense(dims, plain_strides(dims)), packed)

    made: Primitive = kept(("pack", number), library, make)
    return made


def mover(library: Library, shape: tuple[int, ...], to_channels_last: bool) -> Primitive:
    """What copies (n, channels, height, width) from plain order to channels innermost, or back."""

    def make() -> Primitive:
        plain = library.dense(shape, plain_strides(shape))
        last = library.dense(shape, channels_last(*shape[1:]))
        return _reorder(library, *((plain, last) if to_channels_last else (last, plain)))

    made: Primitive = kept(("move", shape, to_channels_last), library, make)
    return made


def _reorder(library: Library, source: c_void_p, target: c_void_p) -> Primitive:
    descriptor = _described(library, library.reorder_primitive_desc_create, (source, library.engine, target, library.engine))
    return Primitive(library, descriptor, [(FROM, source), (TO, target)])


def plain_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    steps = [1]
    for dim in reversed(dims[1:]):
        steps.append(steps[-1] * dim)
    return tuple(reversed(steps))


# -- kept primitives ------------------------------------------------------------------------------

_kept: OrderedDict[Any, Any] = OrderedDict()
_making: dict[Any, Any] = {}  # the lock of whoever makes one now
_dropped = 0
_lock = locks.lock()


def kept(key: Any, library: Library, make: Callable[[], Any]) -> Any:
    """The primitive for `key`, made within this call if it is not there. Raises OneDNNError, and keeps why."""
    full = (id(library), key)
    found = _kept.get(full)
    if found is None:
        found = _first(full, library, make)
    else:
        with contextlib.suppress(KeyError):  # another thread has just dropped it
            _kept.move_to_end(full)
    if type(found) is str:
        raise OneDNNError(found)
    return found


def _first(full: Any, library: Library, make: Callable[[], Any]) -> Any:
    """Make one, while other threads make others; what is being made is waited for."""
    with _lock:
        if full in _kept:
            return _kept[full]
        making = _making.setdefault(full, locks.lock())
    with making:
        found = _kept.get(full)
        if found is None:
            found = _made(library, make)
            with _lock:
                _kept[full] = found
                _making.pop(full, None)
                while len(_kept) > _MAX_KEPT:
                    _drop_oldest()
    return found


def _drop_oldest() -> None:
    """Let one go (the lock is held); after as many as are kept, free memory goes back to the system.

    Each primitive is many small blocks of memory that others lie between: what is free there would only ever grow.
    """
    global _dropped
    _kept.popitem(last=False)
    _dropped += 1
    if _dropped % _MAX_KEPT == 0:
        trim = _malloc_trim()
        if trim is not None:
            trim(0)


@functools.cache
def _malloc_trim() -> Any:
    """The C library's function that gives free memory back (about a millisecond); None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def _made(library: Library, make: Callable[[], Any]) -> Any:
    try:
        with library.limits(SLICES):
            return make()
    except OneDNNError as error:
        return str(error)


def convolution(library: Library, key: ConvolutionKey) -> Convolution:
    """The convolution for these shapes. Raises OneDNNError where the library has none that is fast."""
    found: Convolution = kept(key, library, functools.partial(Convolution, library, key))
    return found


def figures() -> dict[str, int]:
    """How many primitives and orders of weights are kept."""
    return {"primitives": len(_kept), "formats": len(_formats)}


def forget() -> None:
    """Drop all primitives; those in use run on."""
    with _lock:
        _kept.clear()
