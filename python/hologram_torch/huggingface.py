# hologram_torch/huggingface.py: archives as an export format of Hugging Face's transformers
"""Importing this module registers the format "hologram" with transformers.exporters (5.23 and later):

    exported = HologramExporter().export(model, inputs, HologramConfig(dynamic=True))
    exported.save_pretrained("folder")  # model.holo, its metadata and the model's config
    outputs = ExportedModel.from_pretrained("folder")(**inputs)
"""

import dataclasses
import os
import shutil
import tempfile
import weakref

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind
from transformers import CompileConfig
from transformers.exporters import DynamoConfig, DynamoExporter, HfExporter, ModelRunner, register_backend
from transformers.exporters.metadata import load_treespec

import hologram

from .archive import export_program
from .capture import exported

FORMAT = "hologram"


@dataclasses.dataclass
class HologramConfig(DynamoConfig):
    """dynamic, dynamic_shapes, …: as in DynamoConfig, which traces the model; reproducible, fast: as in options.Options."""

    export_format: str = FORMAT
    reproducible: bool = False
    fast: bool = False


class Archive:
    """A program: the archive in `path`; one that export wrote into a folder of its own lives as long as this object."""

    def __init__(self, path, folder=None):
        self.path = os.fspath(path)
        if folder is not None:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class HologramExporter(HfExporter):
    """Models of transformers as archives. Raises NotImplementedError naming operators without a native kernel."""

    export_format = FORMAT
    config_class = HologramConfig
    program_suffix = ".holo"
    required_packages = ["torch"]

    def export_program(self, model, sample_inputs, config):
        with exported.our_operators():
            program, metadata = DynamoExporter().export_program(model, sample_inputs, config)
        folder = tempfile.mkdtemp(prefix="hologram-")
        archive = Archive(os.path.join(folder, "model.holo"), folder)
        export_program(program, archive.path, reproducible=config.reproducible, fast=config.fast)
        _record_constants(metadata, program)
        return archive, metadata

    @classmethod
    def save_program(cls, program, path):
        shutil.copyfile(program.path, path)

    @classmethod
    def load_program(cls, path):
        return Archive(path)


def _record_constants(metadata, program):
    """Which of the results are no tensors, and what they are: an archive gives its arrays alone."""
    results = [s.arg for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    metadata.out_constants = [[i, arg.value] for i, arg in enumerate(results) if isinstance(arg, ConstantArgument)]


class HologramRunner(ModelRunner):
    """Runs an archive on the CPU; results are tensors of their own."""

    def __init__(self, program, metadata):
        super().__init__(metadata)
        self._program = program  # keeps the file
        self._method = hologram.load(program.path, bfloat16="uint16").methods["forward"]
        self._order = load_treespec(metadata.in_spec).children()[1].context

    device = property(lambda self: torch.device("cpu"))

    @classmethod
    def from_program(cls, program, metadata, device=None):
        if device is not None and torch.device(device).type != "cpu":
            raise ValueError(f"a Hologram export runs on the CPU, not on {device}")
        return cls(program, metadata)

    def __call__(self, share_inputs=True, share_outputs=False, **kwargs):
        given = {**self.metadata.in_constants, **kwargs}
        missing = [name for name in self._order if name not in given]
        if missing:
            raise TypeError(f"the export was traced with {', '.join(self._order)}; got no {', '.join(missing)}")
        leaves = torch.utils._pytree.tree_leaves({name: given[name] for name in self._order})
        results = self._method.flat([_array(leaf.detach()) for leaf in leaves if isinstance(leaf, torch.Tensor)])
        return self.unflatten([_tensor(array, result["dtype"]) for array, result in zip(results, self._method.results)])


def _array(tensor):
    """Shares memory. NumPy has no bfloat16: archives take its bits."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _tensor(array, dtype):
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def compile_config(**settings):
    """What model.generate(…, cache_implementation="static", compile_config=…) takes to compile its steps on the CPU, where transformers
    compiles for accelerators alone. settings: of transformers.CompileConfig."""
    config = CompileConfig(**{"backend": FORMAT, "mode": None, "fullgraph": False, **settings})
    config._compile_all_devices = True  # transformers has no public name for it
    return config


register_backend(HologramExporter, HologramRunner)
