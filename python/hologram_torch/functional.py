# hologram_torch/functional.py: operations on tensors by Hologram's kernels, with gradients
from .eager.functional import *  # noqa: F403
from .eager.functional import __all__, __doc__  # noqa: F401
