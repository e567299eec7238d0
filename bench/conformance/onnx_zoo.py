#!/usr/bin/env python3
# bench/conformance/onnx_zoo.py: the models of zoo.py by PyTorch's ONNX exporter, beside ONNX Runtime
"""    python bench/conformance/onnx_zoo.py [NAME...]

Each model is exported with the sizes that may vary left open, and called in two of them, by hologram.from_onnx and by ONNX Runtime;
values are compared with eager PyTorch's. Shown are the largest differences, the graphs that were compiled and the steps between them.
Needs the packages onnxscript and onnxruntime.
"""

import argparse
import io
import sys
from pathlib import Path

import hologram
import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import zoo  # noqa: E402

TOLERANCE = 2e-5  # of the largest value


def exported(case):
    """The model's bytes, with the varying sizes open."""
    shapes = [{} for _ in case.inputs]
    for name, places in case.dynamic.items():
        for index, dim in places:
            shapes[index][dim] = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(case.module, case.inputs, dynamo=True, verbose=False, dynamic_shapes=tuple(shapes))
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, (tuple, list)) else [value.detach().numpy()]


def difference(want, got):
    """The largest, in parts of the largest value; infinite for other shapes."""
    pairs = list(zip(want, got, strict=True))
    if any(w.shape != g.shape for w, g in pairs):
        return float("inf")
    return max(float(np.abs(w.astype(np.float64) - g).max() / max(np.abs(w).max(), 1e-30)) for w, g in pairs)


def run(name):
    """(difference to eager, ONNX Runtime's, graphs, steps)"""
    import onnxruntime

    case = zoo.ZOO[name]()
    data = exported(case)
    model = hologram.from_onnx(data)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [v.name for v in session.get_inputs()]
    off, theirs = 0.0, 0.0
    for inputs in (case.inputs, case.resized({size: max(case.size(size) - 1, 1) for size in case.dynamic})):
        want = leaves(case.module(*inputs))
        arrays = [x.numpy() for x in inputs]
        off = max(off, difference(want, model.flat(arrays)))
        theirs = max(theirs, difference(want, session.run(None, dict(zip(names, arrays)))))
    return off, theirs, len(model.reports()), {**model.stats()["steps"], **model.stats()["fallback_ops"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *zoo.ZOO])
    bad = 0
    for name in parser.parse_args().names or zoo.ZOO:
        try:
            off, theirs, graphs, steps = run(name)
        except Exception as error:  # the next model may be right
            print(f"{name:<14} {type(error).__name__}: {str(error)[:200]}")
            bad += 1
            continue
        bad += off > TOLERANCE
        print(f"{name:<14} {off:.1e}, ONNX Runtime {theirs:.1e}; {graphs} graphs {steps or ''}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
