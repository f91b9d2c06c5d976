"""The linked form means what Python means: values, errors with text and frames, locals, callers' arrays."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import HintError, LoweringError, StrictError
from bcvm_core.frontend.annotations import Tensor
from bcvm_core.jit import jit, linker_of, nojit
from bcvm_core.testing import force_tier

from . import constructs
from .constructs import SAMPLES, Sample, X, Y, canonical, copied

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Everything a caller can see of a call."""
    arguments = copied(arguments)
    try:
        return ("value", canonical(function(*arguments)), canonical(arguments))
    except Exception as error:
        innermost = error.__traceback__
        while innermost is not None and innermost.tb_next is not None:
            innermost = innermost.tb_next
        assert innermost is not None
        names = {k: canonical(v) for k, v in innermost.tb_frame.f_locals.items()}
        return ("error", "".join(traceback.format_exception(error)), names, canonical(arguments))


def without_markers(result: Any) -> Any:
    """For unbound locals CPython 3.11 itself puts the ^ here or there, by what it has specialised."""
    if result[0] == "error" and "UnboundLocalError" in result[1]:
        return ("error", re.sub(r"\n *\^+\n", "\n", result[1]), *result[2:])
    return result


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_linked_is_plain_python(sample: Sample) -> None:
    linked = jit(sample.function)
    assert linker_of(linked) is not None, "was not linked"
    for _ in range(3):
        for arguments in sample.arguments:
            plain = outcome(sample.drive(sample.function), arguments)
            assert without_markers(outcome(sample.drive(linked), arguments)) == without_markers(plain)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.function is not constructs.class_in_function], ids=lambda s: s.name)
def test_tensor_work_runs_in_the_vm(sample: Sample) -> None:
    linked = jit(sample.function)
    outcome(sample.drive(linked), sample.arguments[0])
    stats = linked.stats()
    if sample.function is constructs.properties:  # found out at the first call that reading `counted` runs user code
        stats.reset()
        outcome(sample.drive(linked), sample.arguments[0])
    assert stats.call_op > 0
    assert stats.share() == 1.0, stats.reasons


def test_the_twin_is_the_function_in_all_that_can_be_asked() -> None:
    linked = jit(constructs.parameters)
    plain = constructs.parameters
    for name in "__name__ __qualname__ __module__ __doc__ __defaults__ __kwdefaults__ __closure__ __annotations__".split():
        assert getattr(linked, name) == getattr(plain, name), name
    for name in "co_filename co_firstlineno co_name co_qualname co_flags co_freevars co_cellvars co_argcount co_varnames".split():
        assert getattr(linked.__code__, name) == getattr(plain.__code__, name), name
    assert str(inspect.signature(linked)) == str(inspect.signature(plain))
    assert inspect.getsource(linked) == inspect.getsource(plain)
    assert inspect.isgeneratorfunction(jit(constructs.generator))
    assert inspect.iscoroutinefunction(jit(constructs.coroutine))


@jit
def pickled(x: Any) -> Any:
    return x * 2


def test_pickles_by_name() -> None:
    assert pickle.loads(pickle.dumps(pickled)) is pickled


def test_globals_are_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def uses_global(x: Any) -> Any:
        return np.maximum(x * constructs.G, 0) + 1

    before = uses_global(X)
    monkeypatch.setattr(constructs, "G", constructs.G * 7)
    assert canonical(uses_global(X)) == canonical(np.maximum(X * constructs.G, 0) + 1)
    assert canonical(before) != canonical(uses_global(X))
    with monkeypatch.context() as patch:
        patch.setattr(np, "maximum", lambda a, b: a * 0 - 5)
        patched = uses_global(X)
    assert (patched == -4).all()
    assert canonical(uses_global(X)) == canonical(np.maximum(X * constructs.G, 0) + 1)


def test_closures_of_one_def_each_keep_their_cell() -> None:
    made = [jit(constructs.make_closure(constructs.G * k)) for k in (1, 2, 3)]
    for k, function in enumerate(made, start=1):
        assert canonical(function(X)) == canonical(constructs.make_closure(constructs.G * k)(X))


class Base:
    def __init__(self) -> None:
        self.__private = constructs.G * 3

    def value(self, x: Any) -> Any:
        return x + self.__private


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.__private = constructs.G * 5

    def plain(self, x: Any) -> Any:
        z = x * 2 + self.__private
        return super().value(z) - __class__.__name__.count("D")

    linked = jit(plain)


def test_methods_private_names_and_super() -> None:
    assert canonical(Derived().linked(X)) == canonical(Derived().plain(X))


def test_sites_that_never_meet_a_tensor_are_taken_out() -> None:
    @jit
    def add(a: Any, b: Any) -> Any:
        return a + b

    original = linker_of(add).original  # type: ignore[union-attr]
    assert add.__code__ is not original
    for _ in range(20):
        assert add(2, 3) == 5
    assert add.__code__ is original
    assert canonical(add(X, Y)) == canonical(X + Y)


