# hologram_torch/demo/__main__.py: python -m hologram_torch.demo
import sys

from .search import main

sys.exit(main())
