#!/usr/bin/env python3
# bench/quantized_models.py: quantised models against float32 and other runtimes' quantisers, in one process
"""MiniLM (real weights) and decoding by a GPT. Each peer's result is held against float32's (the cosine of the vectors), then all
are timed in turns (turns.py): the fastest turn in ms, then the median ratio of each peer's time to ours, with quartiles.

    python bench/quantized_models.py [--threads 2] [--seconds 1] [--only WORD] [--peers ort,openvino,torchao]

float     ours, frozen (hologram_torch.freeze)
ours      hologram_torch.quantize(model, "dynamic-int8"), frozen; "static": "static-int8"; "int4": "weight-int4"
ort       ONNX Runtime with onnxruntime.quantization.quantize_dynamic (bytes, a scale for each result)
openvino  OpenVINO with ONNX Runtime's quantize_static (bytes, QDQ nodes), which it runs as products of bytes
torchao   Int8DynamicActivationInt8WeightConfig, compiled by Inductor; for decoding Int8WeightOnlyConfig
"""

import argparse
import copy
import os
import sys
import tempfile

import torch

import hologram_torch
import models
from turns import take_turns

SIZES = {"minilm 1x16": (1, 16), "minilm 8x128": (8, 128)}
GPT = {"vocabulary": 50257, "width": 768, "heads": 12, "layers": 12, "length": 256}  # GPT-2's sizes


class Flat(torch.nn.Module):
    """What exporters take: positional arguments and one result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(ids, mask)


def onnx_file(model, inputs, folder):
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(Flat(model).eval(), inputs, path, input_names=["ids", "mask"], dynamo=True, verbose=False)
    return path


def ort(model, inputs, folder, threads):
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = os.path.join(folder, "dynamic.onnx")
    quantize_dynamic(onnx_file(model, inputs, folder), path, weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = dict(zip([i.name for i in session.get_inputs()], [x.numpy() for x in inputs]))
    return lambda: torch.from_numpy(session.run(None, given)[0])


class Reader:
    """The inputs that onnxruntime's static quantisation runs."""

    def __init__(self, inputs):
        self.left = [dict(zip(["ids", "mask"], [x.numpy() for x in inputs]))]

    def get_next(self):
        return self.left.pop() if self.left else None


def openvino(model, inputs, folder, threads):
    import openvino
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    path = os.path.join(folder, "static.onnx")
    quantize_static(onnx_file(model, inputs, folder), path, Reader(inputs), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])  # fmt: skip
    core = openvino.Core()
    compiled = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    request, given = compiled.create_infer_request(), [x.numpy() for x in inputs]

    def call():
        request.infer(given, share_inputs=True)
        return torch.from_numpy(request.get_output_tensor(0).data)

    return call


def torchao(model, inputs, folder, threads):
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

    quantize_(model, Int8WeightOnlyConfig() if isinstance(model, models.Gpt2Cached) else Int8DynamicActivationInt8WeightConfig())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="inductor", options={"freezing": True})
    compiled(*inputs)
    return lambda: compiled(*inputs)


PEERS = {"ort": ort, "openvino": openvino, "torchao": torchao}


def frozen(model, inputs):
    call = hologram_torch.freeze(model, inputs)
    return lambda: call(*inputs)


def compiled(model, inputs):
    call = torch.compile(copy.deepcopy(model), backend="hologram")
    call(*inputs)
    return lambda: call(*inputs)


def build(name):
    """The calls of one case that are ours; the model and its inputs, for peers."""
    if name in SIZES:
        model, inputs = models.minilm(), (models.tokens(*SIZES[name], vocabulary=30000), torch.ones(SIZES[name], dtype=torch.int64))
        modes = {"ours": ("dynamic-int8", {}), "static": ("static-int8", {"calibrate": [inputs]})}
        make = frozen
    else:
        model = models.make(lambda: models.Gpt2Cached(**GPT))
        prompt = models.tokens(1, 128, vocabulary=GPT["vocabulary"])
        model(prompt, torch.arange(128))
        inputs, make = (prompt[:, -1:], torch.tensor([128])), compiled
        modes = {"ours": ("weight-int4", {}), "int8": ("weight-int8", {})}
    calls = {"float": make(model, inputs)}
    for who, (mode, more) in modes.items():
        calls[who] = make(hologram_torch.quantize(model, mode, **more), inputs)
    return model, inputs, calls


def cosine(x, y):
    return float(torch.nn.functional.cosine_similarity(x.flatten().double(), y.flatten().double(), 0))


def measure(name, options) -> bool:
    model, inputs, calls = build(name)
    with tempfile.TemporaryDirectory() as folder:
        for peer in filter(None, options.peers.split(",")):
            try:
                # A copy: exporters keep tensors of the weights, whose content we would compare in each call.
                calls[peer] = PEERS[peer](copy.deepcopy(model), inputs, folder, options.threads)
            except Exception as error:  # a peer that is not installed, or that does not take the model
                print(f"{name}: no {peer}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)
        want = calls["float"]()
        near = {who: cosine(call(), want) for who, call in calls.items()}
        turns = take_turns(calls, options.seconds)
    print(name)
    for who, fastest in turns.fastest().items():
        ratio = "" if who == "ours" else turns.ratio([who], "ours")
        print(f"  {who:10}{1e3 * fastest:9.3f} ms  cosine {near[who]:.4f}  {ratio}", flush=True)
    return near["ours"] > 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=1, help="per call")
    parser.add_argument("--only", default="", help="words of the cases' names, separated by commas")
    parser.add_argument("--peers", default="ort,openvino,torchao")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    right = True
    with torch.no_grad():
        for name in (*SIZES, "gpt decode"):
            if any(word in name for word in options.only.split(",")):
                right &= measure(name, options)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
