"""Private names: how a function's qualified name tells which class mangles them."""

from __future__ import annotations


def private_class(qualname: str) -> str | None:
    """The innermost class around a function, from its qualified name; None outside of classes."""
    parts = qualname.split(".")
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] != "<locals>" and parts[i + 1] != "<locals>":
            return parts[i] if parts[i].isidentifier() else None
    return None


def mangled(name: str, owner: str | None) -> str:
    """`name` as the compiler writes it within class `owner`."""
    private = name.startswith("__") and not name.endswith("__") and "." not in name
    stripped = owner.lstrip("_") if owner else ""
    return f"_{stripped}{name}" if private and stripped else name
