"""Shape hints: constraint templates such as ``[B, *, 64]``, what they accept and how they are learnt.

Written form, the same in annotations, listings and messages::

    [B, *, 64]      a named dim, a free dim, a fixed dim
    [1, D]          a fixed 1 is a singleton: it may broadcast against the others
    [..., 64]       any leading dims (also none), then 64;  [...] accepts every shape
    [*%16]          a free dim that is a multiple of 16
    []              exactly the scalars

A named dim is bound by the first shape that meets it and must agree wherever the name returns
within one run of a Program; the bindings are a plain dict that the run owns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import HintError

MAX_RANK = 64  # no array has more dims
MAX_DIM = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Aligned:
    """The free dim ``*%multiple``: any size that `multiple` divides (kernels may drop their tail masks)."""

    multiple: int

    def __str__(self) -> str:
        return f"*%{self.multiple}"


Dim = int | str | None | Aligned  # fixed size, named dim, the free dim "*", or a free dim with alignment

_ALIGNED = re.compile(r"\*\s*%\s*([0-9]{1,18})\Z")
_SYMBOL = re.compile(r"s[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class ShapeHint:
    """`dims` in order; `any_leading` stands for a leading ``...``.

    A fixed 1 is a singleton that may broadcast. `ANY` (``[...]``) accepts every shape.
    """

    dims: tuple[Dim, ...]
    any_leading: bool = False

    def __str__(self) -> str:
        parts = ["..."] if self.any_leading else []
        parts += [_show(dim) for dim in self.dims]
        return "[" + ", ".join(parts) + "]"

    @classmethod
    def parse(cls, text: str) -> ShapeHint:
        """The hint written as `text`. Raises HintError, which names the part that is wrong."""
        body = text.strip()
        if not (body.startswith("[") and body.endswith("]")):
            raise HintError(f"shape hint {text!r} is not in brackets", fix="write for example [B, *, 64]")
        inner = body[1:-1].strip()
        return of_dims([part.strip() for part in inner.split(",")] if inner else [])

    @property
    def names(self) -> tuple[str, ...]:
        """Named dims in order of first use, each once."""
        return tuple(dict.fromkeys(dim for dim in self.dims if isinstance(dim, str)))

    def match(self, shape: Sequence[int], bindings: dict[str, int]) -> str | None:
        """Check `shape`; None when it fits, and then new named dims are in `bindings`.

        Otherwise one line that says why, and `bindings` is unchanged.
        """
        dims, rank = self.dims, len(shape)
        skip = rank - len(dims)
        if skip < 0 or (skip and not self.any_leading):
            return f"rank {rank} against {self}"
        new: dict[str, int] = {}
        for position, dim in enumerate(dims, skip):
            if dim is None:
                continue
            size = shape[position]
            if isinstance(dim, str):
                bound = bindings.get(dim, new.get(dim))
                if bound is None:
                    new[dim] = size
                elif bound != size:
                    return f"dim {position} is {size} but {dim} = {bound} in {self}"
            elif isinstance(dim, int):
                if dim != size:
                    return f"dim {position} is {size}, not {dim} as in {self}"
            elif size % dim.multiple:
                return f"dim {position} is {size}, no multiple of {dim.multiple} as in {self}"
        bindings.update(new)
        return None


ANY = ShapeHint((), any_leading=True)


def _show(dim: Dim) -> str:
    return "*" if dim is None else str(dim)


def _dim(item: object) -> Dim:
    """One dim as annotations and listings write it: 64, "64", "B", "*", "*%16"."""
    if isinstance(item, int) and not isinstance(item, bool):
        if 0 <= item <= MAX_DIM:
            return item
        raise HintError(f"dim {item} is not a size", fix="sizes are 0 or more; write '*' for a free dim")
    if isinstance(item, str):
        text = item.strip()
        aligned = _ALIGNED.match(text)
        if text == "*":
            return None
        if text.isascii() and text.isdigit() and len(text) < 20:
            return _dim(int(text))
        if text.isidentifier():
            return text
        if aligned and int(aligned[1]) > 0:
            return Aligned(int(aligned[1])) if int(aligned[1]) > 1 else None
    raise HintError(f"{item!r} is no dim", fix="a dim is a name such as 'B', a size such as 64, '*' (free) or '*%16' (free, aligned)")


def of_dims(items: Iterable[object]) -> ShapeHint:
    """The hint of a list of dims; a leading ``...`` (or Ellipsis) stands for any leading dims. Raises HintError."""
    parts = list(items)
    any_leading = bool(parts) and parts[0] in ("...", Ellipsis)
    rest = parts[any_leading:]
    if any(part in ("...", Ellipsis) for part in rest):
        raise HintError("'...' may only be the first dim", fix="write [..., C] or give the dims one by one as '*'")
    if len(rest) > MAX_RANK:
        raise HintError(f"a hint of {len(rest)} dims", fix=f"arrays have at most {MAX_RANK}")
    return ShapeHint(tuple(_dim(part) for part in rest), any_leading)


def infer(shape: Sequence[int]) -> ShapeHint:
    """The hint of the first shape seen: every dim fixed.

    Fixed is the strongest guess and costs at most one generalisation per dim: what really varies
    becomes a symbol when a second shape arrives, what does not keeps its size for the kernels.
    """
    return ShapeHint(tuple(int(size) for size in shape))


def generalise(hint: ShapeHint, shape: Sequence[int], taken: Container[str] = ()) -> ShapeHint:
    """The narrowest hint that keeps what `hint` and `shape` agree on.

    Dims that agree stay; fixed dims that differ become new symbols ``s0``, ``s1``, ... that are
    neither in `hint` nor in `taken`; a name that returns with another size gets its own symbol;
    an alignment shrinks to what both share; another rank gives `ANY`.
    """
    skip = len(shape) - len(hint.dims)
    if skip < 0 or (skip and not hint.any_leading):
        return ANY
    used = set(hint.names)
    bound: dict[str, int] = {}
    dims: list[Dim] = []
    for dim, size in zip(hint.dims, shape[skip:], strict=True):
        if isinstance(dim, Aligned):
            common = math.gcd(dim.multiple, size)
            dims.append(Aligned(common) if common > 1 else None)
        elif (isinstance(dim, int) and dim != size) or (isinstance(dim, str) and bound.setdefault(dim, size) != size):
            dims.append(_fresh(used, taken))
        else:
            dims.append(dim)
    return ShapeHint(tuple(dims), hint.any_leading)


def _fresh(used: set[str], taken: Container[str]) -> str:
    number = 0
    while f"s{number}" in used or f"s{number}" in taken:
        number += 1
    used.add(f"s{number}")
    return f"s{number}"


def specialise(hint: ShapeHint, sizes: Mapping[str, int], free: int) -> ShapeHint:
    """The fixed hint of one shape: names take their size from `sizes`, free dims take `free`.

    An aligned dim takes the next multiple; ``...`` becomes no dim at all.
    """
    dims: list[Dim] = []
    for dim in hint.dims:
        if isinstance(dim, str):
            dims.append(sizes[dim])
        elif isinstance(dim, Aligned):
            dims.append(-(-free // dim.multiple) * dim.multiple)
        else:
            dims.append(free if dim is None else dim)
    return ShapeHint(tuple(dims))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Display names: the first letter where no other name begins with it (`Batch` shows as `B`).

    Generated symbols (`s0`) and names that share their first letter stay as they are.
    """
    all_names = list(dict.fromkeys(names))
    first = [name[0] for name in all_names]
    return {name: name[0] if first.count(name[0]) == 1 and not _SYMBOL.match(name) else name for name in all_names}


def renamed(hint: ShapeHint, names: Mapping[str, str]) -> ShapeHint:
    """`hint` with its named dims replaced by `names`; names that are not in it stay."""
    return ShapeHint(tuple(names.get(dim, dim) if isinstance(dim, str) else dim for dim in hint.dims), hint.any_leading)


def contradiction(one: ShapeHint, two: ShapeHint) -> str | None:
    """Why no shape fits both hints, or None when some shape may."""
    short, long = sorted((one, two), key=lambda hint: len(hint.dims))
    if len(short.dims) != len(long.dims) and not short.any_leading:
        return f"{one} and {two} have different ranks"
    pairs = zip(reversed(one.dims), reversed(two.dims), strict=False)
    for a, b in pairs:
        if _apart(a, b) or _apart(b, a):
            return f"{one} and {two} disagree on {_show(a)} and {_show(b)}"
    return None


def _apart(a: Dim, b: Dim) -> bool:
    if not isinstance(a, int):
        return False
    return (isinstance(b, int) and a != b) or (isinstance(b, Aligned) and a % b.multiple != 0)
