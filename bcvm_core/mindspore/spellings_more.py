"""More of `mindspore.mint` and `mint.nn.functional`: what MindSpore's CPU build mostly has no kernel for.

The dialect "create" makes a tensor where no operand is one, "random" draws from MindSpore's generator,
"inplace" writes into the first operand; the others choose among handlers.
"""

from __future__ import annotations

MINT = """
steps = arange(start=0, end=None, step=1, *, dtype=None); dialect='create'
zeros = zeros(shape:size, *, dtype=None); dialect='create'
ones = ones(shape:size, *, dtype=None); dialect='create'
empty = empty(*shape:size, dtype=None, device=None, pin_memory=False); dialect='create', only='device pin_memory'
full = full(shape:size, fill_value, *, dtype=None); dialect='create'
eye = eye(N:n, M:m=None, dtype=None); dialect='create'
linspace = linspace(start, stop:end, num:steps, *, dtype=None); dialect='create'
empty_like = empty_like(x:input, *, dtype=None, device=None, pin_memory=False); only='device pin_memory'

uniform = rand(*shape:size, generator=None, dtype=None, device=None); dialect='random', only='generator device'
uniform = rand_like(shape:input, *, dtype=None, device=None); dialect='random', only='device'
normal = randn(*shape:size, generator=None, dtype=None, device=None); dialect='random', only='generator device'
normal = randn_like(shape:input, *, dtype=None, device=None); dialect='random', only='device'
normal = normal(mean=0.0, std=1.0, shape:size=None, generator=None); dialect='random', only='generator'
randint = randint(low, high, shape:size, *, generator=None, dtype=None, device=None); dialect='random', only='generator device'
randint = randint(high, shape:size, *, generator=None, dtype=None, device=None); dialect='random', low=0, only='generator device'
randint = randint_like(shape:input, low, high, *, dtype=None, device=None); dialect='random', only='device'
randint = randint_like(shape:input, high, *, dtype=None, device=None); dialect='random', low=0, only='device'
permutation = randperm(n, *, generator=None, dtype=None); dialect='random', only='generator'
multinomial = multinomial(x:input, num_samples, replacement=False, *, generator=None); dialect='random', only='generator'
bernoulli = bernoulli(x:input, *, generator=None); dialect='random', only='generator'

array_equal = equal(x:input, y:other)
all_close = allclose(x:input, y:other, rtol=1e-05, atol=1e-08, equal_nan=False)
is_close = isclose(x:input, y:other, rtol=1e-05, atol=1e-08, equal_nan=False)
is_neg_inf = isneginf(x:input)
lerp = lerp(x:input, end, weight)
addcdiv = addcdiv(x:input, tensor1, tensor2, *, value=1)
xlogy = xlogy(x:input, y:other)
logaddexp2 = logaddexp2(x:input, y:other)
float_power = float_power(x:input, y:exponent)
gcd = gcd(x:input, y:other)
frac = frac(x:input)
erfinv = erfinv(x:input)
sinc = sinc(x:input)
polar = polar(x:abs, angle)
nan_to_num = nan_to_num(x:input, nan=None, posinf=None, neginf=None)
real_part = real(x:input)
imag_part = imag(x:input)
copy = clone(x:input)
gelu = npu_gelu(x:input, approximate='none')

max_pairs = max(x:input, axis:dim, keepdims:keepdim=False)
min_pairs = min(x:input, axis:dim, keepdims:keepdim=False)
lower_median = median(x:input, axis:dim=None, keepdims:keepdim=False)
kthvalue = kthvalue(x:input, k, axis:dim=-1, keepdims:keepdim=False)
topk = topk(x:input, k, axis:dim=-1, largest=True, sorted=True)
cummax = cummax(x:input, axis:dim)
cummin = cummin(x:input, axis:dim)
var_mean = var_mean(x:input, axis:dim=None, *, ddof:correction=1, keepdims:keepdim=False)
std_mean = std_mean(x:input, axis:dim=None, *, ddof:correction=1, keepdims:keepdim=False)
nansum = nansum(x:input, axis:dim=None, keepdims:keepdim=False, *, dtype=None)
unique = unique(x:input, sorted=True, return_inverse=False, return_counts=False, axis:dim=None); only='sorted'
unique_consecutive = unique_consecutive(x:input, return_inverse=False, return_counts=False, axis:dim=None)
bincount = bincount(x:input, weights=None, minlength=0)
histc = histc(x:input, bins=100, min=0, max=0)
search_rows = searchsorted(x:sorted_sequence, values, *, out_int32=False, right=False, side=None, sorter=None); also='out_int32 side'

addmm = addmm(x:input, mat1, mat2, *, beta=1, alpha=1)
addmv = addmv(x:input, mat, vec, *, beta=1, alpha=1)
addbmm = addbmm(x:input, batch1, batch2, *, beta=1, alpha=1)
baddbmm = baddbmm(x:input, batch1, batch2, *, beta=1, alpha=1)
addr = addr_(x:input, vec1, vec2, beta=1, alpha=1); dialect='inplace'
vdot = vdot(x:input, y:other)
cross = cross(x:input, y:other, axis:dim=None)
cdist = cdist(x:x1, y:x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'); only='compute_mode'
inverse = inverse(a:input)
triangular_solve = triangular_solve(b, x:A, upper=True, transpose=False, unit:unitriangular=False)

flatten_axes = flatten(x:input, start:start_dim=0, end:end_dim=-1)
transpose = t(x:input); dialect='t'
diag = diag(x:input, k:diagonal=0)
diff = diff(x:input, n=1, axis:dim=-1, prepend=None, append=None); only='prepend append'
hstack = hstack(arrays:tensors)
dstack = dstack(arrays:tensors)
take = take(x:input, indices:index)
gather_elements = gather(x:input, axis:dim, index)
masked_select = masked_select(x:input, mask)
narrow = narrow(x:input, axis:dim, start, length)
select = select(x:input, axis:dim, index)
scatter = scatter(x:input, axis:dim, index, src)
scatter_add = scatter_add(x:input, axis:dim, index, src)
index_add = index_add(x:input, axis:dim, index, source, *, alpha=1)
"""

