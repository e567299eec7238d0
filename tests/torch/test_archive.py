# tests/torch/test_archive.py: models exported to files that run without PyTorch
import collections
import json
from pathlib import Path

import hologram
import hologram.archive
import hologram_torch
import numpy as np
import pytest
import same_memory
import torch
from archived import LEVEL
from checks import python, refuses, same
from hologram import _core
from harness import compile_fresh, module, run_eager
from torch.export import Dim
from zoo import ZOO, normal


def arrays(tree):
    """The same tree with NumPy arrays for tensors; bfloat16 by its bits."""

    def array(t):
        t = t.detach()
        return t.view(torch.uint16).numpy() if t.dtype == torch.bfloat16 else t.numpy()

    return torch.utils._pytree.tree_map_only(torch.Tensor, array, tree)


def bits(array):
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array


def assert_same(actual, expected):
    flat, wanted = torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(arrays(expected))
    assert len(flat) == len(wanted)
    for a, e in zip(flat, wanted):
        np.testing.assert_array_equal(bits(a), e)
    assert same_memory.overlaps([bits(a) for a in flat]) == same_memory.overlaps(expected)


def assert_near(actual, expected, tolerance=2e-5):
    flat, wanted = torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(arrays(expected))
    same(flat, wanted, rtol=tolerance, atol=tolerance)
    assert same_memory.overlaps([bits(a) for a in flat]) == same_memory.overlaps(expected)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.holo"


# Run by a Python that refuses to import torch: python -c PROGRAM ARCHIVE INPUTS OUTPUTS
WITHOUT_TORCH = """
import sys
from pathlib import Path
sys.modules["torch"] = None
import hologram, numpy as np
model = hologram.load(sys.argv[1])
given = np.load(sys.argv[2])
results = model(*[given[name] for name in given.files])
assert "ml_dtypes" not in sys.modules  # nothing here is bfloat16, and importing it takes as long as a first call
results = results if isinstance(results, tuple) else (results,)
flat = []
def walk(x):
    [walk(y) for y in x] if isinstance(x, (tuple, list)) else flat.append(x)
walk(results)
np.savez(sys.argv[3], *flat)
"""


