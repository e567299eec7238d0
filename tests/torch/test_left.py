# tests/torch/test_left.py: archives whose operators without a kernel stay with PyTorch
import json
import os

import forks
import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from checks import python, refuses, same
from harness import compile_fresh, module
from torch.export import Dim


@module(linear=lambda: torch.nn.Linear(6, 6))
def Inverse(self, x):
    """Native, PyTorch's, native, and a result that is PyTorch's as it comes."""
    h = torch.tanh(self.linear(x))
    square = h.transpose(1, 2) @ h + torch.eye(6)
    return torch.relu(torch.linalg.inv(square)) * 2, torch.linalg.cholesky(square)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    path, model = tmp_path_factory.mktemp("left") / "model.holo", Inverse().eval()
    batch = {0: Dim("batch", min=2, max=64)}
    return path, model, hologram_torch.export(model, (normal(3, 8, 6),), path, dynamic_shapes=(batch,), allow_torch=True)


def test_gives_the_bits_of_torch_compile(exported):
    path, model, report = exported
    assert report.left == ("aten::linalg_cholesky_ex", "aten::linalg_inv_ex") and report.targets == ()
    archive = hologram.load(path)  # export put it on this user's list
    compiled = compile_fresh(model, dynamic=True)
    for batch in (3, 5, 17):
        x = normal(batch, 8, 6, seed=batch)
        with torch.no_grad():
            expected = compiled(x)
        results = archive(x.numpy())
        for got, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(got, wanted.numpy())
    first = [r.copy() for r in results]
    archive(normal(4, 8, 6, seed=9).numpy())
    same(first, results, err_msg="a later call wrote into results of an earlier one")


@torch.library.custom_op("left_test::keep", mutates_args=())
def keep(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero().flatten()


@keep.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


@module(linear=lambda: torch.nn.Linear(3, 3))
def Sized(self, x, same):
    """Sizes that values determine, weights, a body, and results of every kind."""
    kept = torch.ops.left_test.keep(x[:, 0] > 0)
    rows = self.linear(x)[kept] * torch.tensor([1.0, 2.0, 3.0])
    branch = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))
    return {"rows": rows, "count": rows.shape[0], "nested": (kept, rows.bfloat16(), branch, same, branch.T, self.linear.weight)}


def test_a_method_whose_sizes_are_data_runs_step_by_step(tmp_path):
    model, path, same = Sized().eval(), tmp_path / "model.holo", torch.ones(2)
    example, batch = (normal(5, 3), same), {0: Dim("batch", min=2, max=64)}
    with pytest.raises(NotImplementedError, match=r"left_test\.keep\.default \(.*test_left\.py.*size u0, which val.*allow_torch=True"):
        hologram_torch.export(model, example, path, dynamic_shapes=(batch, None))
    report = hologram_torch.export(model, example, path, dynamic_shapes=(batch, None), allow_torch=True)
    assert {"left_test::keep", "aten::addmm", "higher_order::cond"} <= set(report.left)
    archive = hologram.load(path, bfloat16="float32")
    assert [r["shape"] for r in archive.methods["forward"].results][:3] == [("u0", 3), (), ("u0",)]
    for x in (normal(4, 3, seed=1), normal(7, 3, seed=2), -normal(3, 3).abs(), normal(2, 3).abs()):
        with torch.no_grad():
            expected = model(x, same)
        found = archive(x.numpy(), same.numpy())
        assert found["count"] == expected["count"] and found["rows"].shape == expected["rows"].shape
        for got, wanted in zip((found["rows"], *found["nested"]), (expected["rows"], *expected["nested"]), strict=True):
            np.testing.assert_array_equal(got, wanted.detach().float().numpy())
    assert not any(np.shares_memory(a, b) for i, a in enumerate(found["nested"]) for b in found["nested"][:i])
    refuses(ValueError, r'input "x": size batch is 1', lambda: archive(normal(1, 3).numpy(), same.numpy()))
    archive.replace("linear.bias", np.zeros(3, np.float32))
    archive.replace("linear.weight", np.zeros((3, 3), np.float32))
    assert not archive(x.numpy(), same.numpy())["rows"].any()
    with pytest.raises(hologram.HologramError, match="calls operators of PyTorch .*left_test::keep"):
        hologram.load(path, trust=False)(x.numpy(), same.numpy())


