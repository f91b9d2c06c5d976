"""The recorded cases of kinds a, c, d and i in MindSpore's spelling.

A program uses `jit`, `np`, `ms`, `ops`, `mint`, `T(values, dtype)` (a tensor) and leaves its result in
`out`. `wanted` is None where the recorded value holds as it is (tensors compared as arrays), else an
expression for `out`: MindSpore rebinds, promotes and indexes in its own way there.
"""

from __future__ import annotations

from typing import NamedTuple


class Program(NamedTuple):
    source: str
    wanted: str | None = None


SOFTMAX = """
@jit
def softmax(x):
    e = mint.exp(x - x.max(axis=-1, keepdims=True)); return e / e.sum(-1, keepdim=True)
"""

PROGRAMS: dict[str, Program] = {
    "c01": Program("""
@jit
def f(x):
    y = x.T * 2 - 1
    return ops.argmax(y), mint.argmin(y), y.argmax(axis=0)
x = T([[3, 9], [-4, 7], [5, -8]])
out = [f(x), f(x.T.contiguous().T), f(T([[3, -4, 5], [9, 7, -8]]).T)]
"""),
    "c03": Program("""
@jit
def f(x, y):
    x *= 3
    return x + y
p, q = T([1., 2., 3., 4.], np.float64), T([10., 20., 30., 40.], np.float64)
first = f(p, q)
base = T(np.arange(6.), np.float64)
second = f(base[:4], base[2:6])
out = [first, p, second, base]
""", "[[13, 26, 39, 52], [1, 2, 3, 4], [2, 6, 10, 14], [0, 1, 2, 3, 4, 5]]"),  # `*=` rebinds: p and base stay
    "c05": Program("""
@jit
def f(x):
    y = x * 10 + 1
    x += 100
    z = x - y
    return y, z
x = T([2., 4., 8.])
y, z = f(x)
out = [y, z, x]
""", "[[21, 41, 81], [81, 63, 27], [2, 4, 8]]"),
    "c06": Program("""
def drop(x, p):
    return x if p == 0 else x * np.nan
@jit
def f(x):
    y = drop(x, 0)
    y.add_(y)
    return y
x = T(np.full((2, 3), 1.5))
y = f(x)
out = [x, y, x.data_ptr() == y.data_ptr()]
"""),
    "c08": Program("""
@jit
def f(x, a, b, c): return x[slice(a, b, c)]
x = T(np.arange(7), np.int64)
S = [(None, None, -1), (None, 0, -1), (-2, None, -1), (5, 1, -2), (10, 2, -3), (None, None, -3), (3, 3, 1), (-100, 2, 1),
     (2, -100, -1), (-1, -8, -2)]
out = [f(x, *s) for s in S] + [f(f(x, None, None, -1), None, None, -2)]
"""),
    "c09": Program("""
@jit
def total(x): return x.sum(0), x.prod(0), x.sum(1), x.mean(0), mint.argmin(x, dim=1).reshape(0, 2), (x + 1).reshape(3, 0)
@jit
def biggest(x): return x.max(axis=0)
@jit
def scalar_mean(x): return x.mean(), x.cumsum()
e = T(np.zeros((0, 3)))
try: biggest(e); r = "no error"
except ValueError: r = "ValueError"
out = [*total(e), r, *scalar_mean(T(5.))]
"""),
    "c11": Program("""
@jit
def f(x):
    x[1:] += x[:-1]
    return x
@jit
def g(x):
    x[:-1] -= x[1:]
    return x
out = [f(T(np.arange(1, 7), np.int64)), g(T(np.arange(1, 7) ** 2, np.int64)), f(T(np.arange(1, 7)[::-1], np.int64))]
"""),
    "c23": Program("""
nan, inf = np.nan, np.inf
@jit
def f(a, b):
    return mint.maximum(a, b), ops.maximum(b, a), ops.minimum(a, b), a.clamp(0.5, 6), mint.where(a > 0, a, a * 0), a.max(), a.min(axis=0)
@jit
def relu(a): return ops.relu(a)
out = []
for dt in (np.float32, np.float16, np.float64):
    a = T([nan, -2., 3., inf, -inf, nan, 0.25, -1., 9., nan, 1., 2.], dt)
    b = T([1., nan, 2., nan, 0., nan, 0.5, -3., 9., 4., nan, -2.], dt)
    out.append([*f(a, b), relu(a)])
"""),
    "c24": Program("""
@jit
def f(a, b): return a // b, a % b
a = T([-7, 7, -7, 7, -8, 8, 0, -1], np.int64)
b = T([2, -2, -2, 2, 4, -4, -5, 360], np.int64)
i16, f32 = ms.int16, ms.float32
out = [f(a, b), f(a.astype(i16), b.astype(i16)), f(T([-3072], np.int16), T([-512], np.int16)), f(a, 3), f(7, b),
       f(a.astype(f32), b.astype(f32))]
"""),
    "c26": Program("""
@jit
def f(x):
    h = x.astype(ms.float16)
    return (h * h).astype(ms.float32)
@jit
def g(x):
    h = x.half()
    return (h + h - h).float(), (h * 3 / 3).to(ms.float32)
out = [f(T([200., 255., 256., 300., -5000.])), g(T([40000., 0.1, 2049.]))]
"""),
    "c28": Program("""
@jit
def f(x):
    signs = x + 0.0, x - 0.0, 0.0 - x, -x, x * -0.0, x * 0.0, x - x, abs(x), ops.sqrt(x) * mint.sqrt(x)
    return *signs, 1.0 / (x * -1.0), ops.maximum(x, 0.0) + x
x = T([-0.0, 0.0, 2.0])
r = [y.asnumpy() for y in f(x)]
out = [np.signbit(r[:9]), r[9], r[2], r[10]]
"""),
    "c29": Program("""
@jit
def add(a, b): return a + b
@jit
def div(a, b): return a / b
i8, i32, i64, u8, f16, f32 = (T([1, 2], t) for t in (np.int8, np.int32, np.int64, np.uint8, np.float16, np.float32))
pairs = [add(i64, f32), div(i64, f32), div(i32, i32), add(i8, u8), add(f16, f32), add(i8, f16), add(i32, f16),
         add(f32, 2), add(f16, 2.5), add(i8, 1), add(i32, 0.5)]
out = [*[str(r.dtype) for r in pairs], div(i64, f32), add(f16, T(-70000., np.float16))]
""", "['Float32', 'Float32', 'Float32', 'Int16', 'Float32', 'Float16', 'Float16', 'Float32', 'Float16', 'Int8', 'Float32',"
     " [1, 1], [-inf, -inf]]"),
    "c32": Program(SOFTMAX + """
@jit
def logsumexp(x):
    m = x.max(axis=-1, keepdims=True); return (m + ops.log(ops.exp(x - m).sum(-1, keepdims=True)))[..., 0]
@jit
def log_softmax(x): return x - mint.logsumexp(x, -1)[:, None]
x = T([[1000., 1000., 999.], [-1000., -1001., -1000.], [88., 89., -88.], [0., 0., 0.]])
out = [softmax(x), logsumexp(x), log_softmax(x)]
"""),
    "c33": Program("""
@jit
def softmax(x): return mint.softmax(x, dim=-1)
ninf = -np.inf
x = T([[ninf, ninf, ninf], [0., 0., 0.], [1., ninf, 1.], [np.inf, 0., 1.], [np.nan, 0., 1.]])
out = [softmax(x), softmax(x[1:2]), softmax(x[:1])]
"""),
    "c35": Program("""
@jit
def layernorm(x, eps=1e-5):
    m = x.mean(-1, keep_dims=True); d = x - m
    return d / ops.sqrt((d * d).mean(-1, True) + eps)
i = np.arange(8)
out = layernorm(T(np.stack([0 + i / 64, 512 + i / 64, 4096 + i / 64, np.full(8, 11.0), -20000 + i / 8])))
"""),
    "c37": Program("""
@jit
def stats(x): return x.sum(), x.mean(), x.max(), x.min(), x.prod(), x.var(), (x < 0).all(), (x == 0).any(), len(x)
out = []
for n in (5, 7, 8, 3):
    neg = T(-np.arange(1., n + 1), np.float64); pos = T(np.arange(2., n + 2), np.float64)
    out.append([stats(neg), stats(pos)])
"""),
    "c39": Program(SOFTMAX + """
f64 = np.float64
out = [softmax(T([[-4., -5., -6., -7., -8.]], f64)), [float(softmax(T(np.full((1, n), -50.), f64))[0].sum()) for n in (1, 2, 3, 5, 9, 17)],
       softmax(T(np.zeros((2, 3)), f64))]
"""),
    "c40": Program("""
@jit
def ratio(x, y): return (x / y).sum(), (x / y).max()
@jit
def logmean(x): return mint.log(x).mean(), (x * ops.log(x)).sum()
@jit
def recip(x): return (1.0 / x).min()
out = []
for n in (3, 5, 6, 7):
    x = T(np.arange(1., n + 1), np.float64)
    out.append([ratio(x, x * 2), logmean(x), recip(x)])
"""),
    "c43": Program("""
@jit
def f(x, y):
    z = mint.cat([x, y])
    return z, x[-1], x[::-1], z.shape[0], x.reshape(-1).size, ops.concat([y[:, :1], y[:, -1:]], 1)
@jit
def conv(x, w):
    H, W = x.shape[0] - 1, x.shape[1] - 1
    return mint.stack([mint.stack([(x[i:i + 2, j:j + 2] * w).sum() for j in range(W)]) for i in range(H)])
f64 = np.float64
x, y = T(np.arange(10.).reshape(5, 2), f64), T(100 + np.arange(6.).reshape(3, 2), f64)
image, w = T(np.arange(15.).reshape(3, 5), f64), T([[1., -1.], [2., 0.5]], f64)
out = [f(x, y), conv(image, w), (T(np.ones((5, 3)), f64) @ T(np.arange(21.).reshape(3, 7), f64)).shape]
"""),
    "c80": Program("""
@jit
def f(x):
    res = [1, 2, 3]
    if x > 0:
        res = x
    return res
out = [f(T([1], np.int64)), f(T([-1], np.int64)), f(T([5], np.int64))]
"""),
    "c81": Program("""
@jit
def f(x, a, b):
    if a > b:
        return ops.maximum(x, 0)
    else:
        return ops.maximum(x, 0).astype(ms.float16)
x = T([[-1.5, 2.25], [0.1, 70000.]])
out = [f(x, T(2.), T(6.)), f(x, T(7.), T(6.)), f(x, T(2.), T(6.))]
"""),
    "c85": Program("""
@jit
def f(x, mode):
    total = 0
    def parts():
        nonlocal total
        for k in range(3):
            total += k
            yield x * k
    if mode is "fast" or mode == "fast":
        return sum(parts()), total
    if 1 < x.sum() < 5 != total:
        return x * 10, total
    try:
        r = x.reshape(7)
    except ValueError:
        r = x[::-1]
    finally:
        total -= 1
    return r, total
f64 = np.float64
out = [f(T([1., 2.], f64), "fast"), f(T([1., 2.], f64), "slow"), f(T([4., 9.], f64), None), f(T([1., 1., 0.], f64), "slow")]
"""),
    "c87": Program("""
seen = []
scale = [1.0, 2.0]
def build(k):
    @jit
    def f(x):
        seen.append(k)
        return x * scale[-1] + k
    return f
f1, f2 = build(1), build(10)
one = T([1.], np.float64)
r = [f1(one), f2(one), f1(one)]
scale.append(5.0)
out = [*r, f1(one), f2(one), seen]
"""),
}  # fmt: skip
