"""The oneDNN library: where it is found, and the few of its C functions that convolutions need.

Candidates, in this order: the file that `BCVM_ONEDNN` names; the one inside MindSpore (loaded by its path: MindSpore itself is not
imported, and when it is later, both use one instance); the one of the wheel `onednn-cpu-gomp`. Nothing global in it is changed: no
instruction set, no number of threads beyond a call of ours. What it may use is therefore the same whoever used it first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, Final

from ... import config, locks

OFF: Final = frozenset({"0", "off", "no", "false"})
SLICES: Final = 16  # into how many parts a primitive splits its work: fixed, since its blocks (and so its bits) follow from it
MAX_DIMS: Final = 12
_OMP, _THREADPOOL = 2, 8  # how a library runs parts at the same time
_CPU, _F32, _TAG_ANY = 1, 3, 1
_WHEEL: Final = "onednn-cpu-gomp"
_DESCRIPTORS: Final = 256  # of memory, that are kept for the next primitive with the same shapes


class OneDNNError(Exception):
    """A call into the library failed, or there is no library to call."""


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", c_char_p),
        ("cpu_runtime", c_uint),
        ("gpu_runtime", c_uint),
    )


_HANDLE, _OUT, _DIMS = c_void_p, POINTER(c_void_p), POINTER(c_int64)
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "engine_create": (_OUT, c_int, c_size_t),
    "stream_create": (_OUT, _HANDLE, c_uint),
    "stream_wait": (_HANDLE,),
    "memory_desc_create_with_strides": (_OUT, c_int, _DIMS, c_int, _DIMS),
    "memory_desc_create_with_tag": (_OUT, c_int, _DIMS, c_int, c_int),
    "memory_desc_clone": (_OUT, _HANDLE),
    "memory_desc_equal": (_HANDLE, _HANDLE),
    "memory_desc_get_size": (_HANDLE,),
    "memory_desc_destroy": (_HANDLE,),
    "memory_create": (_OUT, _HANDLE, _HANDLE, _HANDLE),
    "memory_set_data_handle": (_HANDLE, _HANDLE),
    "memory_destroy": (_HANDLE,),
    "post_ops_create": (_OUT,),
    "post_ops_append_binary": (_HANDLE, c_int, _HANDLE),
    "post_ops_append_eltwise": (_HANDLE, c_int, c_float, c_float),
    "post_ops_destroy": (_HANDLE,),
    "primitive_attr_create": (_OUT,),
    "primitive_attr_set_post_ops": (_HANDLE, _HANDLE),
    "primitive_attr_set_scratchpad_mode": (_HANDLE, c_int),
    "primitive_attr_set_fpmath_mode": (_HANDLE, c_int),
    "primitive_attr_destroy": (_HANDLE,),
    "convolution_forward_primitive_desc_create": (_OUT, _HANDLE, c_int, c_int, *(_HANDLE,) * 4, *(_DIMS,) * 4, _HANDLE),
    "reorder_primitive_desc_create": (_OUT, _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE),
    "primitive_desc_query": (_HANDLE, c_int, c_int, _HANDLE),
    "primitive_desc_query_md": (_HANDLE, c_int, c_int),
    "primitive_desc_next_impl": (_HANDLE,),
    "primitive_desc_destroy": (_HANDLE,),
    "primitive_create": (_OUT, _HANDLE),
    "primitive_execute": (_HANDLE, _HANDLE, c_int, _HANDLE),
    "primitive_destroy": (_HANDLE,),
}
_RESULTS: Final[dict[str, Any]] = {"memory_desc_get_size": c_size_t, "primitive_desc_query_md": c_void_p}
_LONG: Final = frozenset(
    {"primitive_execute", "primitive_create", "stream_wait", "convolution_forward_primitive_desc_create", "primitive_desc_next_impl"}
)  # the interpreter's lock is free meanwhile


class Descriptor(c_void_p):
    """A memory descriptor that goes with its last user. The library copies it wherever it is given one."""

    destroy: Any = None

    def __del__(self) -> None:
        if self.destroy is not None and self.value and not sys.is_finalizing():
            self.destroy(self)


class Library:
    """One loaded library with an engine and a stream of ours."""

    def __init__(self, path: Path) -> None:
        """Raises OneDNNError where the file is no oneDNN 3 that we know how to run."""
        self.path = path
        try:
            long_calls, short_calls = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
            for name, arguments in _FUNCTIONS.items():
                function = getattr(long_calls if name in _LONG else short_calls, f"dnnl_{name}")
                function.argtypes, function.restype = arguments, _RESULTS.get(name, c_int)
                setattr(self, name, function)
            version = long_calls.dnnl_version
        except (OSError, AttributeError) as error:
            raise OneDNNError(f"{path} cannot be used: {error}") from None
        version.restype = POINTER(_Version)
        found = version().contents
        self.version = f"{found.major}.{found.minor}.{found.patch}"
        if found.major != 3:
            raise OneDNNError(f"{path} is oneDNN {self.version}; 3 is needed")
        self.generates = False  # whether it has made a primitive's code, which needs memory that can be executed
        self.has_pool = found.cpu_runtime == _THREADPOOL
        self._limits = _limits(long_calls, found.cpu_runtime)
        if self.has_pool:
            self.threadpool_interop_stream_create = short_calls.dnnl_threadpool_interop_stream_create
            self.threadpool_interop_stream_create.argtypes = (_OUT, _HANDLE, _HANDLE)
        self._dense: Any = functools.lru_cache(_DESCRIPTORS)(self._made_dense)
        self.set_address, self.execute_address = map(_address_of, (self.memory_set_data_handle, self.primitive_execute))
        self.engine = self.made(self.engine_create, _CPU, 0)
        self.stream = self.made(self.stream_create, self.engine, 1)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # functions are set in __init__; this tells type checkers that there are such

    def keep_nothing(self) -> None:
        """Let the library keep no primitives of its own (by default the latest 1,024): those that are wanted are kept here."""
        keep = getattr(ctypes.CDLL(str(self.path)), "dnnl_set_primitive_cache_capacity", None)
        if keep is not None:
            keep(0)

    def made(self, create: Any, *arguments: Any) -> c_void_p:
        """What a `..._create` function makes. Raises OneDNNError."""
        handle = c_void_p()
        self.check(create(ctypes.byref(handle), *arguments), create)
        return handle

    def check(self, status: int, function: Any) -> None:
        """Raise OneDNNError unless a call went well."""
        if status:
            raise OneDNNError(f"{function.__name__} of oneDNN {self.version} failed with status {status}")

    def dense(self, dims: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Descriptor:
        """A memory descriptor of float32: with these strides (in elements), else in whatever order a primitive wants."""
        found: Descriptor = self._dense(dims, strides)
        return found

    def _made_dense(self, dims: tuple[int, ...], strides: tuple[int, ...] | None) -> Descriptor:
        count, made = len(dims), Descriptor()
        if strides is None:
            status = self.memory_desc_create_with_tag(ctypes.byref(made), count, vector(dims), _F32, _TAG_ANY)
        else:
            status = self.memory_desc_create_with_strides(ctypes.byref(made), count, vector(dims), _F32, vector(strides))
        self.check(status, self.memory_desc_create_with_strides)
        made.destroy = self.memory_desc_destroy
        return made

    def memory(self, descriptor: c_void_p) -> c_void_p:
        """A memory object whose address is set later."""
        return self.made(self.memory_create, descriptor, self.engine, None)

    def limits(self, parts: int) -> Any:
        """A context in which this thread's primitives are made for, or run in, so many parts."""
        return self._limits(parts)