def test_state_is_not_written_step_by_step(tmp_path):
    @module(total=lambda: torch.zeros(()))
    def Counting(self, x):
        self.total.add_(1)
        return x[x > 0]

    with pytest.raises(NotImplementedError, match="size u0.*do not write total"):
        hologram_torch.export(Counting(), (normal(5),), tmp_path / "model.holo", allow_torch=True)


def test_runs_where_it_is_trusted(exported):
    path, _, report = exported
    x = normal(3, 8, 6).numpy()
    with pytest.raises(hologram.HologramError, match=r"calls operators of PyTorch \(aten::linalg_.*trusted archives only"):
        hologram.load(path, trust=False)(x)
    assert hologram.load(path, fingerprint=report.fingerprint)(x)[0].shape == (3, 6, 6)
    refuses(NotImplementedError, "backend null runs none of the operators", lambda: hologram.load(path, backend="null", trust=True)(x))


def test_says_what_is_missing(exported):
    path, _, report = exported
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import hologram, numpy as np\n"
        "try: hologram.load(sys.argv[1], trust=True)(np.zeros((3, 8, 6), np.float32))\n"
        "except NotImplementedError as error: print(error)\n"
    )
    assert "calls operators of PyTorch (aten::linalg_cholesky_ex" in python("-c", program, path)
    info = json.loads(python("-m", "hologram", "archive", "info", path, "--json"))
    assert info["methods"]["forward"]["left"] == list(report.left)


def test_errors_of_operators_are_theirs(tmp_path):
    class Factor(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.cholesky(x) + 1

    path = tmp_path / "factor.holo"
    hologram_torch.export(Factor(), (torch.eye(3),), path, allow_torch=True)
    archive = hologram.load(path)
    np.testing.assert_array_equal(archive(4 * np.eye(3, dtype=np.float32)), 2 * np.eye(3, dtype=np.float32) + 1)
    refuses(RuntimeError, "positive-definite", lambda: archive(-np.eye(3, dtype=np.float32)))
    np.testing.assert_array_equal(archive(np.eye(3, dtype=np.float32)), np.eye(3, dtype=np.float32) + 1)


# A package's own operator: the archive names it, and whoever loads it imports the package first.
REGISTERS = """
import torch

@torch.library.custom_op("left_test::stretch", mutates_args=())
def stretch(x: torch.Tensor, factors: list[float], dtype: torch.dtype) -> torch.Tensor:
    return torch.cat([x * f for f in factors]).to(dtype)

@stretch.register_fake
def _(x, factors, dtype):
    return x.new_empty(x.shape[0] * len(factors), *x.shape[1:], dtype=dtype)
"""


def test_operators_of_packages(tmp_path):
    (tmp_path / "registers.py").write_text(REGISTERS)
    exporting = REGISTERS + (
        "import sys, hologram_torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return torch.ops.left_test.stretch(x.T, [1.0, float('inf')], torch.bfloat16).float() + 1\n"
        "print(hologram_torch.export(M(), (torch.ones(2, 3),), sys.argv[1], allow_torch=True).left)\n"
    )
    loading = (
        "import sys, numpy as np, hologram\n{}\n"
        "try: print(hologram.load(sys.argv[1], trust=True)(np.array([[1, 2, 3], [4, 5, 6]], np.float32)).tolist())\n"
        "except NotImplementedError as error: print(error)\n"
    )

    def run(program):
        environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
        done = forks.run(program, tmp_path / "m.holo", env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(exporting) == "('left_test::stretch',)\n"
    assert run(loading.format("import registers")) == f"{[[2.0, 5.0], [3.0, 6.0], [4.0, 7.0], *[[float('inf')] * 2] * 3]}\n"
    assert "no operator left_test::stretch.default; import what registers it" in run(loading.format(""))
