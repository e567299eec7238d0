# hologram_torch/quantized/calibration.py: ranges of the numbers that layers are given
import torch

from . import numbers


def observe(model, found, calibrate):
    """Runs `model` and gives, for each layer of `found` by its name, step and zero point of its inputs' range."""
    ranges, hooks = {}, []

    def seen(name):
        def hook(layer, arguments):
            x = arguments[0].detach().float()
            if x.numel():
                low, high = x.amin(), x.amax()
                if not (high - low).isfinite():
                    raise ValueError(f"quantize: calibrate: layer {name!r} was given numbers whose range is {low} to {high}")
                if name in ranges:
                    low, high = torch.minimum(low, ranges[name][0]), torch.maximum(high, ranges[name][1])
                ranges[name] = low, high

        return hook

    try:
        for name, layer in found.items():
            hooks.append(layer.register_forward_pre_hook(seen(name)))
        empty = _run(model, calibrate)
    finally:
        for hook in hooks:
            hook.remove()
    missing = [name for name in found if name not in ranges]
    if missing and not empty:
        raise ValueError(f"quantize: calibrate: reached {len(ranges)} of {len(found)} layers, not {missing[0]!r}; skip those that stay")
    return {name: numbers.range_of(*ranges.get(name, (torch.zeros(()), torch.ones(())))) for name in found}


def _run(model, calibrate):
    """Whether there was nothing to run."""
    with torch.no_grad():
        if callable(calibrate):
            calibrate(model)
            return False
        if not hasattr(calibrate, "__iter__"):
            raise TypeError(f"quantize: calibrate: expected an iterable or a function, got {type(calibrate).__name__}")
        empty = True
        for given in calibrate:
            empty = False
            if not isinstance(given, (dict, tuple, list, torch.Tensor)):
                raise TypeError(f"quantize: calibrate: expected tensors, tuples or dicts of arguments, got {type(given).__name__}")
            if isinstance(given, dict):
                model(**given)
            elif isinstance(given, (tuple, list)):
                model(*given)
            else:
                model(given)
    return empty
