# tests/torch/conftest.py: what PyTorch measures and writes down at each capture costs the tests a sixth of their time
import logging

import torch

torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # a measurement, behind a flush of the caches
logging.getLogger("torch.__trace").addHandler = lambda _: None  # pytest's, for which graphs would be written
