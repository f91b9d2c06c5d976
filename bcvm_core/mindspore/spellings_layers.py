"""Names of `mindspore.ops` around layers: pooling and convolution of volumes, segments, sequences, pixels, norms, counting."""

from __future__ import annotations

OPS = """
conv3d = conv3d(x:input, weight, bias=None, stride=1, pad_mode='valid', padding=0, dilation=1, groups=1); also='pad_mode', dialect='modes'
avg_pool3d = avg_pool3d(x:input_x, kernel_size=1, stride=1, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=0);\
 dialect='idle_divisor'
max_pool3d = max_pool3d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
adaptive_avg_pool3d = adaptive_avg_pool3d(x:input, output_size)
adaptive_max_pool1d = adaptive_max_pool1d(x:input, output_size)
adaptive_max_pool3d = adaptive_max_pool3d(x:input, output_size, return_indices=False); dialect='sizes'
lp_pool1d = lp_pool1d(x, norm_type, kernel_size, stride=None, ceil_mode=False)
lp_pool2d = lp_pool2d(x, norm_type, kernel_size, stride=None, ceil_mode=False)
max_unpool1d = max_unpool1d(x, indices, kernel_size, stride=None, padding=0, output_size=None)
max_unpool3d = max_unpool3d(x, indices, kernel_size, stride=None, padding=0, output_size=None)
max_unpool2d = max_unpool2d(x, indices, kernel_size, stride=None, padding=0, output_size=None)
fold = fold(x:input, output_size, kernel_size, dilation=1, padding=0, stride=1); dialect='size_of_a_tensor'
bias_add = bias_add(x:input_x, bias)
local_response_norm = lrn(x, radius:depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, norm_region='ACROSS_CHANNELS'); only='norm_region'
fast_gelu = fast_gelu(x)

one_hot = one_hot(x:indices, depth, on_value=1, off_value=0, axis=-1); only='axis', dialect='prim'
full = full(shape:size, fill_value, *, dtype); dialect='create'
full = fill(dtype:type, shape, fill_value:value); dialect='create'
steps = range(start, end, step, maxlen=1000000); only='maxlen', dialect='create'
lower_median = median(x:input, axis=-1, keepdims=False)
unique_consecutive = unique_consecutive(x:input, return_inverse=False, return_counts=False, axis:dim=None)
histc = histc(x:input, bins=100, min=0.0, max=0.0)
diff = diff(x, n=1, axis=-1, prepend=None, append=None); only='prepend append'
vector_norm = vector_norm(x, ord=2, axis=None, keepdims=False, *, dtype=None); only='dtype'
addr = addr(x, vec1, vec2, *, beta=1, alpha=1)
outer = ger(x:input, y:vec2)
lcm = lcm(x:input, y:other)
frac = frac(x)
fmod = truncate_mod(x, y)
clip = clip_by_value(x, a_min:clip_value_min=None, a_max:clip_value_max=None)
det = det(a:input); dialect='prim'
cholesky = cholesky(a:input_x, upper=False); only='upper'
vstack = row_stack(arrays:tensors)
add_all = addn(arrays:x)
positive = positive(x:input)
crop = slice(x:input_x, begin, size)
strided_slice = strided_slice(x:input_x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0,\
 new_axis_mask=0, shrink_axis_mask=0)
pad = mirror_pad(x:input_x, pad_width:paddings, mode); dialect='mirror'
reverse_sequence = reverse_sequence(x, lengths:seq_lengths, axis:seq_dim, batch:batch_dim=0)
unsorted_segment = unsorted_segment_sum(x:input_x, index:segment_ids, count:num_segments); mode='sum'
unsorted_segment = unsorted_segment_max(x, index:segment_ids, count:num_segments); mode='max'
unsorted_segment = unsorted_segment_min(x, index:segment_ids, count:num_segments); mode='min'
unsorted_segment = unsorted_segment_prod(x, index:segment_ids, count:num_segments); mode='prod'
"""

MINT = """
conv_tbc = conv_tbc(x:input, weight, bias, padding:pad=0)
"""

TABLES = {"mindspore.ops": OPS, "mindspore.mint": MINT}
"""Owner -> its lines, as `spellings` reads them."""
