# hologram_torch/optim.py: optimizers whose steps compile whole, beside those of torch.optim that do already
"""`Adafactor` is PyTorch's, with its states and results, by tensors alone: PyTorch's own reads numbers back in each step, which
breaks its graph. `Lion` is that of Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023).

    step = torch.compile(hologram_torch.optim.Lion(model.parameters(), lr=1e-4).step, backend="hologram")

The learning rate of a group may be a tensor: a schedule that writes into it compiles nothing anew.
"""

import torch

__all__ = ["Adafactor", "Lion"]


class Adafactor(torch.optim.Adafactor):
    """torch.optim.Adafactor: the same arguments (but `foreach`, which is ignored), states and, but for rounding, results."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = _loss(closure)
        for group in self.param_groups:
            lists = [], [], [], [], [], []
            self._init_group(group, *lists)
            for given in zip(*lists):
                _adafactor(group, *given)
        return loss


def _adafactor(group, parameter, gradient, rows, columns, variance, step):
    eps1, eps2 = group["eps"]
    eps1 = torch.finfo(parameter.dtype).eps if eps1 is None else eps1
    gradient = -gradient if group["maximize"] else gradient
    step += 1
    forget = step ** group["beta2_decay"]
    rate = torch.clamp_max(step.rsqrt(), group["lr"]) * torch.clamp_min(_rms(parameter), eps2)
    if group["weight_decay"] != 0:
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
    if variance is None:
        rows.lerp_(gradient.square().mean(-1, keepdim=True), forget.to(rows.dtype))
        columns.lerp_(gradient.square().mean(-2, keepdim=True), forget.to(columns.dtype))
        estimate = rows / rows.mean(-2, keepdim=True).clamp(min=eps1) * columns  # divides a row's number, not each element
    else:
        variance.lerp_(gradient.square(), forget.to(variance.dtype))
        estimate = variance
    update = gradient * estimate.clamp(min=eps1 * eps1).rsqrt()
    parameter.sub_((update * (rate / torch.clamp_min(_rms(update) / group["d"], 1.0))).to(parameter.dtype))


def _rms(x):
    return (x.square().sum(-1).sum() / x.numel()).sqrt()  # row by row, as what is made of rows and columns is fastest


class Lion(torch.optim.Optimizer):
    """Steps of equal size, by the sign of an average: lr is a third to a tenth of AdamW's, weight_decay 3 to 10 times AdamW's.

    betas: the weights of the old average in the step and in the average that is kept."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        if not isinstance(lr, torch.Tensor) and lr < 0:
            raise ValueError(f"Lion: lr must not be negative, got {lr}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"Lion: betas must be from 0 to less than 1, got {betas}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def _init_group(self, group, parameters, gradients, averages):  # Dynamo runs what has this name when it traces
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            parameters.append(parameter)
            gradients.append(parameter.grad)
            averages.append(state["exp_avg"])

    @torch.no_grad()
    def step(self, closure=None):
        loss = _loss(closure)
        for group in self.param_groups:
            lists = [], [], []
            self._init_group(group, *lists)
            for given in zip(*lists):
                _lion(group, *given)
        return loss


def _lion(group, parameter, gradient, average):
    lr, (beta1, beta2) = group["lr"], group["betas"]
    gradient = -gradient if group["maximize"] else gradient
    if group["weight_decay"] != 0:
        parameter.mul_(1 - lr * group["weight_decay"])
    parameter.sub_(average.lerp(gradient, 1 - beta1).sign() * lr)
    average.lerp_(gradient, 1 - beta2)


def _loss(closure):
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
