# tests/torch/device_backends.py: the backend with a device by its name, for workers of opinfo.py
import torch


def webgpu(graph, inputs):
    return torch._dynamo.lookup_backend("hologram")(graph, inputs, options={"device": "webgpu"})
