"""More primitive classes, and why the others that MindSpore's own layers hold stay with MindSpore."""

from __future__ import annotations

TABLE = """
# two tensors and more
hypot = Hypot(x, y)
gcd = Gcd(x:input, y:other)
lcm = Lcm(x, y)
fmod = TruncateMod(x, y)
lerp = Lerp(x:input, end, weight)
add_all = AddN(arrays:x)
cross = Cross(x:input, y:other); axis=None if dim == -65530 else dim
cdist = Cdist(x:x1, y:x2); p=p
matmul = MatMulExt(x:input, y:other)
matmul = Mv(x:input, y:vec)
dot = Dot(x:input, y:other)
addmv = Addmv(x:input, mat, vec, beta=1, alpha=1)
baddbmm = Baddbmm(x:input, batch1, batch2, beta=1, alpha=1)
einsum = Einsum(operands:inputs); equation=equation, dialect='equation'

# one tensor
fast_gelu = FastGeLU(x)
fast_gelu = FastGelu(x)
hardtanh = Hardtanh(x:input, min_val=-1, max_val=1)
threshold = Threshold(x:input, threshold, value)
logsigmoid = LogSigmoid(x:input)
log_softmax = LogSoftmaxExt(x:input, axis:dim=None, dtype=None); dialect='last'
logit = Logit(x:input); eps=eps if eps >= 0 else None
sinc = Sinc(x:input)
round = Round(x:input, decimals=0)
trace = Trace(x:input)
cummax = Cummax(x:input); axis=axis
cummin = Cummin(x:input); axis=axis, dialect='ops'
std_mean = ReduceStd(x); axis=all_or(axis), ddof=1 if unbiased else 0, keepdims=keep_dims
vector_norm = LpNorm(x); axis=tuple(axis), ord=p, keepdims=keep_dims
inverse = MatrixInverse(a:x) | not adjoint
det = MatrixDeterminant(a:input); dialect='prim'
cholesky = Cholesky(a:input_x) | not upper
argwhere = NonZero(x:input)

# pixels, volumes, embeddings
conv_transpose3d = Conv3DTranspose(x, weight); stride=last(strides, 3), dilation=last(dilations, 3), padding='same' if pad_mode == 'same' else sides(pad_list, 3), output_padding=tail(output_padding, 3), groups=groups | mode == 1 and says(data_format, 'NCDHW')
max_pool2d = MaxPoolWithArgmaxV2(x); kernel_size=last(kernel_size, 2), stride=last(strides, 2), padding=tail(pads, 2), dilation=last(dilation, 2), ceil_mode=ceil_mode, return_indices=True | argmax_type == 4
max_pool3d = MaxPool3D(x); kernel_size=last(kernel_size, 3), stride=last(strides, 3), padding=sides(pad_list, 3) | pad_mode == 'CALCULATED' and not ceil_mode
avg_pool3d = AvgPool3D(x); kernel_size=last(kernel_size, 3), stride=last(strides, 3), padding=sides(pad_list, 3), count_include_pad=count_include_pad | pad_mode == 'PAD' and not ceil_mode and not divisor_override
max_pool3d = MaxPool3DWithArgmax(x); kernel_size=tuple(ksize), stride=tuple(strides), padding=tuple(pads), dilation=tuple(dilation), ceil_mode=ceil_mode, return_indices=True | says(data_format, 'NCDHW') and argmax_type == 'int64'
local_response_norm = LRN(x); radius=depth_radius, bias=bias, alpha=alpha, beta=beta | norm_region == 'ACROSS_CHANNELS'
interpolate = ResizeBilinearV2(x:image, size); mode='bilinear', align_corners=align_corners, dialect='ops' | align_corners != half_pixel_centers
interpolate = ResizeNearestNeighbor(x:input_x); size=size, mode='nearest', dialect='ops' | not align_corners and not half_pixel_centers
interpolate = ResizeNearestNeighborV2(x:image, size); mode='nearest', dialect='ops' | not align_corners and not half_pixel_centers
grid_sample = GridSampler2D(x:input_x, grid); mode=word(interpolation_mode, 'bilinear', 'nearest'), padding_mode=word(padding_mode, 'zeros', 'border', 'reflection'), align_corners=align_corners
depth_to_space = DepthToSpace(x); block=block_size
space_to_depth = SpaceToDepth(x); block=block_size
pixel_shuffle = PixelShuffle(x:input, upscale_factor)
pad = PadV3(x, pad_width:paddings, constant_values:value=None); dialect='from_last' | paddings_contiguous and mode == 'constant'
pad = PadV3(x, pad_width:paddings); mode='replicate' if mode == 'edge' else mode, dialect='from_last' | paddings_contiguous and mode != 'circular'
pad = MirrorPad(x, pad_width:paddings); mode=word(mode, 'reflect', 'symmetric'), dialect='mirror'
gather = SparseGatherV2(x, index, axis)
embedding_lookup = EmbeddingLookup(x, index, offset)
unsorted_segment = UnsortedSegmentSum(x:input_x, index:segment_ids, count:num_segments); mode='sum'
unsorted_segment = UnsortedSegmentMax(x, index, count); mode='max'
unsorted_segment = UnsortedSegmentMin(x, index, count); mode='min'
unsorted_segment = UnsortedSegmentProd(x, index, count); mode='prod'
reverse_sequence = ReverseSequence(x, lengths); axis=seq_dim, batch=batch_dim
tensor_scatter = TensorScatterMax(x:input_x, indices, updates); mode='max'
tensor_scatter = TensorScatterMin(x:input_x, indices, updates); mode='min'
narrow = Narrow(x:input, axis:dim, start, length)
copy = StopGradient(x); dialect='through'

# tensors out of nothing
zeros = Zeros(shape:size, dtype=None); dialect='create'
ones = Ones(shape, dtype=None); dialect='create'
eye = Eye(N:n, M:m, dtype); dialect='create'
full = Fill(dtype, shape:dims, fill_value:x); dialect='create'
steps = Range(start, end, step); dialect='create'

# losses
softmax_cross_entropy = SoftmaxCrossEntropyWithLogits(x, target)
cross_entropy = SparseSoftmaxCrossEntropyWithLogits(x, target) | not is_grad
l2_loss = L2Loss(x)
smooth_l1_loss = SmoothL1Loss(x:prediction, target); beta=beta, reduction=word(reduction, 'none', 'mean', 'sum')
l1_loss = L1LossExt(x:input, target, reduction='mean')
mse_loss = MSELossExt(x:input, target, reduction='mean')
bce_with_logits = BCEWithLogitsLoss(x:input, target, weight=None, pos_weight:posWeight=None); reduction=word(reduction, 'none', 'mean', 'sum')
binary_cross_entropy = BinaryCrossEntropy(x:input, target, weight=None); reduction=word(reduction, 'none', 'mean', 'sum')
kl_div = KLDivLoss(x, target); reduction=reduction
soft_margin_loss = SoftMarginLoss(x:input, target); reduction=word(reduction, 'none', 'mean', 'sum')
"""  # noqa: E501

