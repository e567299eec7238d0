# hologram/__init__.py: the Python SDK (needs no PyTorch)
"""Hologram: a tensor compiler and runtime.

The native part is ``hologram._core``; PyTorch is used by the separate package ``hologram_torch``.
"""

from hologram._core import __version__, version

__all__ = ["__version__", "version"]
