# bench/peers.py: the runtimes that are compared, each behind the same two functions
"""A peer is `load()`, which imports its libraries, and `prepare(case, module, inputs, threads)`,
which returns a call without arguments; the call runs the module once and returns its outputs. The
time from prepare to the end of the first call is the peer's first call."""

import copy
from collections.abc import Callable
from dataclasses import dataclass


class Unavailable(Exception):
    """The peer cannot run this case on this machine; the message says why."""


@dataclass(frozen=True)
class Peer:
    """`steady`: whether its steady state is of interest; `checked`: whether its values are right at
    all; `warm`: whether it has a cache on disk, so that a second process's first call is measured
    too."""

    name: str
    load: Callable[[], None]
    prepare: Callable
    steady: bool = True
    checked: bool = True
    warm: bool = False


def load_dynamo():
    """Imports what every torch.compile backend needs, by tracing one addition."""
    import torch

    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))
    torch._dynamo.reset()


# --- eager and torch.compile ----------------------------------------------------------------------
def prepare_eager(case, module, inputs, threads):
    return lambda: module(*inputs)


def compiled_by(backend, **options):
    def prepare(case, module, inputs, threads):
        import torch

        call = torch.compile(module, backend=backend, dynamic=False, **options)
        return lambda: call(*inputs)

    return prepare


def load_inductor():
    load_dynamo()
    import torch._inductor.compile_fx
    import torch._inductor.config

    torch._inductor.config.freezing = True


def load_hologram():
    load_dynamo()
    try:
        import hologram_torch.backend  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"hologram_torch cannot be imported: {error}") from None


def prepare_frozen(case, module, inputs, threads):
    import hologram_torch
    import models

    call = hologram_torch.freeze(models.as_module(module), tuple(inputs))
    return lambda: call(*inputs)


def empty_backend(graph, example_inputs):
    """Traces and returns outputs that were made once: what is left of a call is PyTorch's own
    cost."""
    import torch
    from torch._functorch.aot_autograd import aot_module_simplified

    def compiler(graph, example_inputs):
        with torch._subclasses.fake_tensor.unset_fake_temporarily():
            values = [
                n.meta.get("val") for n in graph.graph.find_nodes(op="output")[0].all_input_nodes
            ]
            outputs = tuple(torch.zeros(tuple(v.shape), dtype=v.dtype) for v in values)

        def run(arguments):
            arguments.clear()
            return outputs

        run._boxed_call = True
        return run

    return aot_module_simplified(
        graph,
        example_inputs,
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
    )


def aot_decomposed(graph, example_inputs):
    """Traces as Hologram does, with its rewrites and decompositions, and lets PyTorch run the
    result: what is left of Hologram's first call is its own cost."""
    from functorch.compile import make_boxed_func
    from hologram_torch.capture import decomp, rewrite
    from torch._functorch.aot_autograd import aot_module_simplified

    rewrite.dynamo_graph(graph)
    return aot_module_simplified(
        graph,
        example_inputs,
        fw_compiler=lambda module, inputs: make_boxed_func(module.forward),
        decompositions=decomp.table(),
        keep_inference_input_mutations=True,
    )


# --- OpenVINO -------------------------------------------------------------------------------------
def openvino_config(case, threads: int) -> dict:
    return {"INFERENCE_PRECISION_HINT": case.precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}


def widened(case, module):
    """OpenVINO narrows a float32 model itself; of a bfloat16 one it gives wrong results."""
    return module if case.precision == "f32" else copy.deepcopy(module).float()


def load_openvino():
    load_dynamo()
    import openvino.frontend.pytorch.torchdynamo.backend as backend
    import openvino.torch  # noqa: F401

    def fall_back(*_):
        raise Unavailable("OpenVINO's backend gave the graph to Inductor")

    backend.compile_fx = fall_back


def prepare_openvino(case, module, inputs, threads):
    import torch

    # Its plain path leaves the weights inputs, which costs it half of its speed, and fails on
    # buffers.
    torch._dynamo.config.prepare_freezing = True
    options = {"config": openvino_config(case, threads), "aot_autograd": True}
    return compiled_by("openvino", options=options)(case, widened(case, module), inputs, threads)


def load_openvino_model():
    import openvino  # noqa: F401
    import torch.export  # noqa: F401


def prepare_openvino_model(case, module, inputs, threads):
    import openvino
    import torch

    module, inputs = stateless(case, widened(case, module), inputs)
    model = openvino.convert_model(torch.export.export(module, inputs))
    compiled = openvino.Core().compile_model(model, "CPU", openvino_config(case, threads))
    request = compiled.create_infer_request()
    arrays = [t.numpy() for t in inputs]
    return lambda: list(request.infer(arrays, share_inputs=True, share_outputs=True).values())


# --- ONNX Runtime ---------------------------------------------------------------------------------
def load_onnxruntime():
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401
    import torch.onnx  # noqa: F401


def prepare_onnxruntime(case, module, inputs, threads):
    import onnxruntime
    import torch

    module, inputs = stateless(case, module, inputs)
    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save("model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(inputs):
        raise Unavailable(f"the exported model has {len(names)} inputs, the module {len(inputs)}")
    feeds = {name: t.numpy() for name, t in zip(names, inputs)}
    return lambda: session.run(None, feeds)


def stateless(case, module, inputs):
    import models

    if case.stateless:
        return case.stateless(module, inputs)
    return models.as_module(module), inputs


PEERS = {
    peer.name: peer
    for peer in (
        Peer("aot_eager", load_dynamo, compiled_by("aot_eager"), steady=False),
        Peer("eager", lambda: None, prepare_eager),
        Peer("inductor", load_inductor, compiled_by("inductor")),
        Peer("openvino", load_openvino, prepare_openvino),
        Peer("openvino_model", load_openvino_model, prepare_openvino_model),
        Peer("onnxruntime", load_onnxruntime, prepare_onnxruntime),
        Peer("hologram", load_hologram, compiled_by("hologram"), warm=True),
        Peer("frozen", load_hologram, prepare_frozen),
        Peer("before", load_hologram, compiled_by("hologram")),
        Peer("frozen_before", load_hologram, prepare_frozen),
        Peer("aot_decomposed", load_hologram, compiled_by(aot_decomposed), steady=False),
        Peer("empty", load_dynamo, compiled_by(empty_backend), checked=False),
    )
}
BEFORE = ("before", "frozen_before")  # Hologram of another checkout: Session says how
OURS = ("frozen", *BEFORE)  # no others to be compared with
DEFAULT = ["aot_eager", "eager", "inductor", "openvino", "onnxruntime", "hologram"]
