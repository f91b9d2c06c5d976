"""Error inputs in MindSpore's spellings: what MindSpore refuses as wrong is not computed; Python repeats the call for the error."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import pytest
from door_support import MODULES, tensor
from test_samples import LINKS, as_tensors, every, run

import bcvm_core as bcvm
from bcvm_core.ops.registry import OpInfo, Spelling
from tests import sample_errors, spelled
from tests.sample_checks import outcome
from tests.sample_values import Sample

pytestmark = pytest.mark.mindspore
OWNERS = {
    "mindspore.ops": MODULES["ops"],
    "mindspore.mint": MODULES["mint"],
    "mindspore.mint.nn.functional": MODULES["F"],
    "mindspore.Tensor": None,
}
FAULTS = {"complex", "shape", "axis", "word"}
WIDER = {
    ("mindspore.ops.isnan", "complex"),  # mint.isnan takes them
    ("mindspore.ops.cast", "complex"),  # NumPy's names of types
    ("mindspore.Tensor.to", "complex"),
    ("mindspore.Tensor.permute", "complex"),  # MindSpore's own overload with `axis` calls a function that has no such word
    *((f"mindspore.ops.max_unpool{rank}d", "complex") for rank in (1, 2, 3)),  # elements are only moved
}


def by_mindspore(owner: str, op: OpInfo, spelling: Spelling, sample: Sample) -> Any:
    """MindSpore's own result or exception; None where the spelling cannot say the sample."""
    form = outcome(spelled.arguments, op, spelling, *sample)
    if form is None or isinstance(form, Exception):
        return None
    args, kwargs = as_tensors(form[0]), {name: as_tensors(value) for name, value in form[1].items()}
    name = spelling.target.rpartition(".")[2]
    method = spelling.kind == "method"
    if method and not isinstance(args[0], ms.Tensor):
        return None
    return outcome(getattr(args[0] if method else OWNERS[owner], name), *(args[1:] if method else args), **kwargs)


@pytest.mark.parametrize("owner", OWNERS)
def test_what_mindspore_refuses_is_not_computed(owner: str) -> None:
    accepted, refused = [], 0
    for op, spelling in LINKS[owner]:
        if spelling.fixed.get("dialect") == "inplace":
            continue
        for sample in every(op)[:2]:
            for fault, wrong in sample_errors.spoiled(op, sample):
                if fault not in FAULTS:
                    continue
                theirs = by_mindspore(owner, op, spelling, wrong)
                if isinstance(theirs, TypeError | ValueError | IndexError):
                    ours = outcome(run, op, spelling, wrong)
                    refused += 1
                    if ours is not None and not isinstance(ours, Exception) and (spelling.target, fault) not in WIDER:
                        accepted.append((spelling.target, spelling.signature, fault, str(theirs)[:80]))
    assert accepted == []
    assert refused > 20, "too little was tried"


def test_the_exception_is_mindspores() -> None:
    """Type and text, through a compiled function: the region is handed back and MindSpore raises."""

    def f(x: Any, y: Any) -> Any:
        z = x * 2
        return ms.mint.concat([z, y], dim=1) + 1

    compiled = bcvm.jit(f)
    for x, y in ((tensor([[1.0]]), tensor([[1.0, 2.0]])), (tensor([[1.0]]), tensor([1.0])), (tensor([1.0]), tensor([1.0]))):
        ours, theirs = outcome(compiled, x, y), outcome(f, x, y)
        assert type(ours) is type(theirs) and (not isinstance(theirs, Exception) or str(ours) == str(theirs))
