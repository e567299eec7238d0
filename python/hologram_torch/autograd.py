# hologram_torch/autograd.py: the operations of hologram_torch.functional as nodes of PyTorch's autograd
from .eager.autograd import *  # noqa: F403
from .eager.autograd import __all__, __doc__  # noqa: F401
