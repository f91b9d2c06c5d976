"""Names and parameters that BCVM leaves to plain Python, each with the reason; read by the package.

Keys are patterns of `fnmatch`: ``owner.name`` for names, ``owner.name(parameter)`` for parameters.
"""

from __future__ import annotations

_OUT = "a store into an array of the caller is Python's: nothing is written before a region has succeeded"
_OTHER_ARRAYS = "asks for other array types than ndarray"
_UFUNC = "machinery of NumPy's ufuncs; without `out=` the elements it leaves out mean nothing"

_RANDOM = "its CPU build draws these numbers itself, from a generator of its own"
_IN_PLACE = "changes a Parameter or tensor in place by MindSpore's own kernel"
_POSITION = "has no name that a call could use: it is given by position"

_RANDOM_OPS = """
    normal randn uniform rand multinomial randint randperm bernoulli standard_normal rand_like randn_like randint_like
"""

LEFT_NAMES: dict[str, str] = {
    "numpy.unstack": "of a vector it makes scalars; `bcvm.ops.unbind` makes views",
    "numpy.select": "another op: choices by conditions, made of `where`",
    "mindspore.ops.expand": "refuses tuples in MindSpore 2.10; `broadcast_to` is the same",
    "mindspore.ops.identity": "a primitive object that gives back what it is given",
    "mindspore.ops.scatter_add": _IN_PLACE,
    "mindspore.ops.index_add": _IN_PLACE,
    **{f"mindspore.ops.{name}": _RANDOM for name in _RANDOM_OPS.split()},
    "mindspore.Tensor.copy_": _IN_PLACE,
    "mindspore.Tensor.*normal_": _RANDOM,
    "mindspore.Tensor.uniform*": _RANDOM,
    "mindspore.Tensor.bernoulli*": _RANDOM,
    "mindspore.Tensor.multinomial": _RANDOM,
}

LEFT_PARAMETERS: dict[str, str] = {
    "numpy.*(out)": _OUT,
    "numpy.*(like)": _OTHER_ARRAYS,
    "numpy.*(subok)": _OTHER_ARRAYS,
    "numpy.ndarray.view(type)": _OTHER_ARRAYS,
    "numpy.*sort(order)": "fields of structured arrays",
    "numpy.*clip(kwargs)": _UFUNC,
    "numpy.*(device)": "arrays have one device: nothing is chosen",
    "numpy.*(copy)": "whether memory may be shared is for NumPy to say",
    "numpy.einsum(subscripts)": _POSITION,
    "numpy.einsum(dtype)": "the type that the products are worked out in follows from the operands",
    "numpy.einsum(order)": "the layout of the result follows from the operands",
    "numpy.einsum(casting)": "the type that the products are worked out in follows from the operands",
    "mindspore.*einsum(equation)": _POSITION,
    "mindspore.mint.randint*(args)": _POSITION,
    "mindspore.Tensor.scatter_(reduce)": _IN_PLACE,
    "mindspore.Tensor.select(condition)": "the older meaning, which is `where`: write that",
    "mindspore.Tensor.select(y)": "the older meaning, which is `where`: write that",
    "mindspore.Tensor.to(device)": "tensors of the CPU stay there",
    "mindspore.Tensor.view(dtype)": "the same bits as another type: shared in MindSpore's own way",
    "numpy.array(ndmax)": "a limit for nested sequences",
    "numpy.unique(sorted)": "without it the order is whatever NumPy's table gives",
    "numpy.linalg.cholesky(upper)": "the transposed factor: write `cholesky(x).T`",
    "numpy.arange(st*)": "by keyword: which of them the first one is depends on how many there are",
    "numpy.*(mean)": "a mean worked out before: two passes are the algorithm",
    "numpy.median(overwrite_input)": "sorts the caller's array: a store is Python's",
    "numpy.diff(append)": "joins arrays first: `concatenate` and then `diff`",
    "numpy.diff(prepend)": "joins arrays first: `concatenate` and then `diff`",
}

UFUNC_PARAMETERS: dict[str, str] = {
    "out": _OUT,
    "where": _UFUNC,
    "casting": _UFUNC,
    "order": _UFUNC,
    "subok": _OTHER_ARRAYS,
    "dtype": "the type that the algorithm works in follows from the operands; a comparison's is bool",
    "axes": "matrices are the last two axes",
    "axis": "matrices are the last two axes",
    "keepdims": "matrices are the last two axes",
}
"""Parameters that every ufunc has; functions that are none are not asked for them."""