@pytest.mark.parametrize("name", ["mlp", "bert", "llama", "mobilenet"])
def test_same_bits_as_the_compiled_model(name, path, tmp_path):
    case = ZOO[name]()
    report = hologram_torch.export(case.module, case.inputs, path, isas=[LEVEL])
    assert report.bytes == path.stat().st_size and report.targets
    compiled = compile_fresh(case.module, dynamic=False)
    with torch.no_grad():
        expected = compiled(*case.inputs)
    result = hologram.load(path, trust=False)(*arrays(case.inputs))
    precompiled = hologram.load(path)
    for a, b in zip(*(torch.utils._pytree.tree_leaves(r) for r in (precompiled(*arrays(case.inputs)), result)), strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))
    assert precompiled.methods["forward"]._made.function().precompiled
    assert_same(result, expected)
    if name not in ("mlp", "bert"):
        return
    np.savez(tmp_path / "in.npz", *arrays(case.inputs))
    python("-c", WITHOUT_TORCH, path, tmp_path / "in.npz", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as results:
        assert_same([results[key] for key in results.files], expected)


@pytest.mark.parametrize("name", ["mlp", "bert", "llama", "resnet"])
def test_sizes_that_calls_choose(name, path):
    case = ZOO[name]()
    dims = {size: Dim(size, min=1, max=4096) for size in case.dynamic}
    shapes = [{} for _ in case.inputs]
    for size, places in case.dynamic.items():
        for index, dim in places:
            shapes[index][dim] = dims[size]
    try:
        hologram_torch.export(case.module, case.inputs, path, dynamic_shapes=tuple(shapes), isas=())
    except torch._dynamo.exc.UserError as error:  # the model itself asks for more of the size
        pytest.skip(str(error).splitlines()[0])
    model = hologram.load(path)
    for less in (0, 1, 2):
        inputs = case.resized({size: case.size(size) - less for size in case.dynamic})
        assert_near(model(*arrays(inputs)), run_eager(case.module, inputs), 1e-4)


Parts = collections.namedtuple("Parts", "first image number nothing")


@module(linear=lambda: torch.nn.Linear(4, 3))
def Pair(self, image, scale, *, extras=None, flag=True):
    y = self.linear(image) * scale
    if extras is not None:
        y = y + extras["shift"]
    return {"result": y, "parts": Parts(y[:, :1], image, 7, None), "transposed": y.mT}


def test_arguments_and_results_nest_as_the_model_has_them(path):
    model, image, scale = Pair().eval(), normal(5, 4), normal(5, 1)
    extras = {"shift": normal(3)}
    hologram_torch.export(model, (image, scale), path, kwargs={"extras": extras, "flag": False}, isas=())
    loaded = hologram.load(path)
    with torch.no_grad():
        expected = model(image, scale, extras=extras)
    for result in (
        loaded(image.numpy(), scale.numpy(), extras=arrays(extras)),
        loaded(image.numpy(), extras=arrays(extras), scale=scale.numpy(), flag=False),
    ):
        assert_near(result["result"], expected["result"])
        assert_near(result["transposed"], expected["transposed"])
        assert result["transposed"].flags.c_contiguous
        assert_same(result["parts"][1], image)
        assert result["parts"][2:] == (7, None)
    strided = np.ascontiguousarray(image.numpy().T).T
    assert_near(loaded(strided, scale.numpy(), extras=arrays(extras))["result"], expected["result"])


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: m(np.zeros((5, 3), np.float32)), ValueError, r"shape \[5, 3\], expected \[batch, 4\]"),
        (lambda m: m(np.zeros((65, 4), np.float32)), ValueError, "batch is 65 .* expected 2 to 64"),
        (lambda m: m(np.zeros((1, 4), np.float32)), ValueError, "batch is 1 .* expected 2 to 64"),
        (lambda m: m(np.zeros((5, 4))), ValueError, "x.* is float64, expected float32"),
        (lambda m: m(np.zeros(4, np.float32)), ValueError, r"shape \[4\], expected"),
        (lambda m: m(np.array(["a"])), ValueError, "dtype that Hologram lacks"),
        (lambda m: m(), TypeError, "needs the argument 'x'"),
        (lambda m: m(1, 2, 3, 4), TypeError, "takes 2 arguments"),
        (lambda m: m(np.zeros((5, 4), np.float32), y=1), TypeError, "has no argument 'y'"),
        (lambda m: m(np.zeros((5, 4), np.float32), x=1), TypeError, "two values for 'x'"),
        (lambda m: m(np.zeros((5, 4), np.float32), 3), ValueError, "n is 3; the archive was exported for 2"),
    ],
)
def test_wrong_arguments_are_named(call, error, words, path):
    class Model(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    shapes = {"x": {0: Dim("batch", min=2, max=64)}, "n": None}
    hologram_torch.export(Model(), (torch.randn(5, 4), 2), path, dynamic_shapes=shapes, isas=())
    refuses(error, words, lambda: call(hologram.load(path)))


def test_errors_of_values_name_the_operator_and_where_they_can_the_index(path):
    hologram_torch.export(torch.nn.Sequential(torch.nn.Embedding(10, 4)), (torch.arange(3),), path, isas=())
    with pytest.raises(ValueError, match="forward: embedding of 0: index 10 is out of range for axis 0 of 10 elements"):
        hologram.load(path)(np.array([0, 10, 1]))

    class Model(torch.nn.Module):
        def forward(self, x, i, n):
            return x[i + 1], i // n

    hologram_torch.export(Model(), (torch.arange(5.0), torch.arange(3), torch.ones(3, dtype=torch.int64)), path, isas=())
    loaded = hologram.load(path)
    with pytest.raises(ValueError, match="forward: index: an index was out of range"):
        loaded(np.arange(5, dtype=np.float32), np.array([0, 4, 1]), np.ones(3, np.int64))
    with pytest.raises(ZeroDivisionError, match="forward: floor_divide: an integer was divided by zero"):
        loaded(np.arange(5, dtype=np.float32), np.array([0, 3, 1]), np.array([1, 0, 1]))


# --- state
class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2

    def peek(self, x):
        return self.total + x


def test_sessions_have_state_of_their_own(path):
    x = torch.arange(4.0)
    methods = {"add": {"args": (x,)}, "peek": {"args": (x,), "function": "peek"}}
    assert hologram_torch.export(Counter(), path=path, methods=methods, isas=()).state == ("total",)
    loaded = hologram.load(path)
    refuses(ValueError, "session", lambda: loaded.methods["add"](x.numpy()))
    first, second = loaded.session(), loaded.session()
    for calls in (1, 2, 3):
        np.testing.assert_array_equal(first.methods["add"](x.numpy()), 2 * calls * x.numpy())
    np.testing.assert_array_equal(first.methods["peek"](x.numpy()), 4 * x.numpy())
    np.testing.assert_array_equal(second.methods["peek"](x.numpy()), x.numpy())
    first.reset()
    np.testing.assert_array_equal(first.methods["peek"](x.numpy()), x.numpy())
    np.testing.assert_array_equal(loaded.tensors["total"], np.zeros(4))


@pytest.mark.parametrize("alias", [lambda total: total, lambda total: total[:2]])
def test_what_is_written_under_two_names_is_refused(alias, path):
    model = Counter()
    model.register_buffer("part", alias(model.total))
    refuses(NotImplementedError, "total and part", lambda: hologram_torch.export(model, (torch.zeros(4),), path, isas=()))
    refuses(ValueError, "share memory", lambda: hologram_torch.freeze(model, (torch.zeros(4),)))


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(256, 512)

    def forward(self, x):
        return self.linear(x)

    def scaled(self, x):
        return torch.relu(self.linear(x)) * 2


def test_methods_keep_one_packed_weight_without_a_cache(path, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", "off")
    model, (x, y) = Twice().eval(), (torch.randn(64, 256), torch.randn(32, 256))
    hologram_torch.export(model, path=path, methods={"forward": {"args": (x,)}, "scaled": {"args": (y,), "function": "scaled"}}, isas=())
    runtime = _core.Runtime("cpu")
    loaded = hologram.archive.Archive(_core.Archive.open(str(path)), runtime)
    methods = [loaded.methods[name] for name in ("forward", "scaled")]
    assert all(method._made.function().cached_bytes == 0 for method in methods)  # both are there before either runs
    loaded(x.numpy())
    before = runtime.memory_stats()["in_use"]
    assert before >= 256 * 512 * 4
    assert_near(methods[1](y.numpy()), model.scaled(y).detach(), 1e-5)
    assert runtime.memory_stats()["in_use"] - before < 256 * 512 * 4
    assert methods[1]._made.function().cached_bytes >= 256 * 512 * 4
    loaded.replace("linear.weight", np.zeros((512, 256), np.float32))
    assert_near(methods[1](y.numpy()), torch.relu(model.linear.bias.detach()).expand(32, -1) * 2, 1e-5)
    assert_near(loaded(x.numpy()), model.linear.bias.detach().expand(64, -1), 1e-5)


class Halved(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) + torch.tensor([1.0, 2.0, 3.0])

    def halves(self, x, parts, *, scale=None):
        y = self.linear(x) + torch.tensor([10.0, 20.0, 30.0])  # another constant of the same name
        return y / parts["by"] if scale is None else y * scale


def test_every_method_has_sizes_that_calls_choose(path):
    model, x, by = Halved().eval(), normal(5, 4), normal(5, 1).abs() + 1
    rows = {0: Dim("rows", min=2, max=64)}
    methods = {
        "forward": {"args": (x,), "dynamic_shapes": (rows,)},
        "halves": {"args": (x, {"by": by}), "function": "halves", "dynamic_shapes": (rows, {"by": rows})},
        "scaled": {"args": (x, {"by": by.clone()}), "kwargs": {"scale": by}, "function": "halves",
                   "dynamic_shapes": {"x": rows, "parts": {"by": None}, "scale": rows}},
    }  # fmt: skip
    hologram_torch.export(model, path=path, methods=methods, isas=())
    loaded = hologram.load(path)
    assert {name: method.sizes for name, method in loaded.methods.items()} == dict.fromkeys(methods, {"rows": (2, 64)})
    assert [i["name"] for i in loaded.methods["halves"].inputs][0] == "x" and {"linear.weight", "linear.bias"} <= set(loaded.tensors)
    for n in (2, 9):
        x, by = normal(n, 4), normal(n, 1).abs() + 1
        with torch.no_grad():
            assert_near(loaded(x.numpy()), model(x))
            assert_near(loaded.methods["halves"](x.numpy(), {"by": by.numpy()}), model.halves(x, {"by": by}))
            fixed = {"by": np.ones((5, 1), np.float32)}
            assert_near(loaded.methods["scaled"](x.numpy(), parts=fixed, scale=by.numpy()), model.halves(x, None, scale=by))


# --- what cannot be exported
def test_operators_without_a_kernel_are_named(path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    path.write_bytes(b"what was there")
    refuses(NotImplementedError, "svd", lambda: hologram_torch.export(Model(), (torch.randn(3, 3),), path, isas=()))
    assert path.read_bytes() == b"what was there" and [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"model": 3}, TypeError, "torch.nn.Module"),
        ({"args": torch.zeros(3)}, TypeError, "tuple"),
        ({"args": ([object()],)}, TypeError, "plain values"),
        ({"path": None}, TypeError, "path"),
        ({"args": None}, TypeError, "either args or methods"),
        ({"fast": 3}, TypeError, "True or False"),
        ({"padding": {"z": 0}}, ValueError, "padding names 'z'; the inputs are input"),
        ({"padding": {"input": float("nan")}}, TypeError, "padding of input: expected a finite number, got nan"),
        ({"path": "/nowhere/at/all.holo"}, FileNotFoundError, "no such folder: '/nowhere/at'"),
        ({"path": "/"}, IsADirectoryError, "must name a file"),
    ],
)
def test_wrong_exports_are_refused(arguments, error, words, path):
    given = {"model": torch.nn.Linear(3, 2), "args": (torch.zeros(2, 3),), "path": path, **arguments}
    refuses(error, words, lambda: hologram_torch.export(given.pop("model"), given.pop("args"), given.pop("path"), **given))


