"""`mindspore.mint` and `mint.nn.functional`: the interface with `dim`, `keepdim` and int64 indices.

Many of these have no CPU kernel in MindSpore; under BCVM they run.
"""

from __future__ import annotations

MINT = """
add = add(x:input, y:other)
add_scaled = add(x:input, y:other, *, alpha)
subtract = sub(x:input, y:other)
subtract_scaled = sub(x:input, y:other, *, alpha)
multiply = mul(x:input, y:other)
divide = div(x:input, y:other)
divide_rounded = div(x:input, y:other, *, rounding_mode)
divide = divide(x:input, y:other)
divide_rounded = divide(x:input, y:other, *, rounding_mode)
floor_divide = floor_divide(x:input, y:other)
remainder = remainder(x:input, y:other)
fmod = fmod(x:input, y:other)
power = pow(x:input, y:exponent)
maximum = maximum(x:input, y:other)
minimum = minimum(x:input, y:other)
arctan2 = atan2(x:input, y:other)
arctan2 = arctan2(x:input, y:other)
logaddexp = logaddexp(x:input, y:other)
negative = neg(x:input)
negative = negative(x:input)
absolute = abs(x:input)
sign = sign(x:input)
square = square(x:input)
sqrt = sqrt(x:input)
rsqrt = rsqrt(x:input)
reciprocal = reciprocal(x:input)
floor = floor(x:input)
ceil = ceil(x:input)
trunc = trunc(x:input)
trunc = fix(x:input)
round = round(x:input, *, decimals=0)
clip = clamp(x:input, a_min:min=None, a_max:max=None)
clip = clip(x:input, a_min:min=None, a_max:max=None)

equal = eq(x:input, y:other)
not_equal = ne(x:input, y:other)
not_equal = not_equal(x:input, y:other)
less = lt(x:input, y:other)
less = less(x:input, y:other)
less_equal = le(x:input, y:other)
less_equal = less_equal(x:input, y:other)
greater = gt(x:input, y:other)
greater = greater(x:input, y:other)
greater_equal = ge(x:input, y:other)
greater_equal = greater_equal(x:input, y:other)
logical_and = logical_and(x:input, y:other)
logical_or = logical_or(x:input, y:other)
logical_xor = logical_xor(x:input, y:other)
logical_not = logical_not(x:input)
bitwise_and = bitwise_and(x:input, y:other)
bitwise_or = bitwise_or(x:input, y:other)
bitwise_xor = bitwise_xor(x:input, y:other)
invert = bitwise_not(x:input); dialect='mint'
isnan = isnan(x:tensor)
isinf = isinf(x:input)
isfinite = isfinite(x:input)
where = where(condition, x:input, y:other)

exp = exp(x:input)
exp2 = exp2(x:input)
expm1 = expm1(x:input)
log = log(x:input)
log2 = log2(x:input)
log10 = log10(x:input)
log1p = log1p(x:input)
sin = sin(x:input)
cos = cos(x:input)
tan = tan(x:input)
sinh = sinh(x:input)
cosh = cosh(x:input)
tanh = tanh(x:input)
arcsin = asin(x:input)
arcsin = arcsin(x)
arccos = acos(x:input)
arccos = arccos(x:input)
arctan = atan(x:input)
arctan = arctan(x:input)
arcsinh = asinh(x:input)
arcsinh = arcsinh(x:input)
arccosh = acosh(x:input)
arccosh = arccosh(x:input)
arctanh = atanh(x:input)
arctanh = arctanh(x:input)
erf = erf(x:input)
erfc = erfc(x:input)
sigmoid = sigmoid(x:input)
softmax = softmax(x:input, axis:dim, *, dtype=None); also='dtype'

sum = sum(x:input, axis:dim=None, keepdims:keepdim=False, *, dtype=None)
mean = mean(x:input, axis:dim=None, keepdims:keepdim=False, *, dtype=None)
prod = prod(x:input, axis:dim=None, keepdims:keepdim=False, *, dtype=None)
max = max(x:input)
min = min(x:input)
max = amax(x:input, axis:dim=(), keepdims:keepdim=False)
min = amin(x:input, axis:dim=(), keepdims:keepdim=False)
any = any(x:input, axis:dim=None, keepdims:keepdim=False)
all = all(x:input, axis:dim=None, keepdims:keepdim=False)
argmax = argmax(x:input, axis:dim=None, keepdims:keepdim=False)
argmin = argmin(x:input, axis:dim=None, keepdims:keepdim=False); dialect='mint'
var = var(x:input, axis:dim=None, *, ddof:correction=1, keepdims:keepdim=False)
std = std(x:input, axis:dim=None, *, ddof:correction=1, keepdims:keepdim=False)
logsumexp = logsumexp(x:input, axis:dim, keepdims:keepdim=False)
cumsum = cumsum(x:input, axis:dim, dtype=None); dialect='mint'
cumprod = cumprod(x:input, axis:dim, dtype=None)
sort_pairs = argsort(x:input, axis:dim=-1, descending=False, stable=False); dialect='order'
sort_pairs = sort(x:input, *, axis:dim=-1, descending=False, stable=False)
trace = trace(x:input)
count_nonzero = count_nonzero(x:input, axis:dim=None); dialect='mint'
norm = norm(x:input, ord:p='fro', axis:dim=None, keepdims:keepdim=False, *, dtype=None); also='dtype'

matmul = matmul(x:input, y:other)
matmul = mm(x:input, y:mat2)
matmul = mv(x:input, y:vec)
bmm = bmm(x:input, y:mat2)
dot = dot(x:input, y:other)
outer = outer(x:input, y:vec2)

reshape = reshape(x:input, shape); dialect='function'
swapaxes = transpose(x:input, axis1:dim0, axis2:dim1)
swapaxes = swapaxes(x:input, axis1:axis0, axis2:axis1)
permute = permute(x:input, dims)
squeeze = squeeze(x:input, axis:dim)
expand_dims = unsqueeze(x:input, axis:dim)
ravel = ravel(x:input)
ravel = flatten(x:input)
broadcast_to = broadcast_to(x:input, shape); dialect='sizes'
flip = flip(x:input, axis:dims)
concatenate = cat(arrays:tensors, axis:dim=0)
concatenate = concat(arrays:tensors, axis:dim=0)
stack = stack(arrays:tensors, axis:dim=0)
tile = tile(x:input, reps:dims)
repeat = repeat_interleave(x:input, repeats, axis:dim=None, *, output_size=None); only='output_size'
roll = roll(x:input, shift:shifts, axis:dims=None)
triu = triu(x:input, k:diagonal=0)
tril = tril(x:input, k:diagonal=0)
index_select = index_select(x:input, axis:dim, index)
split = split(x:tensor, indices_or_sections:split_size_or_sections, axis:dim=0)
split = chunk(x:input, indices_or_sections:chunks, axis:dim=0); dialect='chunk'
split = unbind(x:input, axis:dim=0); dialect='unbind', indices_or_sections=1
meshgrid = meshgrid(*arrays:tensors, indexing='ij')
einsum = einsum(*operands)
argwhere = nonzero(x:input, *, as_tuple=False); also='as_tuple'
zeros_like = zeros_like(x:input, *, dtype=None)
ones_like = ones_like(x:input, *, dtype=None)
full_like = full_like(x:input, fill_value, *, dtype=None)
"""

