# hologram_torch/nn.py: modules over hologram_torch.functional
from .eager.nn import *  # noqa: F403
from .eager.nn import __all__, __doc__  # noqa: F401
