"""The primitive classes that layers of networks hold, and the rows of their objects; `primitives` says how lines are read."""

from __future__ import annotations

TABLE = """
# two tensors
add = Add(x:input, y:other)
subtract = Sub(x:input, y:other)
multiply = Mul(x:input, y:other)
divide = Div(x:input, y:other)
divide = RealDiv(x, y); dialect='floats'
floor_divide = FloorDiv(x:input, y:other)
remainder = FloorMod(x, y)
fmod = Mod(x, y)
power = Pow(x:input, y:exponent)
maximum = Maximum(x:input, y:other)
minimum = Minimum(x:input, y:other)
arctan2 = Atan2(x:input, y:other)
squared_difference = SquaredDifference(x, y)
divide_no_nan = DivNoNan(x, y)
xlogy = Xlogy(x:input, y:other)
equal = Equal(x:input, y:other)
not_equal = NotEqual(x:input, y:other)
less = Less(x:input, y:other)
less_equal = LessEqual(x:input, y:other)
greater = Greater(x:input, y:other)
greater_equal = GreaterEqual(x:input, y:other)
logical_and = LogicalAnd(x, y)
logical_or = LogicalOr(x, y)
logical_xor = LogicalXor(x:input, y:other)
bitwise_and = BitwiseAnd(x, y)
bitwise_or = BitwiseOr(x, y)
bitwise_xor = BitwiseXor(x, y)
where = Select(condition, x:input, y:other)
where = MaskedFill(y:input_x, condition:mask, x:value); dialect='fill'

# one tensor
absolute = Abs(x:input)
negative = Neg(x:input)
sign = Sign(x:input)
square = Square(x:input)
sqrt = Sqrt(x)
rsqrt = Rsqrt(x:input)
reciprocal = Reciprocal(x:input)
reciprocal = Inv(x); dialect='floats'
floor = Floor(x:input)
ceil = Ceil(x:input)
trunc = Trunc(x:input)
rint = Rint(x)
exp = Exp(x:input)
expm1 = Expm1(x:input)
log = Log(x:input)
log1p = Log1p(x:input)
sin = Sin(x:input)
cos = Cos(x:input)
tan = Tan(x:input)
sinh = Sinh(x:input)
cosh = Cosh(x:input)
tanh = Tanh(x:input)
arcsin = Asin(x:input)
arccos = ACos(x:input)
arctan = Atan(x:input)
arcsinh = Asinh(x:input)
arccosh = Acosh(x:input)
arctanh = Atanh(x:input)
erf = Erf(x:input)
erfc = Erfc(x:input)
erfinv = Erfinv(x:input)
isnan = IsNan(x)
isinf = IsInf(x:input)
isfinite = IsFinite(x:input)
logical_not = LogicalNot(x:input)
invert = Invert(x); dialect='ops'
copy = Identity(x:input_x)

# activations
relu = ReLU(x:input)
relu6 = ReLU6(x)
sigmoid = Sigmoid(x:input)
silu = SiLU(x:input)
elu = Elu(x:input_x); alpha=alpha
selu = SeLU(x:input_x)
celu = CeLU(x); alpha=alpha
gelu = GeLU(x:input); approximate='tanh'
hardswish = HSwish(x:input)
hardsigmoid = HSigmoid(x:input)
hardshrink = HShrink(x:input); lambd=lambd
softshrink = SoftShrink(x:input); lambd=lambd
softplus = Softplus(x)
softsign = Softsign(x)
mish = Mish(x)
prelu = PReLU(x:input, weight)
glu = GLU(x); axis=axis
softmax = Softmax(x:input); axis=axis if len(axis) > 1 else axis[0]
log_softmax = LogSoftmax(x:logits); axis=axis

# reductions
sum = ReduceSum(x, axis=()); keepdims=keep_dims, dialect='prim' | not skip_mode
mean = ReduceMean(x, axis=()); keepdims=keep_dims
max = ReduceMax(x, axis=()); keepdims=keep_dims
min = ReduceMin(x, axis=()); keepdims=keep_dims
prod = ReduceProd(x, axis=()); keepdims=keep_dims, dialect='prim'
all = ReduceAll(x:input, axis=None); keepdims=keep_dims
any = ReduceAny(x, axis=None); keepdims=keep_dims
argmax = Argmax(x:input_x); axis=axis, dtype=dtype(output_type), dialect='prim'
argmin = Argmin(x); axis=axis, dtype=dtype(output_type), dialect='prim'
max_pairs = ArgMaxWithValue(x:input); axis=axis, keepdims=keep_dims, dialect='index_first'
min_pairs = ArgMinWithValue(x:input); axis=axis, keepdims=keep_dims, dialect='index_first'
topk = TopK(x, k); dialect='ops' | sorted
cumsum = CumSum(x:input, axis); dialect='ops' | not exclusive and not reverse
cumprod = CumProd(x, axis); dialect='prim' | not exclusive and not reverse
sort_pairs = Sort(x); axis=axis, descending=descending, dialect='ops'

# products
matmul = MatMul(x:input, y:mat2); dialect='matrices' | not transpose_a and not transpose_b
matmul_transposed = MatMul(x:input, y:mat2); transpose_x=transpose_a, transpose_y=transpose_b, dialect='matrices'
matmul = BatchMatMul(x, y); dialect='stacks' | not transpose_a and not transpose_b
matmul_transposed = BatchMatMul(x, y); transpose_x=transpose_a, transpose_y=transpose_b, dialect='stacks'
linear = Dense(x:input, weight, bias=None)
bias_add = BiasAdd(x:input_x, bias); axis=-1 if says(data_format, 'NHWC') else 1

# convolution and pooling
conv2d = Conv2D(x, weight:w); stride=last(stride, 2), dilation=last(dilation, 2), padding=padding(pad_mode, pad, 2), groups=group | mode == 1 and says(data_format, 'NCHW')
conv2d_input = Conv2DTranspose(x, weight, size); stride=last(stride, 2), dilation=last(dilation, 2), padding=padding(pad_mode, pad, 2), groups=group | mode == 1 and says(data_format, 'NCHW')
conv2d_input = Conv2DBackpropInput(x, weight, size); stride=last(stride, 2), dilation=last(dilation, 2), padding=padding(pad_mode, pad, 2), groups=group | mode == 1 and says(data_format, 'NCHW')
conv3d = Conv3D(x, weight:w); stride=last(strides, 3), dilation=last(dilations, 3), padding=padding(pad_mode, pad, 3), groups=group | mode == 1 and says(data_format, 'NCDHW') and symmetric(padding(pad_mode, pad, 3))
max_pool2d = MaxPool(x); kernel_size=last(kernel_size, 2), stride=last(strides, 2), padding=word(pad_mode, 'valid', 'same') | says(data_format, 'NCHW')
avg_pool2d = AvgPool(x); kernel_size=last(kernel_size, 2), stride=last(strides, 2), padding=word(pad_mode, 'VALID', 'SAME'), count_include_pad=False | says(data_format, 'NCHW')
max_pool3d = MaxPool3D(x); kernel_size=last(kernel_size, 3), stride=last(strides, 3) | says(pad_mode, 'VALID') and not ceil_mode
avg_pool3d = AvgPool3D(x); kernel_size=last(kernel_size, 3), stride=last(strides, 3) | says(pad_mode, 'VALID') and not ceil_mode and not divisor_override
adaptive_avg_pool2d = AdaptiveAvgPool2D(x); output_size=output_size, dialect='sizes'
adaptive_avg_pool3d = AdaptiveAvgPool3D(x); output_size=output_size, dialect='sizes'
adaptive_max_pool2d = AdaptiveMaxPool2D(x:input); output_size=output_size, return_indices=True, dialect='sizes_int64'
adaptive_max_pool3d = AdaptiveMaxPool3D(x, output_size); return_indices=True, dialect='sizes'

# normalisation
batch_norm_parts = BatchNorm(x, weight, bias, running_mean, running_var); eps=epsilon | not is_training and says(data_format, 'NCHW')
layer_norm_parts = LayerNorm(x:input_x, weight:gamma, bias:beta); axis=begin_norm_axis, eps=epsilon, dialect='begin' | begin_params_axis == begin_norm_axis
l2_normalize = L2Normalize(x); axis=tuple(axis), eps=epsilon

# shapes
reshape = Reshape(x:input, shape)
transpose = Transpose(x:input, axes:dims)
expand_dims = ExpandDims(x:input_x, axis)
squeeze = Squeeze(x:input); axis=all_or(axis)
concatenate = Concat(arrays:tensors); axis=axis
stack = Stack(arrays); axis=axis
split = Unstack(x); axis=axis, dialect='unstack', indices_or_sections=num or -1
split = Split(x:input_x); axis=axis, indices_or_sections=output_num, dialect='parts'
tile = Tile(x:input, reps:dims)
broadcast_to = BroadcastTo(x:input); shape=shape, dialect='sizes'
flatten_axes = Flatten(x:input_x); start=1, dialect='layers'
gather = Gather(x:input_params, index:input_indices, axis) | batch_dims == 0
take_along_axis = GatherD(x, axis:dim, indices:index)
gather_nd = GatherNd(x:input_x, indices)
crop = Slice(x:input, begin, size)
strided_slice = StridedSlice(x:input_x, begin, end, strides); begin_mask=begin_mask, end_mask=end_mask, ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask
flip = ReverseV2(x:input); axis=axis
roll = Roll(x:input); shift=shifts, axis=all_or(dims)
triu = Triu(x:input); k=diagonal
tril = Tril(x); k=diagonal
meshgrid = Meshgrid(arrays:inputs); indexing=word(indexing, 'xy', 'ij')
pad = Pad(x); pad_width=paddings, dialect='pairs'
shape = Shape(x)
ndim = Rank(x)
size = Size(x)
dtype = DType(x)
cast = Cast(x:input_x, dtype)
zeros_like = ZerosLike(x)
ones_like = OnesLike(x)
one_hot = OneHot(x:indices, depth, on_value, off_value); dialect='prim' | axis == -1
scatter_nd = ScatterNd(indices, updates, shape)
tensor_scatter = TensorScatterUpdate(x:input_x, indices, updates); mode='update'
tensor_scatter = TensorScatterAdd(x:input_x, indices, updates); mode='add'
masked_select = MaskedSelect(x:input, mask)
"""  # noqa: E501
