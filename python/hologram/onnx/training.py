# hologram/onnx/training.py: optimisers
# mypy: ignore-errors
from hologram.onnx.table import operator

_DOMAIN = "ai.onnx.preview.training"


def _columns(operands, count):
    """The operands behind the first two, as lists of so many kinds."""
    size = len(operands) // count
    return [operands[i * size : (i + 1) * size] for i in range(count)]


def _decayed(call, rate, step, decay):
    b = call.b
    return b.div(rate, b.add(b.mul(b.cast(step, rate.dtype), decay), 1))


@operator("Adagrad", domain=_DOMAIN)
def adagrad(call, rate, step, *operands):
    b = call.b
    rate = _decayed(call, *call.values(rate, step), call.attr("decay_factor", 0.0))
    norm, epsilon = call.attr("norm_coefficient", 0.0), call.attr("epsilon", 0.0)
    new, sums = [], []
    for x, gradient, total in zip(*_columns(call.values(*operands), 3)):
        gradient = b.add(b.mul(x, norm), gradient)
        total = b.add(total, b.mul(gradient, gradient))
        new.append(b.sub(x, b.div(b.mul(gradient, b.broadcast(rate, x.shape)), b.add(b.ew("sqrt", total), epsilon))))
        sums.append(total)
    return (*new, *sums)


@operator("Momentum", domain=_DOMAIN)
def momentum(call, rate, step, *operands):
    b = call.b
    rate, step = call.values(rate, step)
    norm, alpha, beta = call.attr("norm_coefficient", 0.0), call.attr("alpha"), call.attr("beta")
    new, speeds = [], []
    for x, gradient, speed in zip(*_columns(call.values(*operands), 3)):
        gradient = b.add(b.mul(x, norm), gradient)
        share = b.where(b.lt(b.number("i64", 0), step), b.number(x.dtype, beta), b.number(x.dtype, 1))
        speed = b.add(b.mul(speed, alpha), b.mul(gradient, b.broadcast(share, x.shape)))
        way = b.add(gradient, b.mul(speed, alpha)) if call.attr("mode") == "nesterov" else speed
        new.append(b.sub(x, b.mul(way, b.broadcast(rate, x.shape))))
        speeds.append(speed)
    return (*new, *speeds)


@operator("Adam", domain=_DOMAIN)
def adam(call, rate, step, *operands):
    b = call.b
    rate, step = call.values(rate, step)
    norm, alpha, beta = call.attr("norm_coefficient", 0.0), call.attr("alpha", 0.9), call.attr("beta", 0.999)
    epsilon, after = call.attr("epsilon", 0.0), call.attr("norm_coefficient_post", 0.0)
    new, firsts, seconds = [], [], []
    for x, gradient, first, second in zip(*_columns(call.values(*operands), 4)):
        gradient = b.add(b.mul(x, norm), gradient)
        first = b.add(b.mul(first, alpha), b.mul(gradient, 1 - alpha))
        second = b.add(b.mul(second, beta), b.mul(b.mul(gradient, gradient), 1 - beta))
        count = b.cast(step, x.dtype)
        less = [b.sub(b.number(x.dtype, 1), b.ew("pow", b.number(x.dtype, share), count)) for share in (alpha, beta)]
        adjusted = b.where(b.lt(b.number("i64", 0), step), b.div(b.mul(rate, b.ew("sqrt", less[1])), less[0]), rate)
        way = b.div(b.mul(first, b.broadcast(adjusted, x.shape)), b.add(b.ew("sqrt", second), epsilon))
        moved = b.sub(x, way)
        new.append(b.mul(moved, 1 - after))
        firsts.append(first)
        seconds.append(second)
    return (*new, *firsts, *seconds)
