# hologram_torch/device.py: the public functions of device="hologram"
from .accelerator import stats, use

__all__ = ["stats", "use"]
