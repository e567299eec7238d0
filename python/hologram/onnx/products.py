# hologram/onnx/products.py: matrix products
# mypy: ignore-errors
from hologram import _core, _quantised
from hologram._graph import FLOATS, f64_bits, numel
from hologram.onnx.table import operator


@operator("MatMul")
def matmul(call, x, y):
    return product(call, *call.values(x, y))


def product(call, x, y, dtype=None):
    """x @ y by NumPy's rules for dimensions."""
    b = call.b
    line, column = len(x.shape) == 1, len(y.shape) == 1
    if line:
        x = b.reshape(x, [1, *x.shape])
    if column:
        y = b.reshape(y, [*y.shape, 1])
    x, y = paired(call, x, y)
    z = attended(call, x, y) if dtype is None else None
    z = _dot(b, x, y, dtype) if z is None else z
    shape = list(z.shape)
    if line or column:
        z = b.reshape(z, shape[:-2] + ([] if line else shape[-2:-1]) + ([] if column else shape[-1:]))
    return z


def attended(call, x, v):
    """softmax(scale * q @ transposed k + bias) @ v as attention; None where x is not such a softmax."""
    tracer, b = call.tracer, call.b
    scores = tracer.softmaxes.get(x.id)
    rank = len(x.shape)
    if scores is None or rank < 3 or len(v.shape) != rank or len(scores.shape) != rank:
        return None
    found = _scores(tracer, scores, rank)
    if found is None:
        return None
    q, k, scale, bias = found
    lead = x.shape[:-2]
    parts = (q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if not all(_core.provably_equal(n, m) for part in parts for n, m in zip(lead, part)):
        return None
    operands = [q, b.permute(k, [*range(rank - 2), rank - 1, rank - 2]), v, *([] if bias is None else [bias])]
    return b.make("attention", operands, ints=[0, 0], bits=f64_bits(scale))


def _scores(tracer, x, rank):
    """(q, transposed k, scale, bias or None)"""
    if x.op == "dot_general" and x.inputs[0].dtype == x.dtype:
        return (*x.inputs, 1.0, None)
    if x.id in tracer.scaled:
        inner, factor = tracer.scaled[x.id]
        found = _scores(tracer, inner, rank)
        return (*found[:2], found[2] * factor, None) if found and found[3] is None else None
    if x.op == "add":
        for product, bias in (x.inputs, x.inputs[::-1]):
            found = _scores(tracer, product, rank) if product.op != "add" else None
            if found:
                bias = bias.inputs[0] if bias.op == "expand" else bias
                return (*found[:3], bias) if len(bias.shape) == rank else None
    return None


def paired(call, x, y):
    """The factors with one list of batch sizes, and depths that are provably equal. Rows of a batch over one matrix are rows."""
    b, tracer = call.b, call.tracer
    if tracer.dim(x.shape[-1]) != tracer.dim(y.shape[-2]):
        raise ValueError(f"MatMul of {list(x.shape)} and {list(y.shape)}")
    y = tracer.settle(y, [*y.shape[:-2], x.shape[-1], y.shape[-1]])
    if len(x.shape) == 2 and len(y.shape) == 2:
        return x, y
    lead = _lead(call, x.shape[:-2], y.shape[:-2])
    if len(y.shape) == 2:
        return x, y
    return b.broadcast(_settled(call, x, lead), [*lead, *x.shape[-2:]]), b.broadcast(_settled(call, y, lead), [*lead, *y.shape[-2:]])


def _settled(call, x, lead):
    have, skip = x.shape[:-2], len(lead) - len(x.shape) + 2
    sizes = [n if isinstance(n, int) and n == 1 else lead[skip + i] for i, n in enumerate(have)]
    return call.tracer.settle(x, [*sizes, *x.shape[-2:]])


def _lead(call, *shapes):
    from hologram._operands import broadcast_shape

    return broadcast_shape(call.tracer, *shapes)


def _dot(b, x, y, dtype=None):
    if len(y.shape) == 2 and len(x.shape) > 2:
        rows = numel(x.shape[:-1])
        z = _dot(b, b.reshape(x, [rows, x.shape[-1]]), y, dtype)
        return b.reshape(z, [*x.shape[:-1], y.shape[-1]])
    if dtype is None and x.dtype not in FLOATS:
        z = b.reduce("sum", b.ew("mul", b.unsqueeze(x, len(x.shape)), b.unsqueeze(y, len(y.shape) - 2)), [len(x.shape) - 1])
        return z
    of_bytes = _quantised.product(b, x, y) if dtype is None else None
    return of_bytes or b.make("dot_general", [x, y], ints=[0], dtype=dtype)


@operator("Gemm")
def gemm(call, x, y, bias=None):
    b = call.b
    x, y, bias = call.values(x, y, bias)
    if call.attr("transA", 0):
        x = b.permute(x, [1, 0])
    if call.attr("transB", 0):
        y = b.permute(y, [1, 0])
    x, y = paired(call, x, y)
    out = x.dtype
    if out in FLOATS:
        z = _quantised.product(b, x, y) or b.dot(x, y, wide=True)
    else:
        z = _dot(b, x, y)
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    z = z if alpha == 1 else b.mul(z, alpha)
    if bias is not None and beta != 0:
        bias = b.cast(bias, z.dtype)
        z = b.ew("add", z, bias if beta == 1 else b.mul(bias, beta))
    return b.cast(z, out)


@operator("Det")
def det(call, x):
    """By elimination without pivots in float64 over the permutations of small matrices."""
    b, x = call.b, call.value(x)
    n = x.shape[-1]
    if not isinstance(n, int) or n > 4:
        raise NotImplementedError(f"from_onnx: {call.node_of_model}: determinants of matrices beyond 4 x 4 are not supported")
    wide = b.cast(x, "f64")
    rank = len(x.shape)

    def at(i, j):
        return b.select_axis(b.select_axis(wide, rank - 2, i), rank - 2, j)

    def minor(rows, columns):
        if len(rows) == 1:
            return at(rows[0], columns[0])
        total = None
        for k, column in enumerate(columns):
            part = b.mul(at(rows[0], column), minor(rows[1:], columns[:k] + columns[k + 1 :]))
            total = part if total is None else (b.sub if k % 2 else b.add)(total, part)
        return total

    return b.cast(minor(list(range(n)), list(range(n))), x.dtype)
