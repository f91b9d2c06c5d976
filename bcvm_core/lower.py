"""`lower`: a function's complete Program, for reading, saving and the reference interpreter."""

from __future__ import annotations

from typing import Any

from .isa.program import Program


def lower(function: Any, *args: Any) -> Program:
    """The Program of `function`, or the flat Program of a MindSpore model.

    `args` are example values or `TensorSpec`s, from which hints and signatures follow; without them
    hints come from annotations only and signatures are resolved when bound. Raises LoweringError
    when the function's source cannot be found. A model's Program is that of a call with `args`, or without them that of its
    latest call under BCVM; LoweringError says why it has none.
    """
    from .modes import is_model, program_of_model

    if is_model(function):
        return program_of_model(function, args)
    from .vm.programs import lower_function

    return lower_function(function, args)
