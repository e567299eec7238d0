# hologram_torch/demo/__init__.py: python -m hologram_torch.demo
