# hologram/onnx_backend.py: the interface of onnx.backend.base
# mypy: ignore-errors
"""`hologram.onnx_backend.prepare(model).run(inputs)`, as the package `onnx` asks it of backends."""

import numpy as np
import onnx
import onnx.backend.base

from hologram.onnx.model import from_onnx

__all__ = ["HologramBackend", "HologramBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class HologramBackendRep(onnx.backend.base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        """The results, in order, for the inputs: a list in order, a dict by name, or the only one."""
        if isinstance(inputs, dict):
            inputs = self.model._arranged((), inputs)
        elif isinstance(inputs, (list, tuple)) and not (len(self.model.inputs) == 1 and len(inputs) != 1):
            inputs = self.model._arranged(tuple(inputs), {})
        else:
            inputs = [inputs]
        return tuple(self.model.flat(inputs))


class HologramBackend(onnx.backend.base.Backend):
    """Runs models on the CPU."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Whether every operator of the model is supported."""
        if not cls.supports_device(device):
            return False
        try:
            from_onnx(model)
        except NotImplementedError:
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.supports_device(device):
            raise ValueError(f"hologram.onnx_backend: device {device!r} is not supported; the only one is CPU")
        return HologramBackendRep(from_onnx(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """One node; the inputs' types are those of the arrays."""
        names = [name for name in node.input if name]
        infos = []
        for name, value in zip(names, inputs):
            value = np.asarray(value)
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            infos.append(onnx.helper.make_tensor_value_info(name, kind, value.shape))
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=imports), inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device):
        return device.split(":")[0].upper() == "CPU"


is_compatible = HologramBackend.is_compatible
prepare = HologramBackend.prepare
run_model = HologramBackend.run_model
run_node = HologramBackend.run_node
supports_device = HologramBackend.supports_device
