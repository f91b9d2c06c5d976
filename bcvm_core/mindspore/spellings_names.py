"""More names of `mindspore.ops` and Tensor: aliases, rearranging, order, counting, gathering and scattering.

Functions of `ops` that draw random numbers are MindSpore's: its CPU build runs them, with its own numbers.
"""

from __future__ import annotations

OPS = """
transpose = t(x:input); dialect='t'
broadcast_to = expand_as(x:input, shape:other); dialect='as'
reshape = view_as(x:input, shape:other); dialect='as'
flatten_axes = flatten(x:input, order='C', *, start:start_dim=1, end:end_dim=-1); only='order', dialect='from'
strided_slice = strided_slice(x:input_x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,\
 shrink_axis_mask=0)
argwhere = argwhere(x:input)
flipud = flipud(x:input)
fliplr = fliplr(x:input)
diag = diag(x:input)
column_stack = column_stack(arrays:tensors)
hsplit = hsplit(x:input, indices_or_sections)
vsplit = vsplit(x:input, indices_or_sections)
dsplit = dsplit(x:input, indices_or_sections)
rot90 = rot90(x:input, k, axes:dims)

float_power = float_power(x:input, y:exponent)
arcsin = arcsin(x)
arccos = arccos(x:input)
arctan = arctan(x:input)
arcsinh = arcsinh(x:input)
arccosh = arccosh(x:input)
left_shift = bitwise_left_shift(x:input, y:other)
right_shift = bitwise_right_shift(x:input, y:other)

nansum = nansum(x:input, axis=None, keepdims=False, *, dtype=None)
nanmean = nanmean(x:input, axis=None, keepdims=False, *, dtype=None)
max_pairs = max(x:input, axis, keepdims=False, *, initial=None, where=None); only='initial where'
min_pairs = min(x:input, axis, keepdims=False, *, initial=None, where=None); only='initial where'
unique = unique(x:input); dialect='first'
bincount = bincount(x:input, weights=None, minlength=0); dialect='ops'
trace = trace(x:input)

dot = dot(x:input, y:other); dialect='matrices'
matmul = mv(x:mat, y:vec)
inner = inner(x:input, y:other)
kron = kron(x:input, y:other)
addmv = addmv(x:input, mat, vec, *, beta=1, alpha=1)

rms_norm = rms_norm(x, weight:gamma, eps:epsilon=1e-06); dialect='with_scale'
interpolate = upsample(x:input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None);\
 dialect='ops', only='recompute_scale_factor'
binary_cross_entropy = binary_cross_entropy(x:logits, target:labels, weight=None, reduction='mean')
dropout = dropout(x:input, p=0.5, training=True, seed=None); dialect='idle', only='seed'
dropout_channels = dropout2d(x:input, p=0.5, training=True); dialect='idle'
"""

TENSOR = """
transpose = t(); dialect='t'
broadcast_to = expand_as(shape:other); dialect='as'
broadcast_to = expand_as(shape:x); dialect='as'
reshape = view_as(shape:other); dialect='as'
tile = repeat(*reps:repeats); dialect='repeats'
argwhere = argwhere()
flipud = flipud()
fliplr = fliplr()
diag = diag()
hsplit = hsplit(indices_or_sections)
vsplit = vsplit(indices_or_sections)
dsplit = dsplit(indices_or_sections)
rot90 = rot90(k, axes:dims)

float_power = float_power(y:other)
logaddexp = logaddexp(y:other)
logaddexp2 = logaddexp2(y:other)
hypot = hypot(y:other)
fmax = fmax(y:other)
fmin = fmin(y:other)
copysign = copysign(y:other)
arcsin = arcsin()
arccos = arccos()
arctan = arctan()
arcsinh = arcsinh()
arccosh = arccosh()
arctanh = arctanh()
nan_to_num = nan_to_num(nan=None, posinf=None, neginf=None)
equal = equal(y:other)
all_close = allclose(y:other, rtol=1e-05, atol=1e-08, equal_nan=False)
invert = bitwise_not(); dialect='ops'
invert = invert(); dialect='ops'
left_shift = bitwise_left_shift(y:other)
right_shift = bitwise_right_shift(y:other)
hardshrink = hardshrink(lambd=0.5)

nansum = nansum(axis:dim=None, keepdims:keepdim=False, *, dtype=None)
nansum = nansum(axis=None, keepdims=False, *, dtype=None)
nanmean = nanmean(axis=None, keepdims=False, *, dtype=None)
cummax = cummax(axis)
cummin = cummin(axis); dialect='ops'
sort_pairs = sort(axis:dim=-1, descending=False, stable=False); dialect='ops'
sort_pairs = sort(axis=-1, descending=False); dialect='ops'
lower_median = median(axis=-1, keepdims=False)
lower_median = median(axis:dim=-1, keepdims:keepdim=False)
unique = unique(sorted=True, return_inverse=False, return_counts=False, axis:dim=None); only='sorted'
count_nonzero = count_nonzero(axis=(), keepdims:keep_dims=False, dtype=None); also='dtype'
count_nonzero = count_nonzero(axis:dim=None)
searchsorted = searchsorted(v, side='left', sorter=None); only='sorter'
bincount = bincount(weights=None, minlength=0); dialect='ops'

dot = dot(y:other); dialect='matrices'
inner = inner(y:other)
addmv = addmv(mat, vec, *, beta=1, alpha=1)
trace = trace(offset=0, axis1=0, axis2=1, dtype=None)
unfold = unfold(kernel_size, dilation=1, padding=0, stride=1)
fold = fold(output_size, kernel_size, dilation=1, padding=0, stride=1); dialect='size_of_a_tensor'

gather_elements = gather(axis:dim, index); dialect='either'
gather = gather(index:input_indices, axis, batch_dims=0); only='batch_dims'
take = take(indices:index); dialect='modes'
take = take(indices, axis=None, mode='clip'); dialect='modes'
select = select(axis:dim, index)
scatter = scatter(axis:dim, index, src, reduce='none'); dialect='words'
scatter = scatter(axis, index, src)
scatter_add = scatter_add(axis:dim, index, src)
tensor_scatter = scatter_add(indices, updates); mode='add'
index_add = index_add(axis:dim, index, source, *, alpha=1); dialect='either'
index_add = index_add(index:indices, source:y, axis, use_lock=True, check_index_bound=True); only='use_lock check_index_bound'

masked_fill = masked_fill_(mask, value); dialect='inplace'
erfinv = erfinv_(); dialect='inplace'
scatter = scatter_(axis:dim, index, src); dialect='inplace'
scatter = scatter_(axis:dim, index, src:value); dialect='inplace'
scatter_add = scatter_add_(axis:dim, index, src); dialect='inplace'
index_add = index_add_(axis:dim, index, source, *, alpha=1); dialect='inplace'
addmm = addmm_(mat1, mat2, *, beta=1, alpha=1); dialect='inplace'
"""

MINT = """
maximum = max(x:input, y:other)
minimum = min(x:input, y:other)
"""

TABLES = {"mindspore.ops": OPS, "mindspore.Tensor": TENSOR, "mindspore.mint": MINT}
