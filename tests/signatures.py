"""The parameters that the installed libraries' own callables have, by whatever way each shows them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np

_UFUNC = ("out", "where", "casting", "order", "dtype", "subok")
_LOOPED = ("axes", "axis", "keepdims")  # ufuncs with a signature of their own (matmul) also take these


def of_numpy(value: Any) -> set[str] | None:
    """The parameters of a NumPy function or ndarray method; None where it shows none."""
    if isinstance(value, np.ufunc):
        return {*_UFUNC, *(_LOOPED if value.signature else ())}
    text = _from_text(value.__doc__ or "", value.__name__)
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return text
    hides = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    return _names(signature, hides) - {"self"} | ((text or set()) if hides else set())


def _names(signature: inspect.Signature, hides: bool = False) -> set[str]:
    """Those that can be named, and `*these` unless the callable sorts its arguments itself."""
    unnamed = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}
    unnamed |= {inspect.Parameter.VAR_POSITIONAL} if hides else set()
    return {p.name for p in signature.parameters.values() if p.kind not in unnamed}


def _from_text(doc: str, name: str) -> set[str] | None:
    """From the head of a docstring: `a.sum(axis=None, ...)`, `arange([start,] stop[, step,], dtype=None, *, like=None)`."""
    found: set[str] = set()
    start = doc.find(f"{name}(")
    if start < 0 or doc[:start].strip() not in ("", "a.", "self."):
        return None
    for part in _parts(doc[start + len(name) + 1 :]):
        word = part.partition("=")[0].strip("[ ]*/\n")
        found |= {word} if word.isidentifier() else set()
    return found


def _parts(text: str) -> list[str]:
    """The pieces between commas up to the bracket that closes; what stands in brackets is no name."""
    parts, depth = [""], 0
    for letter in text.translate({ord("["): None, ord("]"): None}):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def of_mindspore(value: Any, receiver: Any = None) -> set[str] | None:
    """The parameters of a MindSpore function, or of the method `value` (a name) of `receiver`, all overloads together.

    Functions written in C++ list their overloads when they are called with a keyword that none of them has.
    """
    function = getattr(receiver, value) if receiver is not None else value
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    if signature is not None and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return _names(signature) - {"self"}
    try:
        function(*() if receiver is not None else (None,), no_such_word=1)
    except Exception as error:
        found = _from_message(str(error))
        return _from_text(function.__doc__ or "", function.__name__) if found is None else found
    return None


def _from_message(message: str) -> set[str] | None:
    calls = re.findall(r'^"[\w.]+\((.*)\)"$', message, re.MULTILINE)
    if not calls:
        return None
    found: set[str] = set()
    for text in calls:
        found |= set(re.findall(r"(\w+)=<", text))
    return found
