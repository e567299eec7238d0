# hologram_torch/accelerator/autocast.py: torch.autocast("hologram")
"""PyTorch's lists for GPUs, as operators by what becomes of their float operands: those of `LOWER` get the type that autocast names,
those of `FLOAT32` float32, those of `WIDEST` the widest type among them."""

import torch

from . import tensors

LOWER = """_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution prelu
addmm addmv addr matmul mm mv linear addbmm baddbmm bmm chain_matmul linalg_multi_dot linalg_vecdot _thnn_fused_lstm_cell
_thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention""".split()
FLOAT32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar
softplus layer_norm native_layer_norm group_norm norm.Scalar norm.ScalarOpt_dim nuclear_norm nuclear_norm.dim cosine_similarity
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist
pdist cdist renorm logsumexp prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add".split()
_SUMS = frozenset("sum prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm".split())
_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def _cast(x, dtype):
    if isinstance(x, (list, tuple)):
        return [_cast(v, dtype) for v in x]
    floats = tensors.is_ours(x) and x.is_floating_point() and x.dtype != torch.float64
    return x.to(dtype) if floats else x


def _casting(op, choose):
    def call(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            dtype = choose(args, kwargs)
            if dtype is None:
                return op(*args, **kwargs)
            return op(*(_cast(x, dtype) for x in args), **{name: _cast(x, dtype) for name, x in kwargs.items()})

    return call


def _lower(args, kwargs):
    return torch.get_autocast_dtype("hologram")


def _float32(args, kwargs):
    return torch.float32


def _float32_unless_said(args, kwargs):
    return None if kwargs.get("dtype") is not None else torch.float32


def _widest(args, kwargs):
    types = {t.dtype for t in tensors.among((*args, *kwargs.values())) if tensors.is_ours(t) and t.is_floating_point()}
    return torch.float32 if torch.float32 in types else next(iter(types)) if len(types) == 1 else torch.get_autocast_dtype("hologram")


def _refuse(*args, **kwargs):
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use binary_cross_entropy_with_logits"
    )


def register(library):
    for names, choose in ((LOWER, _lower), (FLOAT32, _float32), (WIDEST, _widest)):
        for name in names:
            try:
                op = tensors.overload(name)
            except AttributeError:  # another version of PyTorch
                continue
            how = _float32_unless_said if name.partition(".")[0] in _SUMS else choose
            library.impl(name, _casting(op, how), "AutocastPrivateUse1")
    library.impl("binary_cross_entropy", _refuse, "AutocastPrivateUse1")