FUNCTIONAL = """
relu = relu(x:input, inplace=False); only='inplace'
relu6 = relu6(x:input, inplace=False); only='inplace'
leaky_relu = leaky_relu(x:input, negative_slope=0.01)
elu = elu(x:input, alpha=1.0, inplace=False); only='inplace'
gelu = gelu(x:input, *, approximate='none')
silu = silu(x:input, inplace=False); only='inplace'
sigmoid = sigmoid(x:input)
tanh = tanh(x:input)
logsigmoid = logsigmoid(x:input)
mish = mish(x:input)
softplus = softplus(x:input, beta=1, threshold=20)
hardsigmoid = hardsigmoid(x:input)
hardswish = hardswish(x:input)
hardtanh = hardtanh(x:input, min_val=-1, max_val=1, inplace=False); only='inplace'
softmax = softmax(x:input, axis:dim, *, dtype=None); also='dtype'
log_softmax = log_softmax(x:input, axis:dim, *, dtype=None); also='dtype'
linear = linear(x:input, weight, bias=None)
conv2d = conv2d(x:input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)
conv1d = conv1d(x:input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)
max_pool2d = max_pool2d(x:input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
avg_pool2d = avg_pool2d(x:input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)
adaptive_avg_pool2d = adaptive_avg_pool2d(x:input, output_size)
layer_norm = layer_norm(x:input, normalized_shape, weight=None, bias=None, eps=1e-05)
group_norm = group_norm(x:input, num_groups, weight=None, bias=None, eps=1e-05)
batch_norm = batch_norm(x:input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05);\
 also='training momentum'
pad = pad(x:input, pad_width:pad, mode='constant', constant_values:value=None)
mse_loss = mse_loss(x:input, target, reduction='mean')
l1_loss = l1_loss(x:input, target, reduction='mean')
smooth_l1_loss = smooth_l1_loss(x:input, target, reduction='mean', beta=1.0)
binary_cross_entropy = binary_cross_entropy(x:input, target, weight=None, reduction='mean')
bce_with_logits = binary_cross_entropy_with_logits(x:input, target, weight=None, reduction='mean', pos_weight=None)
cross_entropy = cross_entropy(x:input, target, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0)
"""

TABLES = {"mindspore.mint": MINT, "mindspore.mint.nn.functional": FUNCTIONAL}
