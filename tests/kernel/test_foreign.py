"""Other libraries' tensors, frames and pictures pass untouched: cells that use them do what they do in a stock kernel."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

# What torch and its like do: take part in NumPy's protocols, keep their own type, and remember what was asked of them.
TENSOR_LIKE = '''
import numpy as np

class Tensor:
    """As torch's: operators, `__array__`, functions of its own; NumPy's functions and operators are told to leave it alone."""
    __array_priority__ = 1000
    log = []
    def __init__(self, data, grad=False): self.data, self.grad = np.asarray(data), grad
    def __array__(self, dtype=None, copy=None): Tensor.log.append("array"); return self.data
    def __add__(self, other): Tensor.log.append("add"); return Tensor(self.data + getattr(other, "data", other), self.grad)
    __radd__ = __add__
    def __mul__(self, other): Tensor.log.append("mul"); return Tensor(self.data * np.asarray(getattr(other, "data", other)), self.grad)
    __rmul__ = __mul__
    def __matmul__(self, other): Tensor.log.append("matmul"); return Tensor(self.data @ other.data, self.grad)
    def __iadd__(self, other): Tensor.log.append("iadd"); self.data = self.data + other; return self
    def __gt__(self, other): return Tensor(self.data > other)
    def __bool__(self): return bool(self.data.all())
    def __getitem__(self, key): return Tensor(self.data[key], self.grad)
    def __setitem__(self, key, value): Tensor.log.append("setitem"); self.data[key] = value
    def __len__(self): return len(self.data)
    def sum(self, *args, **kw): return Tensor(self.data.sum(*args, **kw), self.grad)
    def sqrt(self): return Tensor(np.sqrt(self.data), self.grad)
    @property
    def T(self): return Tensor(self.data.T, self.grad)
    @property
    def shape(self): return self.data.shape
    @property
    def dtype(self): return "own." + self.data.dtype.name
    def __repr__(self): return f"tensor({self.data.tolist()}, grad={self.grad})"

class Quantity(np.lib.mixins.NDArrayOperatorsMixin):
    """As units, masked or lazy arrays: NumPy's functions ask it."""
    def __init__(self, data, unit): self.data, self.unit = np.asarray(data), unit
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [x.data if isinstance(x, Quantity) else x for x in inputs]
        return Quantity(getattr(ufunc, method)(*plain, **kwargs), f"{ufunc.__name__}({self.unit})")
    def __array_function__(self, func, types, args, kwargs): return f"{func.__name__} was asked"
    def __repr__(self): return f"{self.data.tolist()} {self.unit}"

class Masked(np.ndarray):
    """A subclass with operators of its own."""
    def __add__(self, other): return "own add"
    def __array_finalize__(self, obj): self.tag = getattr(obj, "tag", "new")

