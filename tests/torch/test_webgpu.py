# tests/torch/test_webgpu.py: compiled graphs on WebGPU; skipped where wgpu-native finds no adapter
import json
import os
import subprocess
import sys

import hologram
import pytest

pytestmark = pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")

CODE = """
import json, torch, hologram_torch, warnings
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.table, self.norm = nn.Embedding(50, d), nn.LayerNorm(d)
        self.qkv, self.out, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, ids):
        x = self.norm(self.table(ids))
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.norm(x + self.down(nn.functional.gelu(self.up(x)))).mean(1)


model, ids = Block().eval(), torch.randint(0, 50, (2, 11))
with torch.no_grad():
    wanted, got = model(ids), torch.compile(model, backend="hologram", options={"device": "webgpu"})(ids)
    error = (got - wanted).abs().max().item()
    try:
        torch.compile(lambda x: x + 1, backend="hologram", options={"reproducible": True, "device": "webgpu"})(torch.ones(3))
        refused = ""
    except Exception as e:
        refused = str(e)
    far = torch.compile(lambda x, i: x[i] + 1, backend="hologram", options={"device": "webgpu"})
    try:
        far(torch.ones(3), torch.tensor([5]))
        raised = ""
    except IndexError as e:
        raised = str(e)
stats = hologram_torch.stats()
from hologram_torch import runtimes
print(json.dumps([error, runtimes.runtime("cpu", "webgpu").counts["dispatches"], refused, raised, stats.get("host_runs", 0)]))
"""


def test_an_encoder_runs_on_the_device():
    env = {**os.environ, "HOLOGRAM_STRICT": "1"}
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env)
    assert ran.returncode == 0, ran.stderr[-2000:]
    error, dispatches, refused, raised, host_runs = json.loads(ran.stdout.splitlines()[-1])
    assert error < 1e-5 and dispatches > 5 and host_runs == 0
    assert "reassociate sums" in refused
    assert "out of bounds" in raised
