"""Methods and attributes of `mindspore.Tensor`. Where a method has an `axis` and a `dim` form, both are overloads."""

from __future__ import annotations

TENSOR = """
shape = shape
ndim = ndim
size = size
dtype = dtype
itemsize = itemsize
nbytes = nbytes
transposed = T
item = item()
tolist = tolist()

add = add(y:other)
add_scaled = add(y:other, *, alpha)
subtract = sub(y:other)
subtract = sub(y)
subtract_scaled = sub(y:other, *, alpha)
subtract = subtract(y:other)
subtract_scaled = subtract(y:other, *, alpha)
multiply = mul(y:other)
multiply = multiply(y:other)
multiply = multiply(y:value)
divide = div(y:other)
divide_rounded = div(y:other, *, rounding_mode)
divide = divide(y:other)
divide_rounded = divide(y:other, *, rounding_mode)
divide = true_divide(y:divisor)
divide = true_divide(y:other)
floor_divide = floor_divide(y:other)
remainder = remainder(y:other)
remainder = remainder(y:divisor)
fmod = fmod(y:other)
power = pow(y:exponent)
maximum = maximum(y:other)
minimum = minimum(y:other)
arctan2 = atan2(y:other)
arctan2 = arctan2(y:other)
negative = neg()
negative = negative()
absolute = abs()
absolute = absolute()
sign = sign()
square = square()
sqrt = sqrt()
rsqrt = rsqrt()
reciprocal = reciprocal()
floor = floor()
ceil = ceil()
trunc = trunc()
round = round(decimals=0)
clip = clamp(a_min:min=None, a_max:max=None)
clip = clip(a_min:min=None, a_max:max=None)
equal = eq(y:other)
not_equal = ne(y:other)
not_equal = not_equal(y:other)
less = lt(y:other)
less = less(y:other)
less_equal = le(y:other)
less_equal = less_equal(y:other)
greater = gt(y:other)
greater = greater(y:other)
greater_equal = ge(y:other)
greater_equal = greater_equal(y:other)
logical_and = logical_and(y:other)
logical_and = logical_and(y)
logical_or = logical_or(y:other)
logical_or = logical_or(y)
logical_xor = logical_xor(y:other)
logical_not = logical_not()
bitwise_and = bitwise_and(y:other)
bitwise_or = bitwise_or(y:other)
bitwise_xor = bitwise_xor(y:other)
isnan = isnan()
isinf = isinf()
isfinite = isfinite()
exp = exp()
expm1 = expm1()
log = log()
log2 = log2()
log10 = log10()
log1p = log1p()
sin = sin()
cos = cos()
tan = tan()
sinh = sinh()
cosh = cosh()
tanh = tanh()
arcsin = asin()
arccos = acos()
arctan = atan()
arcsinh = asinh()
arccosh = acosh()
arctanh = atanh()
erf = erf()
erfc = erfc()
sigmoid = sigmoid()
softmax = softmax(axis, dtype=None); also='dtype'
softmax = softmax(*, axis:dim, dtype=None); also='dtype'

sum = sum(axis:dim=None, keepdims:keepdim=False, *, dtype=None)
sum = sum(axis=None, dtype=None, keepdims=False, initial=None)
mean = mean(axis:dim=None, keepdims:keepdim=False, *, dtype=None)
mean = mean(axis=None, keepdims:keep_dims=False)
prod = prod(axis:dim=None, keepdims:keepdim=False, dtype=None)
prod = prod(axis=None, keepdims:keep_dims=False, dtype=None)
max = max()
max = max(*, axis, keepdims=False, initial=None, where=None, return_indices=False); dialect='method', only='return_indices'
max = max(*, keepdims); dialect='method'
max = max(*, initial, where=None); dialect='method'
max_pairs = max(axis:dim, keepdims:keepdim=False)
min = min()
min = min(*, axis, keepdims=False, initial=None, where=None, return_indices=False); dialect='method', only='return_indices'
min = min(*, keepdims); dialect='method'
min = min(*, initial, where=None); dialect='method'
min_pairs = min(axis:dim, keepdims:keepdim=False)
max = amax(axis=None, keepdims=False, *, initial=None, where=None)
min = amin(axis=None, keepdims=False, *, initial=None, where=None)
ptp = ptp(axis=None, keepdims=False)
any = any(axis=None, keepdims:keep_dims=False)
any = any(axis:dim=None, keepdims:keepdim=False)
all = all(axis=None, keepdims:keep_dims=False)
all = all(axis:dim=None, keepdims:keepdim=False)
argmax = argmax(axis=None, keepdims=False)
argmax = argmax(axis:dim=None, keepdims:keepdim=False)
argmin = argmin(axis=None, keepdims=False)
argmin = argmin(axis:dim=None, keepdims:keepdim=False)
var = var(axis=None, ddof=0, keepdims=False)
var = var(*, axis:dim, ddof:correction=1, keepdims:keepdim=False)
std = std(axis=None, ddof=0, keepdims=False)
std = std(*, axis:dim, ddof:correction=1, keepdims:keepdim=False)
norm = norm(ord=None, axis:dim=None, keepdims:keepdim=False, *, dtype=None); also='dtype'
logsumexp = logsumexp(axis:dim, keepdims:keepdim=False)
cumsum = cumsum(axis=None, dtype=None)
cumsum = cumsum(axis:dim, *, dtype=None)
cumprod = cumprod(axis:dim, dtype=None)
sort_pairs = argsort(axis=-1, descending=False); dialect='order_ops'
sort_pairs = argsort(axis:dim=-1, descending=False, stable=False); dialect='order_ops'
matmul = matmul(y:tensor2)
matmul = matmul(y:other)
matmul = mm(y:mat2)
bmm = bmm(y:mat2)
outer = outer(y:vec2)

astype = astype(dtype, copy=True)
astype = to(dtype, non_blocking=False, copy=False); dialect='to', only='non_blocking'
astype = to(dtype:other, non_blocking=False, copy=False); dialect='to', only='non_blocking'
astype = half(); dtype='float16'
astype = float(); dtype='float32'
astype = double(); dtype='float64'
astype = int(); dtype='int32'
astype = long(); dtype='int64'
astype = bool(); dtype='bool'
copy = clone()
copy_method = copy()
where = (x).where(condition, y)
where = (x).where(condition, y:other)
where = (y).masked_fill(condition:mask, x:value); dialect='fill'
reshape = reshape(*dims:shape)
swapaxes = transpose(axis1:dim0, axis2:dim1)
transpose = transpose(*dims:axes)
permute = permute(*dims)
permute = permute(*, dims:axis)
swapaxes = swapaxes(axis1:axis0, axis2:axis1); dialect='itself'
swapaxes = swapdims(axis1:dim0, axis2:dim1); dialect='itself'
moveaxis = moveaxis(source, destination)
moveaxis = movedim(source, destination)
squeeze = squeeze(axis)
squeeze = squeeze()
expand_dims = expand_dims(axis)
expand_dims = unsqueeze(axis:dim)
expand_dims = unsqueeze(axis)
ravel = ravel()
reshape = view(*dims:shape)
ravel = flatten()
flatten_axes = flatten(start:start_dim=0, end:end_dim=-1); dialect='from'
flatten_axes = flatten(order='C', *, start:start_dim=0, end:end_dim=-1); only='order', dialect='from'
broadcast_to = broadcast_to(*shape); dialect='sizes'
broadcast_to = expand(*shape:size)
flip = flip(axis:dims)
diagonal = diagonal(offset=0, axis1=0, axis2=1)
tile = tile(reps)
tile = tile(reps:dims)
repeat = repeat_interleave(repeats, axis:dim=None, *, output_size=None); only='output_size'
roll = roll(shift:shifts, axis:dims=None)
triu = triu(k:diagonal=0)
tril = tril(k:diagonal=0)
take_along_axis = gather_elements(axis:dim, indices:index)
split = split(indices_or_sections:split_size_or_sections, axis=0)
split = split(indices_or_sections:split_size, axis:dim=0)
split = chunk(indices_or_sections:chunks, axis=0); dialect='chunk'
split = chunk(indices_or_sections:chunks, axis:dim=0); dialect='chunk'
split = unbind(axis:dim=0); dialect='unbind', indices_or_sections=1
argwhere = nonzero(*, as_tuple=False); also='as_tuple'
index_select = index_select(axis, index)
index_select = index_select(*, axis:dim, index)

# In place. MindSpore's CPU kernels leave the tensor as it was, or are missing.
add = add_(y:other); dialect='inplace'
add_scaled = add_(y:other, *, alpha); dialect='inplace'
subtract = sub_(y:other); dialect='inplace'
subtract = sub_(y); dialect='inplace'
subtract_scaled = sub_(y:other, *, alpha); dialect='inplace'
multiply = mul_(y:other); dialect='inplace'
divide = div_(y:other); dialect='inplace'
divide_rounded = div_(y:other, *, rounding_mode); dialect='inplace'
floor_divide = floor_divide_(y:other); dialect='inplace'
remainder = remainder_(y:other); dialect='inplace'
exp = exp_(); dialect='inplace'
log = log_(); dialect='inplace'
floor = floor_(); dialect='inplace'
sign = sign_(); dialect='inplace'
tanh = tanh_(); dialect='inplace'
sigmoid = sigmoid_(); dialect='inplace'
clip = clamp_(a_min:min=None, a_max:max=None); dialect='inplace'
fill = fill_(value)
fill = zero_(); value=0
"""

TABLES = {"mindspore.Tensor": TENSOR}