t, q = Tensor([[1.0, 2.0], [3.0, 4.0]], grad=True), Quantity([1.0, 4.0], "m")
m = np.arange(3.0).view(Masked)
x = np.arange(4.0).reshape(2, 2)
'''

LIKE_TORCH = [
    TENSOR_LIKE,
    "t + 1, 2 * t, t * t, (t @ t).T.sqrt()",
    "y = t * 2 + 1\nz = y * y + t\nz",
    "x * t, type(x + t).__name__",
    "x * 2 + 1, t * 2 + 1",
    "t += 1\nt[0] = 0\nt[1], len(t), t.shape, t.dtype",
    "def f(v):\n    h = v * 2 + 1\n    if h > 0:\n        return h.sum()\n    return h.T\n[f(t), f(t * -1), f(x[:1, :1]), f(3.0)]",
    "def g(a, b):\n    c = a * 2\n    return c + b\n[type(v).__name__ for v in (g(x, x), g(t, t), g(x, t), g(q, q), g(1, t))]",
    "np.sqrt(t), np.asarray(t) * 2 + 1",
    "np.sqrt(q), q * 2 + q, np.add.reduce(q)",
    "np.concatenate([q, q]), np.sum(q), np.where(q, 1, 2)",
    "np.add(x, 1, out=x)\nx + q",
    "m + 1, (m * 2).tag, type(m * 2 - 1).__name__",
    "np.sqrt(m) * 2 - m",
    "for v in (x, t, q, m, 1.5):\n    w = v * 2\n    w = w - v if not isinstance(v, Tensor) else w + v\n    print(type(w).__name__, w)",
    "Tensor.log",
    "np.array([t, None], dtype=object) if False else type(np.array([q.data, q.data])).__name__",
    "import decimal, fractions\nd = decimal.Decimal('1.1')\n(d * 2 + 1, fractions.Fraction(1, 3) * 2 + 1, x * fractions.Fraction(1, 2))",
    "np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]) * 2 + 1",
    "np.matrix('1 2; 3 4') * np.matrix('1 2; 3 4') + 1",
    "np.rec.array([(1, 2.0)], dtype=[('a', int), ('b', float)]).b * 2 + 1",
    "np.datetime64('2024-01-01') + np.arange(3), np.array(['a', 'b']) == 'a'",
]
SCIPY = [
    "import numpy as np, scipy.sparse as sp\nA = sp.csr_matrix(np.eye(3) * 2)\nb = np.arange(3.0)",
    "A @ b * 2 + 1, (A * 2 + A).toarray(), (A.multiply(b)).toarray()",
    "(A + A.T).sum(axis=0), A.max(), A[1:2, :].toarray(), abs(A).toarray()",
    "B = A * 3\nc = B @ b\nd = c * c - 1\nd, B.dtype, np.sqrt(A).toarray()",
    "b @ A, np.dot(b, b) * A.sum()",
]
PANDAS = [
    "import numpy as np, pandas as pd\nframe = pd.DataFrame({'a': [1.0, 2.0, np.nan], 'b': [3, 4, 5]}, index=list('xyz'))",
    "frame * 2 + 1",
    "s = frame['a'] * 2 + frame['b']\ns[s > 5].sum(), s.index.tolist()",
    "frame['c'] = np.exp(frame['b'] / 10) + 1\nframe.mean()",
    "frame.groupby('b').sum() * 2",
    "np.log(frame['b']), np.maximum(frame['a'], frame['b'])",
    "def f(v):\n    t = v * 2\n    return t + 1\n[type(f(v)).__name__ for v in (frame['a'], frame, frame['a'].to_numpy())]",
    "frame.loc['x', 'a'] = 7 * 2 + 1\nframe['a'] += 1\nframe",
    "frame",
]
MATPLOTLIB = [
    "import numpy as np, matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nx = np.linspace(0, 1, 5)",
    "fig, ax = plt.subplots()\nline, = ax.plot(x, x * 2 + 1)\nax.imshow(np.outer(x, x) * 255)\nline.get_ydata() * 2",
    "n, bins, patches = ax.hist(x * 10, bins=3)\nn * 2 + 1, bins, len(patches)",
    "ax.set_xlim(0, x.max() * 2)\n(ax.transData.transform((0.5, 0.5)) * 0 + 1).tolist()",
    "from io import BytesIO\nout = BytesIO(); fig.savefig(out); out.getvalue()[:4]",
]
PILLOW = [
    "import numpy as np\nfrom PIL import Image\npicture = Image.fromarray((np.arange(16).reshape(4, 4) * 16).astype('u1'))",
    "a = np.asarray(picture) * 2 + 1\na, a.dtype",
    "picture.resize((2, 2)).size, Image.fromarray(a[::-1]).getpixel((0, 0))",
]
SKLEARN = [
    "import numpy as np\nfrom sklearn.linear_model import LinearRegression",
    "x = np.arange(8.0).reshape(4, 2)\ny = x[:, 0] * 2 + x[:, 1] + 1",
    "model = LinearRegression().fit(x, y)\n(np.round(model.coef_ * 2 + 1, 6), model.score(x, y) > 0.999)",
]
LIBRARIES = {"scipy": SCIPY, "pandas": PANDAS, "matplotlib": MATPLOTLIB, "PIL": PILLOW, "sklearn": SKLEARN}


@pytest.fixture(scope="module")
def both(start_for_module: Any) -> Any:
    return start_for_module(), start_for_module("python3")


def _shown(out: Any) -> tuple[Any, ...]:
    def clean(text: Any) -> str:
        return re.sub(r"0x[0-9a-f]+|ipykernel_\d+|\x1b\[[0-9;]*m", "", str(text))

    return out.status, out.ename, clean(out.evalue), out.stdout, clean(out.stderr), clean(out.result), clean(out.traceback)


def _same(both: Any, cells: list[str]) -> None:
    ours, stock = both
    for code in cells:
        ids = ours.send(code, allow_stdin=False), stock.send(code, allow_stdin=False)
        got, want = ours.wait(ids[0]), stock.wait(ids[1])
        assert _shown(got) == _shown(want), code


def test_objects_that_take_part_in_numpys_protocols_pass_untouched(both: Any) -> None:
    _same(both, LIKE_TORCH)
    assert int(both[0].run("s = %bcvm stats -o\ns.call_op").text) > 10  # the arrays among them did not


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_pass_untouched(both: Any, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    _same(both, LIBRARIES[library])
    assert both[0].run(f"import sys; {library!r} in sys.modules").text == "True"