FUNCTIONAL = """
interpolate = interpolate(x:input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None);\
 only='recompute_scale_factor'
interpolate = upsample(x:input, size=None, scale_factor=None, mode='nearest', align_corners=None)
embedding = embedding(x:input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False);\
 only='max_norm norm_type scale_grad_by_freq'
flatten_axes = flatten(x:input, start:start_dim=0, end:end_dim=-1)
dropout = dropout(x:input, p=0.5, training=True, inplace=False); dialect='random', only='inplace'
dropout_channels = dropout2d(x:input, p=0.5, training=True, inplace=False); dialect='random', only='inplace'
one_hot = one_hot(x:tensor, depth:num_classes=-1)

relu = relu_(x:input); dialect='inplace'
sigmoid = sigmoid_(x:input); dialect='inplace'
elu = elu_(x:input, alpha=1.0); dialect='inplace'
hardtanh = hardtanh_(x:input, min_val=-1, max_val=1); dialect='inplace'
threshold = threshold(x:input, threshold, value, inplace=False); only='inplace'
threshold = threshold_(x:input, threshold, value); dialect='inplace'
glu = glu(x:input, axis:dim=-1)
prelu = prelu(x:input, weight)
selu = selu(x:input)
softshrink = softshrink(x:input, lambd=0.5)
hardshrink = hardshrink(x:input, lambd=0.5)

adaptive_avg_pool1d = adaptive_avg_pool1d(x:input, output_size)
adaptive_avg_pool3d = adaptive_avg_pool3d(x:input, output_size)
adaptive_max_pool1d = adaptive_max_pool1d(x:input, output_size, return_indices=False)
adaptive_max_pool2d = adaptive_max_pool2d(x:input, output_size, return_indices=False)
avg_pool1d = avg_pool1d(x:input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True)
avg_pool3d = avg_pool3d(x:input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)
max_unpool2d = max_unpool2d(x:input, indices, kernel_size, stride=None, padding=0, output_size=None)
conv3d = conv3d(x:input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)
conv_transpose2d = conv_transpose2d(x:input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)
fold = fold(x:input, output_size, kernel_size, dilation=1, padding=0, stride=1)
unfold = unfold(x:input, kernel_size, dilation=1, padding=0, stride=1)
pixel_shuffle = pixel_shuffle(x:input, upscale_factor)
grid_sample = grid_sample(x:input, grid, mode='bilinear', padding_mode='zeros', align_corners=None)
normalize = normalize(x:input, p=2.0, axis:dim=1, eps=1e-12)

kl_div = kl_div(x:input, target, reduction='mean', log_target=False)
nll_loss = nll_loss(x:input, target, weight=None, ignore_index=-100, reduction='mean')
soft_margin_loss = soft_margin_loss(x:input, target, reduction='mean')
cosine_embedding_loss = cosine_embedding_loss(x:input1, y:input2, target, margin=0.0, reduction='mean')
"""

LINALG = """
inverse = inv(a:input)
qr = qr(a:A, mode='reduced')
norm = norm(x:A, ord=None, axis:dim=None, keepdims:keepdim=False, *, dtype=None); also='dtype'
norm = matrix_norm(x:A, ord='fro', axis:dim=(-2, -1), keepdims:keepdim=False, *, dtype=None); also='dtype'
vector_norm = vector_norm(x, ord=2, axis:dim=None, keepdims:keepdim=False, *, dtype=None); also='dtype'
"""

SPECIAL = """
round = round(x:input)
sinc = sinc(x:input)
"""

TABLES = {
    "mindspore.mint": MINT,
    "mindspore.mint.nn.functional": FUNCTIONAL,
    "mindspore.mint.linalg": LINALG,
    "mindspore.mint.special": SPECIAL,
}