def vector(values: Sequence[int]) -> Any:
    """Dimensions or strides as the library takes them."""
    return (c_int64 * MAX_DIMS)(*values)


def _address_of(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


class _ThreadPoolParts:
    """Sets how many parts the calling thread's primitives are made for, and sets it back."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._get, self._set = library.dnnl_threadpool_interop_get_max_concurrency, library.dnnl_threadpool_interop_set_max_concurrency

    def read(self) -> int:
        count = c_int()
        self._get(ctypes.byref(count))
        return count.value

    def write(self, count: int) -> None:
        self._set(c_int(count))


class _OpenMPParts:
    """The same for OpenMP, whose threads would spin after each call: one part, in the calling thread."""

    def __init__(self) -> None:
        self._gomp = ctypes.CDLL("libgomp.so.1")

    def read(self) -> int:
        return int(self._gomp.omp_get_max_threads())

    def write(self, count: int) -> None:
        self._gomp.omp_set_num_threads(c_int(1 if count == SLICES else count))


class _Same:
    """A library that runs everything in the calling thread."""

    def read(self) -> int:
        return 1

    def write(self, count: int) -> None:
        pass


class _Limit:
    """The context of `Library.limits`."""

    def __init__(self, parts: Any, count: int) -> None:
        self.parts, self.count = parts, count

    def __enter__(self) -> None:
        self.before = self.parts.read()
        self.parts.write(self.count)

    def __exit__(self, *error: object) -> None:
        self.parts.write(self.before)


def _limits(library: ctypes.CDLL, runtime: int) -> Any:
    try:
        parts = _ThreadPoolParts(library) if runtime == _THREADPOOL else _OpenMPParts() if runtime == _OMP else _Same()
    except (OSError, AttributeError) as error:
        raise OneDNNError(f"the threads of this oneDNN cannot be limited: {error}") from None
    if runtime not in (1, _OMP, _THREADPOOL):
        raise OneDNNError(f"a oneDNN with the threading runtime {runtime} is not known")
    return functools.partial(_Limit, parts)


# -- finding it -----------------------------------------------------------------------------------


def of_mindspore() -> list[Path]:
    """The file within MindSpore; none where that is not installed."""
    loaded = sys.modules.get("mindspore")
    spec = importlib.util.find_spec("mindspore") if loaded is None else getattr(loaded, "__spec__", None)
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    return [path for folder in folders if (path := Path(folder) / "lib" / "libdnnl.so.3").exists()]


def candidates() -> Iterator[tuple[str, Path]]:
    """(where it comes from, file) of each library that may be there."""
    named = config.current.onednn
    if os.sep in named:
        yield "BCVM_ONEDNN", Path(named)
        return
    for path in of_mindspore():
        yield "MindSpore", path
    try:
        files = importlib.metadata.files(_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "libdnnl.so.3":
            yield _WHEEL, Path(str(file.locate())).resolve()


_lock = locks.lock()
_found: dict[str, tuple[Library | None, str]] = {}


def wanted() -> bool:
    """Whether the settings allow oneDNN."""
    return config.current.onednn.lower() not in OFF


def library() -> Library | None:
    """The library of this process, loaded at the first call; None where there is none or the settings say no."""
    return _known()[0] if wanted() else None


def state() -> tuple[Library | None, str]:
    """(library, where it comes from) or (None, why there is none)."""
    return _known() if wanted() else (None, "turned off by BCVM_ONEDNN")


def _known() -> tuple[Library | None, str]:
    name = config.current.onednn
    found = _found.get(name)
    if found is None:
        with _lock:
            found = _found.get(name) or _found.setdefault(name, _find())
    return found


def _leave_its_name_to_mindspore() -> None:
    """The loader gives whoever asks for "libdnnl.so.3" the first one that is loaded: MindSpore, imported later, must get its own."""
    for path in of_mindspore():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(path))


def _find() -> tuple[Library | None, str]:
    if not (sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")):
        return None, "only Linux on x86-64 was tried"
    reasons = []
    for origin, path in candidates():
        if not path.exists():
            reasons.append(f"{path} does not exist")
            continue
        try:
            if origin != "MindSpore":
                _leave_its_name_to_mindspore()
            found = Library(path)
            if path not in of_mindspore():
                found.keep_nothing()
            return found, origin
        except OneDNNError as error:
            reasons.append(str(error))
    return None, "; ".join(reasons) or "not installed"
