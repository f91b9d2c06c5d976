"""`lower`: a function's complete Program, for reading, saving and the reference interpreter."""

from __future__ import annotations

from typing import Any

from .isa.program import Program


def lower(function: Any, *args: Any) -> Program:
    """The Program of `function`.

    `args` are example values or `TensorSpec`s, from which hints and signatures follow; without them
    hints come from annotations only and signatures are resolved when bound. Raises LoweringError
    when the function's source cannot be found.
    """
    from .vm.programs import lower_function

    return lower_function(function, args)
