# hologram/onnx/attributes.py: which attributes the standard's operators have
# mypy: ignore-errors
"""What nobody would read is told: it may be a misspelt name, or what another opset says by an operand. onnx.checker knows too, and is
long to import."""

from hologram.onnx import wire

# Behind a name: whether nodes need it (!), the opset that brought it (+), and the one from which on it is gone (-).
_NAMES = """
Adagrad: decay_factor epsilon norm_coefficient
Adam: alpha beta epsilon norm_coefficient norm_coefficient_post
AffineGrid: align_corners
ArgMax ArgMin: axis keepdims select_last_index+12
AveragePool: auto_pad ceil_mode+10 count_include_pad dilations+19 kernel_shape! pads strides
BatchNormalization: epsilon momentum spatial-9 training_mode+14
BitCast: to!
BitShift: direction!
Cast: round_mode+24 saturate+19 to!
CastLike: round_mode+24 saturate+19
Celu Elu LeakyRelu Swish ThresholdedRelu: alpha
CenterCropPad MeanVarianceNormalization: axes
Clip: max-11 min-11
Col2Im: dilations pads strides
Compress Flatten Gather GatherElements Hardmax LogSoftmax OneHot Scatter Softmax: axis
Concat: axis!
ConcatFromSequence: axis! new_axis
Constant: sparse_value+11 value value_float+12 value_floats+12 value_int+12 value_ints+12 value_string+12 value_strings+12
ConstantOfShape: value
Conv ConvInteger QLinearConv: auto_pad dilations group kernel_shape pads strides
ConvTranspose: auto_pad dilations group kernel_shape output_padding output_shape pads strides
CumProd CumSum: exclusive reverse
DFT: axis-20 inverse onesided
DeformConv: dilations group kernel_shape offset_group pads strides
DepthToSpace: blocksize! mode+11
DequantizeLinear: axis+13 block_size+21 output_dtype+23
Dropout: ratio-12 seed+12
Einsum: equation!
EyeLike: dtype k
GRU: activation_alpha activation_beta activations clip direction hidden_size layout+14 linear_before_reset
GatherND: batch_dims+12
Gelu: approximate
Gemm: alpha beta transA transB
GlobalLpPool: p
GridSample: align_corners mode padding_mode
GroupNormalization: epsilon num_groups! stash_type+21
HardSigmoid: alpha beta
If: else_branch! then_branch!
InstanceNormalization: epsilon
IsInf: detect_negative detect_positive
LRN: alpha beta bias size!
LSTM: activation_alpha activation_beta activations clip direction hidden_size input_forget layout+14
LabelEncoder: default_float default_int64 default_string default_tensor+4 keys_floats keys_int64s keys_strings keys_tensor+4 values_floats
    values_int64s values_strings values_tensor+4
LayerNormalization RMSNormalization SimplifiedLayerNormalization: axis epsilon stash_type
Loop SequenceMap: body!
LpNormalization: axis p
LpPool: auto_pad ceil_mode+18 dilations+18 kernel_shape! p pads strides
MaxPool: auto_pad ceil_mode+10 dilations+10 kernel_shape! pads storage_order+8 strides
MaxUnpool: kernel_shape! pads strides
MelWeightMatrix: output_datatype
Mod: fmod
Momentum: alpha! beta! mode! norm_coefficient!
Multinomial: dtype sample_size seed
NonMaxSuppression: center_point_box
Optional: type
Pad: mode pads!-11 value-11
QuantizeLinear: axis+13 block_size+21 output_dtype+21 precision+23 saturate+19
RNN: activation_alpha activation_beta activations clip direction hidden_size layout+14
RandomNormal: dtype mean scale seed shape!
RandomNormalLike: dtype mean scale seed
RandomUniform: dtype high low seed shape!
RandomUniformLike: dtype high low seed
Range: stash_type+27
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare: axes-18 keepdims
    noop_with_empty_axes+18
ReduceSum: axes-13 keepdims noop_with_empty_axes+13
RegexFullMatch: pattern
Reshape: allowzero+14
Resize: antialias+18 axes+18 coordinate_transformation_mode+11 cubic_coeff_a+11 exclude_outside+11 extrapolation_value+11
    keep_aspect_ratio_policy+18 mode nearest_mode+11
ReverseSequence: batch_axis time_axis
RoiAlign: coordinate_transformation_mode+16 mode output_height output_width sampling_ratio spatial_scale
STFT: onesided
Scan: body! directions-9 num_scan_inputs! scan_input_axes+9 scan_input_directions+9 scan_output_axes+9 scan_output_directions+9
ScatterElements: axis reduction+16
ScatterND: reduction+16
Selu: alpha gamma
SequenceEmpty: dtype
Shape: end+15 start+15
Shrink: bias lambd
Slice: axes-10 ends!-10 starts!-10
SpaceToDepth: blocksize! mode+28
Split: axis num_outputs+18 split-13
SplitToSequence: axis keepdims
Squeeze: axes-13
Unsqueeze: axes!-13
StringNormalizer: case_change_action is_case_sensitive locale stopwords
StringSplit: delimiter maxsplit
TensorScatter: axis mode
TopK: axis k!-10 largest+11 sorted+11
Transpose: perm
Trilu: upper
Unique: axis sorted
Upsample: mode scales!-9
"""
_KINDS = """
FLOAT: alpha beta bias clip cubic_coeff_a decay_factor default_float epsilon extrapolation_value gamma high lambd low max mean min
    momentum norm_coefficient norm_coefficient_post ratio scale spatial_scale value_float
INT: align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize ceil_mode center_point_box count_include_pad
    default_int64 detect_negative detect_positive dtype end exclude_outside exclusive fmod group hidden_size input_forget inverse
    is_case_sensitive k keepdims largest layout linear_before_reset maxsplit new_axis noop_with_empty_axes num_groups num_outputs
    num_scan_inputs offset_group onesided output_datatype output_dtype output_height output_width p periodic precision reverse sample_size
    sampling_ratio saturate select_last_index size sorted spatial start stash_type storage_order time_axis to training_mode transA transB
    upper value_int
STRING: approximate auto_pad case_change_action coordinate_transformation_mode default_string delimiter direction equation
    keep_aspect_ratio_policy locale nearest_mode padding_mode pattern reduction round_mode value_string
FLOATS: activation_alpha activation_beta keys_floats scales value_floats values_floats
INTS: axes dilations directions ends kernel_shape keys_int64s output_padding output_shape pads perm scan_input_axes scan_input_directions
    scan_output_axes scan_output_directions shape split starts strides value_ints values_int64s
STRINGS: activations keys_strings stopwords value_strings values_strings
GRAPH: body else_branch then_branch
"""