def test_a_function_of_integers_is_not_touched() -> None:
    @jit
    def count(n: int) -> int:
        total = 0
        for i in range(1000):
            total += i * 3 % 7
        return total

    assert count.__code__ is linker_of(count).original  # type: ignore[union-attr]


def test_properties_are_read_as_often_as_in_python() -> None:
    reads: list[str] = []

    class Counted:
        @property
        def w(self) -> Any:
            reads.append("w")
            return X

    @jit
    def f(o: Any, x: Any) -> Any:
        return x * o.w + o.w

    for _ in range(4):
        f(Counted(), Y)
    assert len(reads) == 8


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_warnings_name_the_users_line() -> None:
    @jit
    def f(x: Any) -> Any:
        a = x + 1
        b = 1 / a
        return b * 2

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(np.array([-1.0, 1.0]))
    (warning,) = seen
    assert str(warning.message) == "divide by zero encountered in divide"
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(f)[1] + 3


def test_errstate_raise_raises_in_the_users_frame() -> None:
    @jit
    def f(x: Any) -> Any:
        return 1 / x

    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero") as caught:
        f(np.array([0.0]))
    assert caught.traceback[-1].name == "f"


def test_in_place_commits_nothing_when_it_fails() -> None:
    @jit
    def f(x: Any, y: Any) -> Any:
        x += y
        return x

    x = np.arange(3)
    with pytest.raises(TypeError):
        f(x, np.array([0.5, 0.5, 0.5]))
    assert (x == np.arange(3)).all()
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(frozen, 1.0)


def test_results_do_not_alias_buffers() -> None:
    @jit
    def f(x: Any) -> Any:
        return x * 2

    a, b = f(X), f(X)
    assert not np.shares_memory(a, b)
    a[:] = 0
    assert canonical(b) == canonical(X * 2)


def test_hints_of_annotations_are_checked() -> None:
    @jit
    def f(x: Tensor["B", 4], y: Tensor["B", "*"]) -> Any:  # noqa: F821
        return x * 2, y

    f(X, Y)
    with pytest.raises(HintError, match="rank") as caught:
        f(X[0], Y)
    assert "argument 'x'" in str(caught.value)
    with pytest.raises(HintError, match="B"):
        f(X, Y[:2])


def test_strict_names_the_place() -> None:
    @jit(strict=True)
    def f(x: Any) -> Any:
        return np.add(x, 1, where=x > 0)

    with pytest.raises(StrictError) as caught:
        f(X)
    assert caught.value.where is not None and caught.value.where.line == inspect.getsourcelines(f)[1] + 2


def test_no_source() -> None:
    namespace: dict[str, Any] = {"np": np}
    exec("def f(x):\n    try:\n        return np.exp(x)\n    finally:\n        print(x)", namespace)
    assert jit(namespace["f"]) is namespace["f"]
    with pytest.raises(LoweringError, match="source of f is not available"):
        jit(namespace["f"], strict=True)
    assert jit(len) is len


def test_nojit() -> None:
    @jit
    @nojit
    def f(x: Any) -> Any:
        return x * 2

    assert not hasattr(f, "stats")


def test_linkers_die_with_their_functions() -> None:
    import weakref

    def make() -> Any:
        data = np.ones(1000)

        @jit
        def f(x: Any) -> Any:
            return data * x

        f(1.0)
        return f, weakref.ref(data)

    f, reference = make()
    del f
    gc.collect()
    assert reference() is None


def test_subclasses_are_left_to_numpy() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0])

    @jit
    def f(x: Any) -> Any:
        return (x * 2).sum(), x + 1

    plain = ((masked * 2).sum(), masked + 1)
    linked = f(masked)
    assert linked[0] == plain[0] and type(linked[1]) is type(plain[1])


def test_deep_copy_of_a_jitted_function() -> None:
    assert copy.deepcopy(pickled) is pickled


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_regions_by_the_interpreter(sample: Sample) -> None:
    linked = jit(sample.function)
    for arguments in sample.arguments:
        plain = outcome(sample.drive(sample.function), arguments)
        with force_tier("interpreter"):
            assert without_markers(outcome(sample.drive(linked), arguments)) == without_markers(plain)


def test_forced_to_plain_python() -> None:
    linked = jit(constructs.straight)
    with force_tier("plain"):
        assert canonical(linked(X, Y)) == canonical(constructs.straight(X, Y))
    assert linked.stats().call_op == 0


def test_the_log_shows_signature_and_hint(caplog: pytest.LogCaptureFixture) -> None:
    @jit
    def f(x: Tensor["Batch", "*"]) -> Any:
        return x * 2

    with caplog.at_level("DEBUG", logger="bcvm"):
        f(X)
    assert re.search(r"\[BCVM\] Compile for sig=0x[0-9A-F]{4}, shape_hint=\[B,\*\]", caplog.text)
