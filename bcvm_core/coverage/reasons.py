"""Names and parameters that BCVM leaves to plain Python, each with the reason; read by the package.

Keys are patterns of `fnmatch`: ``owner.name`` for names, ``owner.name(parameter)`` for parameters.
"""

from __future__ import annotations

_OUT = "a store into an array of the caller is Python's: nothing is written before a region has succeeded"
_OTHER_ARRAYS = "asks for other array types than ndarray"
_UFUNC = "machinery of NumPy's ufuncs; without `out=` the elements it leaves out mean nothing"

LEFT_NAMES: dict[str, str] = {
    "numpy.select": "another op: choices by conditions, made of `where`",
}

LEFT_PARAMETERS: dict[str, str] = {
    "numpy.*(out)": _OUT,
    "numpy.*(like)": _OTHER_ARRAYS,
    "numpy.*(subok)": _OTHER_ARRAYS,
    "numpy.ndarray.view(type)": _OTHER_ARRAYS,
    "numpy.*sort(order)": "fields of structured arrays",
    "numpy.ndarray.clip(kwargs)": _UFUNC,
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
