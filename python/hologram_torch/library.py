# hologram_torch/library.py: torch.ops.hologram.*, operators that stay whole in graphs
from .eager.library import *  # noqa: F403
from .eager.library import __all__, __doc__  # noqa: F401