def _lines(text):
    for line in text.strip().replace("\n    ", " ").split("\n"):
        names, words = line.split(":")
        yield names.split(), words.split()


_WORDS = {name: words for names, words in _lines(_NAMES) for name in names}
_KIND = {word: kind for (kind,), words in _lines(_KINDS) for word in words}


def names(domain, op, version):
    """Attributes that the operator has as an opset has it, and whether a node must have them."""
    found = {}
    for word in _WORDS.get(op, ()) if domain != "com.microsoft" else ():
        name, _, gone = word.partition("-")
        name, _, since = name.partition("+")
        if int(since or 0) <= version and (not gone or version < int(gone)):
            found[name.rstrip("!")] = name.endswith("!")
    return found


def check(node, known, kinds=_KIND):
    """Raises ValueError for an attribute that is not among the names `known` (-> whether it is needed) or of another kind than
    `kinds` says, and for one that is missing."""
    given = node.proto.attribute
    for attribute in given:
        name, kind = attribute.name, kinds.get(attribute.name)
        if name not in known and not name.startswith("__"):  # so do those that tools keep for themselves
            raise ValueError(f"from_onnx: {node}: it has no attribute {name!r}, but {', '.join(known) or 'none'}")
        if kind is not None and not attribute.ref_attr_name and attribute.type != getattr(wire, kind, attribute.type):
            raise ValueError(f"from_onnx: {node}: attribute {name!r}: expected a value of kind {kind}, got another one")
    for name, needed in known.items():
        if needed and not any(attribute.name == name for attribute in given):
            raise ValueError(f"from_onnx: {node}: attribute {name!r} is missing")