LEFT: dict[str, str] = {
    "Assign": "writes into a parameter",
    "AssignAdd": "writes into a parameter",
    "AssignSub": "writes into a parameter (a step of training)",
    "BatchNorm": "with is_training: it writes the new statistics into parameters; in inference it runs",
    "CholeskyTrsm": "no CPU kernel: an operator of second-order training",
    "ClipByNorm": "no kernel of its own: MindSpore makes it from other ops",
    "DetTriangle": "no CPU kernel: an operator of second-order training",
    "Dropout": "draws from a generator of its own; layers skip it in inference",
    "Dropout2D": "draws from a generator of its own; layers skip it in inference",
    "Dropout3D": "draws from a generator of its own; layers skip it in inference",
    "ExtractImagePatches": "no CPU kernel",
    "InsertGradientOf": "changes gradients, not values",
    "InstanceNorm": "no CPU kernel; it writes the new statistics into parameters",
    "MatrixDiag": "no CPU kernel",
    "MultiMarginLoss": "no row: a loss that models seldom use",
    "MultilabelMarginLoss": "no row: a loss that models seldom use",
    "ScalarToTensor": "makes a tensor of a Python number: no tensor takes part",
    "SparseTensorDenseMatmul": "sparse tensors",
    "SparseToDense": "sparse tensors",
    "UniformCandidateSampler": "draws from a generator of its own",
    "Unique": "two results whose length depends on the values, in MindSpore's own order",
}
"""Class -> why its objects are left to MindSpore, wholly or where their attributes say so, for classes that MindSpore's own layers hold."""
