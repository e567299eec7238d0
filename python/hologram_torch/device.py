# hologram_torch/device.py: the public functions of device="hologram"
from .accelerator import lazy, stats, use

__all__ = ["lazy", "stats", "use"]
