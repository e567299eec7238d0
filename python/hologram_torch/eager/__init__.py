# hologram_torch/eager/__init__.py: operations that run at once, with gradients