def test_servers_pad_as_the_export_says(path):
    from hologram.serving.batching import Served

    @module(table=lambda: torch.nn.Embedding(50, 8))
    def Sentences(self, ids, mask):
        states = torch.softmax(self.table(ids), -1)
        return states, (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)

    rows, length = Dim("rows", min=1, max=16), Dim("length", min=2, max=64)
    example = (torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5))
    shapes = ({0: rows, 1: length}, {0: rows, 1: length})
    hologram_torch.export(Sentences(), example, path, dynamic_shapes=shapes, padding={"ids": 0, "mask": 0.0}, isas=())
    method = hologram.load(path).methods["forward"]
    served, rng = Served(method, 16), np.random.default_rng(1)
    assert method.padding == {"ids": 0, "mask": 0} and served.axis == "rows" and served.padded == {"length"}
    given = [[rng.integers(1, 50, (n, size)), np.ones((n, size), np.float32)] for n, size in ((1, 5), (2, 7), (1, 4))]
    assert len({served.kind(arrays) for arrays in given}) == 1
    served._calls[True] = 100  # checked no more: these are the joined call's answers
    for arrays, answer in zip(given, served.run(given), strict=True):
        same(answer, method.flat(arrays), rtol=1e-5, atol=1e-6)


def test_tied_weights_are_stored_once(path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    model[1].weight = model[0].weight
    assert hologram_torch.export(model, (torch.zeros(2, 64),), path, isas=()).bytes < 1.5 * 64 * 64 * 4


@pytest.mark.parametrize("trust", [False, True])
def test_replaced_weights_are_what_calls_read(path, trust):
    def net():
        return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()

    first, second, x = net(), net(), normal(3, 128)
    hologram_torch.export(first, (x,), path, isas=[LEVEL])
    model, other = hologram.load(path, trust=trust), hologram.load(path, trust=trust)
    before = model(x.numpy())
    weights = {name: t.numpy() for name, t in second.state_dict().items()}
    mixed = torch.nn.Sequential(second[0], first[1], first[2])
    for expected, names in ((mixed, ("0.weight", "0.bias")), (second, ("2.weight", "2.bias"))):
        for name in names:
            model.replace(name, weights[name])
            np.testing.assert_array_equal(model.tensors[name], weights[name])
        assert_same(model(x.numpy()), compile_and_call(expected, x))
        assert_same(model.session()(x.numpy()), compile_and_call(expected, x))
    np.testing.assert_array_equal(other(x.numpy()), before)
    for name, t in first.state_dict().items():
        model.replace(name, t.numpy())
    np.testing.assert_array_equal(model(x.numpy()), before)


# Run by a Python without ml_dtypes: python -c PROGRAM ARCHIVE INPUT
WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import hologram, numpy as np
x = np.load(sys.argv[2])
values = hologram.load(sys.argv[1])(x)
assert values.dtype == np.float32, values.dtype
bits = hologram.load(sys.argv[1], bfloat16="uint16")(x)
assert bits.dtype == np.uint16 and ((bits.astype(np.uint32) << 16).view(np.float32) == values).all()
total = hologram.load(sys.argv[1]).methods["total"](x)
assert total.shape == () and total.dtype == np.float32
try:
    hologram.load(sys.argv[1], bfloat16="ml_dtypes")
    raise SystemExit("no error")
except ImportError as error:
    assert "ml_dtypes" in str(error)
np.save(sys.argv[3], bits)
"""


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8).bfloat16()

    def forward(self, x):
        return self.linear(x)

    def total(self, x):
        return self.linear(x).sum()


def test_bfloat16_with_numpy_alone(path, tmp_path):
    model, x = Halves().eval(), normal(3, 16).bfloat16()
    methods = {"forward": {"args": (x,)}, "total": {"args": (x,), "function": "total"}}
    hologram_torch.export(model, path=path, methods=methods, isas=())
    np.save(tmp_path / "in.npy", arrays(x))
    python("-c", WITHOUT_ML_DTYPES, path, tmp_path / "in.npy", tmp_path / "bits.npy")
    assert_same(np.load(tmp_path / "bits.npy"), compile_and_call(model, x))
    refuses(ValueError, '"ml_dtypes", "float32" or "uint16", not \'float16\'', lambda: hologram.load(path, bfloat16="float16"))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert hologram.load(path)(arrays(x)).dtype == ml_dtypes.bfloat16
    np.save(tmp_path / "in.npy", arrays(x).view(ml_dtypes.bfloat16))  # NumPy writes it as two bytes without a meaning
    python("-m", "hologram", "run", path, tmp_path / "in.npy", "-o", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), hologram.load(path, bfloat16="float32")(arrays(x)))


def compile_and_call(model, x):
    with torch.no_grad():
        return compile_fresh(model, dynamic=False)(x)


def test_wrong_replacements_are_refused(path):
    hologram_torch.export(torch.nn.Linear(3, 2), (torch.zeros(2, 3),), path, isas=())
    model = hologram.load(path)
    before = model(np.ones((2, 3), np.float32))
    refuses(KeyError, "nothing", lambda: model.replace("nothing", np.zeros((2, 3), np.float32)))
    refuses(ValueError, r'"weight" is f32\[2, 3\], got f32\[3, 2\]', lambda: model.replace("weight", np.zeros((3, 2), np.float32)))
    refuses(ValueError, r"got f64\[2, 3\]", lambda: model.replace("weight", np.zeros((2, 3))))
    np.testing.assert_array_equal(model(np.ones((2, 3), np.float32)), before)
    model.replace("weight", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    model.replace("bias", np.zeros(2, np.float32))
    np.testing.assert_array_equal(model(np.ones((1, 3), np.float32).repeat(2, 0)), [[3, 12]] * 2)


def test_info_is_plain_data(path):
    hologram_torch.export(torch.nn.Linear(3, 2), (torch.zeros(2, 3),), path, isas=())
    info = hologram.load(path).info()
    assert json.loads(json.dumps(info))["methods"]["forward"]["results"][0]["dtype"] == "float32"
    assert info["tensor_bytes"] == 4 * (3 * 2 + 2)


def test_the_example_for_c_is_what_the_python_example_writes(tmp_path):
    root = Path(__file__).resolve().parents[2] / "examples"
    python(root / "python" / "export_model.py", cwd=tmp_path)
    written, kept = hologram.load(tmp_path / "model.holo"), hologram.load(root / "model.holo")
    assert written.methods["forward"].inputs == kept.methods["forward"].inputs
    assert written._native.graph("forward") == kept._native.graph("forward")
    assert {n: t.tolist() for n, t in written.tensors.items()} == {n: t.tolist() for n, t in kept.tensors.items()}
