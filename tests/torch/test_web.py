# tests/torch/test_web.py: archives in JavaScript: WebAssembly gives the bits that Python gives
import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import hologram
import numpy as np
import pytest
import torch
from hologram_torch import export
from torch.export import Dim

ROOT = Path(__file__).parents[2]
ISA = "wasm32-simd128"


def needs(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if not (ROOT / "js/hologram_rt.wasm").exists():
        pytest.skip("js/hologram_rt.wasm was not built (tools/build.sh wasm)")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = torch.nn.Linear(24, 40), torch.nn.LayerNorm(40), torch.nn.Linear(40, 5)

    def forward(self, x):
        y = self.norm(torch.nn.functional.gelu(self.first(x)))
        return torch.softmax(self.second(y), -1), (x.double() * 1.1).sin().sum(-1), y.argmax(-1)


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 6)

    def forward(self, ids):
        return self.table(ids).tanh(), ids * 3_000_000_000 // 7


class Narrow(torch.nn.Module):
    def forward(self, x, flags):
        y = torch.where(flags, x, -x).to(torch.bfloat16)
        return y.float().exp(), x.half().cumsum(0).float(), x.sort(-1).values, torch.fmod(x, 0.3), flags.sum()


class State(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.recurrent = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GRU(8, 6, batch_first=True)

    def forward(self, x):
        return self.recurrent(self.convolution(x).relu().mean(-1).transpose(1, 2))[0]


BATCH = Dim("batch", min=1, max=64)
MODELS = {
    "net": (Net, [torch.randn(3, 24)], ({0: BATCH},)),
    "embedding": (Embedding, [torch.tensor([[1, 2, 9], [0, 3, 3]])], ({0: BATCH},)),
    "narrow": (Narrow, [torch.randn(33, 7), torch.rand(33, 7) > 0.5], None),
    "state": (State, [torch.tensor([1.0, 2.5, -3.0])], None),
    "layers": (Layers, [torch.randn(2, 3, 5, 9)], None),
}


def encoded(array):
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def call(method, arrays):
    results = method.flat([a.copy() for a in arrays])
    return {
        "method": method.name,
        "inputs": {i["name"]: encoded(a) for i, a in zip(method.inputs, arrays)},
        "results": {r["name"]: encoded(np.asarray(a)) for r, a in zip(method.results, results)},
    }


def write_cases(folder, seed=0):
    """Archives and, by their graphs compiled for this machine, what calls give."""
    cases = []
    for name, (model, arguments, shapes) in MODELS.items():
        torch.manual_seed(seed)
        path = folder / f"{name}.holo"
        export(model().eval(), tuple(arguments), path, dynamic_shapes=shapes, isas=[ISA], reproducible=True)
        method = hologram.load(path, trust=False).session().methods["forward"]
        arrays = [a.numpy() for a in arguments]
        calls = [call(method, arrays)]
        if shapes:
            calls.append(call(method, [np.concatenate([a] * 3) for a in arrays]))
        cases.append({"file": path.name, "calls": calls})
    (folder / "cases.json").write_text(json.dumps(cases))


def test_node_gives_the_bits_of_this_machine(tmp_path):
    needs("node")
    write_cases(tmp_path)
    tests = sorted(str(p) for p in (ROOT / "js/tests").glob("*.test.mjs"))
    done = subprocess.run(
        ["node", "--test", "--test-reporter=spec", *tests],
        env=os.environ | {"HOLOGRAM_CASES": str(tmp_path)}, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_module_is_small():
    assert sum(p.stat().st_size for p in (ROOT / "js").glob("*.js")) <= 60 * 1024
