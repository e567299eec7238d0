# hologram_torch/translate/__init__.py: from PyTorch's graph to ours, and the operators that stay with PyTorch
