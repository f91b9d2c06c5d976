"""More of `mindspore.ops`: indexing, order, losses, pooling and what else `spellings_ops` has no room for."""

from __future__ import annotations

OPS = """
zeros = zeros(shape:size, dtype=None); dialect='create'
ones = ones(shape, dtype=None); dialect='create'
steps = arange(start=0, end=None, step=1, *, dtype=None); dialect='create'
linspace = linspace(start, stop:end, num:steps); dialect='create'

gather_nd = gather_nd(x:input_x, indices)
scatter = scatter(x:input, axis, index, src)
scatter_nd = scatter_nd(indices, updates, shape)
tensor_scatter = tensor_scatter_add(x:input_x, indices, updates); mode='add'
tensor_scatter = tensor_scatter_max(x:input_x, indices, updates); mode='max'
tensor_scatter = tensor_scatter_min(x:input_x, indices, updates); mode='min'
narrow = narrow(x:input, axis, start, length)
topk = topk(x:input, k, axis:dim=-1, largest=True, sorted=True); dialect='ops'
cummax = cummax(x:input, axis)
cummin = cummin(x:input, axis); dialect='ops'
var_mean = var_mean(x:input, axis=None, ddof=0, keepdims=False)
std_mean = std_mean(x:input, axis=None, ddof=0, keepdims=False)
vstack = vstack(arrays:inputs)

addmm = addmm(x:input, mat1, mat2, *, beta=1, alpha=1)
addbmm = addbmm(x:input, batch1, batch2, *, beta=1, alpha=1)
baddbmm = baddbmm(x:input, batch1, batch2, beta=1, alpha=1)
cdist = cdist(x:x1, y:x2, p=2.0)
inverse = inverse(a:input)

lerp = lerp(x:input, end, weight)
addcmul = addcmul(x:input, tensor1, tensor2, value=1)
addcdiv = addcdiv(x:input, tensor1, tensor2, value=1)
xlogy = xlogy(x:input, y:other)
logaddexp2 = logaddexp2(x:input, y:other)
selu = selu(x:input_x)
celu = celu(x, alpha=1.0)
glu = glu(x, axis=-1)
tanhshrink = tanhshrink(x:input)
threshold = threshold(x:input, threshold:thr, value)
logit = logit(x:input, eps=None)

interpolate = interpolate(x:input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None);\
 dialect='ops', only='recompute_scale_factor'
avg_pool1d = avg_pool1d(x:input_x, kernel_size=1, stride=1, padding=0, ceil_mode=False, count_include_pad=True)
adaptive_avg_pool1d = adaptive_avg_pool1d(x:input, output_size)
unfold = unfold(x:input, kernel_size, dilation=1, padding=0, stride=1)
pixel_shuffle = pixel_shuffle(x:input, upscale_factor)
pixel_unshuffle = pixel_unshuffle(x:input, downscale_factor)
channel_shuffle = channel_shuffle(x, groups)
grid_sample = grid_sample(x:input, grid, mode='bilinear', padding_mode='zeros', align_corners=False)
affine_grid = affine_grid(theta, size, align_corners=False)

kl_div = kl_div(x:logits, target:labels, reduction='mean')
nll_loss = nll_loss(x:inputs, target, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0); only='label_smoothing'
huber_loss = huber_loss(x:input, target, reduction='mean', delta=1.0)
cosine_embedding_loss = cosine_embedding_loss(x:input1, y:input2, target, margin=0.0, reduction='mean')
margin_ranking_loss = margin_ranking_loss(x:input1, y:input2, target, margin=0.0, reduction='mean')
hinge_embedding_loss = hinge_embedding_loss(x:inputs, target:targets, margin=1.0, reduction='mean')
triplet_margin_loss = triplet_margin_loss(x:anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, reduction='mean')
gaussian_nll_loss = gaussian_nll_loss(x, target, variance:var, full=False, eps=1e-06, reduction='mean')
cosine_similarity = cosine_similarity(x:x1, y:x2, axis:dim=1, eps=1e-08)
"""

TENSOR = """
gather_nd = gather_nd(indices)
masked_select = masked_select(mask)
narrow = narrow(axis, start, length)
narrow = narrow(axis:dim, start, length)
topk = topk(k, axis:dim=-1, largest=True, sorted=True); dialect='ops'
addmm = addmm(mat1, mat2, *, beta=1, alpha=1)
addbmm = addbmm(batch1, batch2, *, beta=1, alpha=1)
baddbmm = baddbmm(batch1, batch2, *, beta=1, alpha=1)
lerp = lerp(end, weight)
addcdiv = addcdiv(tensor1, tensor2, *, value=1)
xlogy = xlogy(y:other)
erfinv = erfinv()
is_neg_inf = isneginf()
is_close = isclose(y:other, rtol=1e-05, atol=1e-08, equal_nan=False)
is_close = isclose(y:x2, rtol=1e-05, atol=1e-08, equal_nan=False)
"""

TABLES = {"mindspore.ops": OPS, "mindspore.Tensor": TENSOR}
