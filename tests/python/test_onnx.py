# tests/python/test_onnx.py: ONNX models as functions of NumPy arrays
import contextlib
import gc
import itertools
import os
import subprocess
import sys
import threading
import time

import hologram
import numpy as np
import pytest
from checks import refuses, same

pytest.importorskip("onnx")
import onnx.reference  # noqa: E402
import onnx_nodes  # noqa: E402
from hologram.onnx import attributes, parts, table, tensors, wire  # noqa: E402
from onnx import TensorProto, defs, helper, numpy_helper  # noqa: E402
from onnx_models import model  # noqa: E402

RNG = np.random.default_rng(7)


def perceptron():
    w, v = (RNG.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    nodes = [helper.make_node(*node) for node in (("MatMul", ["x", "w"], ["h"]), ("Relu", ["h"], ["a"]), ("MatMul", ["a", "v"], ["y"]))]
    return model(nodes, {"x": ("float32", ["batch", 8])}, ["y"], {"w": w, "v": v}), lambda x: np.maximum(x @ w, 0) @ v


def test_sizes_that_the_model_names_change_without_compiling():
    proto, want = perceptron()
    function = hologram.from_onnx(proto.SerializeToString())
    for n in (5, 3, 64, 2):
        x = RNG.standard_normal((n, 8)).astype(np.float32)
        np.testing.assert_allclose(function(x), want(x), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(function(x=x), function(x))
    assert len(function.reports()) == 1
    assert function.stats() == {"fallback_ops": {}, "steps": {}}
    assert "x: float32[batch, 8]" in repr(function)


def test_shapes_are_computed_with_open_sizes():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["m"]), helper.make_node("Concat", ["m", "minus"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]), helper.make_node("Size", ["x"], ["c"]), helper.make_node("Sign", ["x"], ["d"]),
    ]  # fmt: skip
    constants = {"zero": np.array([0]), "two": np.array([2]), "minus": np.array([-1])}
    function = hologram.from_onnx(model(nodes[::-1], {"x": ("float32", ["n", 6])}, ["y", "s", "c", "d"], constants))
    for n in (4, 7):
        x = RNG.standard_normal((n, 6)).astype(np.float32)
        x[1, 2] = np.nan
        for got, want in zip(function(x), (x.reshape(2 * n, 3), np.array(x.shape), np.array(x.size), np.sign(x)), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert len(function.reports()) == 1 and not function.stats()["steps"]


def test_sizes_of_images_are_open():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("AffineGrid", ["theta", "s"], ["grid"]),
        helper.make_node("AffineGrid", ["theta", "s"], ["corners"], align_corners=1), helper.make_node("Shape", ["x"], ["t"], start=2),
        helper.make_node("Col2Im", ["columns", "t", "block"], ["image"], pads=[1, 0, 1, 1], dilations=[2, 1]),
    ]  # fmt: skip
    inputs = {"x": ["n", 1, "h", "w"], "theta": ["n", 2, 3], "columns": ["n", 12, "l"]}
    proto = model(nodes, {k: ("float32", v) for k, v in inputs.items()}, ["grid", "corners", "image"], {"block": np.array([2, 3])})
    function = hologram.from_onnx(proto)
    for n, h, w in ((2, 5, 6), (3, 7, 4)):
        given = {"x": (n, 1, h, w), "theta": (n, 2, 3), "columns": (n, 12, h * (w - 1))}
        given = {k: RNG.standard_normal(shape).astype(np.float32) for k, shape in given.items()}
        same(function(**given), onnx.reference.ReferenceEvaluator(proto).run(None, given), rtol=1e-5, atol=1e-5)
    assert len(function.reports()) == 1 and not function.stats()["steps"]


@pytest.mark.parametrize("n, scale, way, rounded, places", [
    (7, 2.3, "half_pixel", "round_prefer_floor", [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6]), (2, 1.1, "half_pixel", "floor", [0, 1]),
    (10, 2.3, "half_pixel", "ceil", [0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9, 9, 9]),
    (3, 4 / 3, "asymmetric", "round_prefer_ceil", [0, 1, 2, 2]), (7, 0.6, "half_pixel_symmetric", "round_prefer_floor", [0, 2, 4, 5]),
])  # fmt: skip
def test_nearest_pixels_are_those_of_onnx_runtime(n, scale, way, rounded, places):
    node = helper.make_node("Resize", ["x", "", "scale"], ["y"], coordinate_transformation_mode=way, nearest_mode=rounded)
    function = hologram.from_onnx(model([node], {"x": ("float32", [n])}, ["y"], {"scale": np.array([scale], np.float32)}))
    assert function(np.arange(n, dtype=np.float32)).tolist() == places


def test_branches_and_loops_that_values_decide():
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [helper.make_empty_tensor_value_info("e")])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]  # fmt: skip
    function = hologram.from_onnx(model(nodes[::-1], {"x": ("float32", [3])}, ["y"], {"zero": np.float32(0)}))
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(function(x), np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(function(-x), x)
    assert function.stats() == {"fallback_ops": {}, "steps": {"onnx.If": 2}}


def test_recurrent_layers_of_open_length_repeat_the_graph_of_a_step():
    def layers(length):
        own = np.random.default_rng(0)
        weights = {f"{n}{i}": own.standard_normal(s).astype(np.float32) for i in (0, 1) for n, s in (("w", (1, 32, 8)), ("r", (1, 32, 8)))}
        nodes = [
            helper.make_node("LSTM", ["x", "w0", "r0"], ["a", "", "c"], hidden_size=8),
            helper.make_node("Squeeze", ["a", "one"], ["b"]),
            helper.make_node("LSTM", ["b", "w1", "r1", "", "", "", "c"], ["d", "h"], hidden_size=8, direction="reverse"),
        ]
        constants = {**weights, "one": np.array([1])}
        return hologram.from_onnx(model(nodes, {"x": ("float32", [length, 3, 8])}, ["d", "h"], constants))

    open_length = layers("length")
    for n in (6, 9):
        x = RNG.standard_normal((n, 3, 8)).astype(np.float32)
        for got, want in zip(open_length(x), layers(n)(x), strict=True):  # whose steps are part of the graph
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert open_length.stats()["steps"] == {"onnx.LSTM": 4}


def test_random_numbers_go_on_from_call_to_call():
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], seed=3.0, mean=2.0, scale=0.5),
        helper.make_node("RandomUniform", [], ["u"], seed=4.0, shape=[1000], low=-1.0, high=3.0),
        helper.make_node("Multinomial", ["logits"], ["m"], sample_size=2000, seed=5.0),
        helper.make_node("Dropout", ["x", "ratio", "yes"], ["d", "mask"], seed=6), helper.make_node("Bernoulli", ["half"], ["b"]),
    ]  # fmt: skip
    constants = {"ratio": np.float32(0.25), "yes": np.array(True), "logits": np.log(np.array([[0.1, 0.2, 0.7]], np.float32))}
    proto = model(nodes, {"x": ("float32", ["n", 50]), "half": ("float32", [400])}, ["n", "u", "m", "d", "mask", "b"], constants)
    x, half = np.full((40, 50), 3, np.float32), np.full(400, 0.5, np.float32)
    first, again = hologram.from_onnx(proto), hologram.from_onnx(proto)
    one, two = first(x, half), first(x, half)
    for a, b in zip(one[:5], again(x, half)[:5], strict=True):  # the same seeds
        np.testing.assert_array_equal(a, b)
    assert all(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    for normal, uniform, drawn, dropped, mask, coin in (one, two):
        assert normal.shape == x.shape and abs(normal.mean() - 2) < 0.05 and abs(normal.std() - 0.5) < 0.05
        assert -1 <= uniform.min() < -0.9 and 2.9 < uniform.max() < 3
        np.testing.assert_allclose(np.bincount(drawn[0], minlength=3) / 2000, [0.1, 0.2, 0.7], atol=0.05)
        np.testing.assert_allclose(dropped, np.where(mask, x / 0.75, 0), rtol=1e-6)
        assert abs(mask.mean() - 0.75) < 0.05 and set(np.unique(coin)) == {0, 1}


def test_attention_is_one_operation():
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["products"]),
        helper.make_node("Div", ["products", "root"], ["scaled"]), helper.make_node("Add", ["scaled", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"]), helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]  # fmt: skip
    shape = ["n", 2, "length", 16]
    inputs = {"q": ("float32", shape), "k": ("float32", shape), "v": ("float32", shape), "bias": ("float32", ["n", 1, 1, "length"])}
    function = hologram.from_onnx(model(nodes, inputs, ["y"], {"root": np.float32(4)}))
    for n, length in ((3, 9), (2, 40)):
        q, k, v = (RNG.standard_normal((n, 2, length, 16)).astype(np.float32) for _ in range(3))
        bias = np.where(np.arange(length) < length - n, 0, -1e4).astype(np.float32).reshape(1, 1, 1, -1).repeat(n, 0)
        shares = np.exp(q @ k.transpose(0, 1, 3, 2) / 4 + bias)
        np.testing.assert_allclose(function(q, k, v, bias), shares / shares.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)
    assert any("attention" in text for text in function._function.dump("atlas"))


def test_wrong_calls_name_the_input():
    function = hologram.from_onnx(perceptron()[0])
    x = np.zeros((3, 8), np.float32)
    for call, error, words in (
        (lambda: function(x[:, :7]), ValueError, r"input 'x': expected the shape of x: float32\[batch, 8\].*got \[3, 7\]"),
        (lambda: function(x.astype(np.float64)), TypeError, "input 'x': expected float32, got float64"),
        (lambda: function(), TypeError, "needs the inputs 'x'"),
        (lambda: function(y=x), TypeError, "no input 'y'; its inputs are x"),
        (lambda: function(x, x), TypeError, r"takes 1 inputs \(x\), got 2"),
    ):
        refuses(error, words, call)


def test_what_is_not_supported_is_named_with_its_node():
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("ImageDecoder", ["r"], ["y"], name="strings")]
    with pytest.raises(NotImplementedError, match=r"node 1 'strings' \(ImageDecoder, opset 20 of ai.onnx\)"):
        hologram.from_onnx(model(nodes, {"x": ("float32", [3])}, ["y"]))
    trace = 'File "/home/me/net.py", line 12, in forward\n  x = f(x)\n  File "/x/site-packages/torch/nn/a.py", line 3, in f'
    nodes[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    with pytest.raises(NotImplementedError, match=r"\(ImageDecoder, opset 20 of ai.onnx\) at /home/me/net.py:12: "):
        hologram.from_onnx(model(nodes, {"x": ("float32", [3])}, ["y"]))
    with pytest.raises(NotImplementedError, match=r"node 0 \(Add, opset 6 of ai.onnx\): .*before opset 7"):
        hologram.from_onnx(model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": ("float32", [3])}, ["y"], opset=6))
    nothing = model([helper.make_node("Relu", [x], [y]) for x, y in ("zy", "yz")], {"x": ("float32", [3])}, ["y"])  # a circle
    for given, words in ((b"something else", "no ONNX model"), (b"\0\0", "field without a number"), (nothing, "model reads 'z', which no")):
        refuses(ValueError, words, lambda: hologram.from_onnx(given))


@pytest.mark.parametrize("op, opset, given, words", [
    ("Softmax", 20, {"axes": 1}, r"node 0 'n' \(Softmax, opset 20 of ai.onnx\): it has no attribute 'axes', but axis"),
    ("Clip", 13, {"min": 0.0}, "no attribute 'min', but none"), ("Clip", 7, {"min": 0.0}, None), ("Relu", 20, {"__of_a_tool": 1}, None),
    ("HannWindow", 20, {"period": 1}, "no attribute .period."), ("Transpose", 20, {"perm": 1}, "'perm': .* of kind INTS"),
    ("Concat", 20, {}, "attribute 'axis' is missing"), ("f", 20, {"k": 1.0}, None), ("f", 20, {"kk": 1.0}, "no attribute 'kk', but k"),
])  # fmt: skip
def test_attributes_that_an_operator_does_not_have_are_errors(op, opset, given, words):
    proto = model([helper.make_node(op, ["x"], ["y"], "n", "", "d" * (op == "f"), **given)], {"x": ("float32", [3])}, ["y"], opset=opset)
    inner = helper.make_node("Elu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
    proto.functions.append(helper.make_function("d", "f", ["a"], ["b"], [inner], proto.opset_import, ["k"]))
    proto.opset_import.add(domain="d", version=1)
    with pytest.raises(ValueError, match=words) if words else contextlib.nullcontext():
        hologram.from_onnx(proto)


def test_attributes_are_those_of_the_standard():
    assert table.find("", "none", 20) is None  # now all rows are there
    for (domain, op), version in itertools.product(table.ROWS, range(7, 29)):
        if domain == "" and table.find("", op, version) and defs.has(op, version) and (op != "Constant" or version > 10):
            known = defs.get_schema(op, version).attributes
            assert attributes.names("", op, version) == {name: a.required for name, a in known.items()}, (op, version)
            assert all(attributes._KIND.get(name, a.type.name) == a.type.name for name, a in known.items()), op


def external(folder, location, **more):
    proto, _ = perceptron()
    weight = proto.graph.initializer[0]
    (folder / "w.bin").write_bytes(b"\0" * 64 + weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 64, **more}.items():
        weight.external_data.add(key=key, value=str(value))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_external_data_is_mapped(tmp_path):
    function = hologram.from_onnx(external(tmp_path, "w.bin"))
    weight = function.graph.constants["w"]
    assert isinstance(weight.base, np.memmap) and not weight.flags.writeable
    x = RNG.standard_normal((2, 8)).astype(np.float32)
    np.testing.assert_allclose(function(x), np.maximum(x @ weight, 0) @ function.graph.constants["v"], rtol=1e-5, atol=1e-5)
    refuses(ValueError, "pass the model's path", lambda: hologram.from_onnx((tmp_path / "m.onnx").read_bytes()))


@pytest.mark.parametrize(
    "location, more, error, words",
    [
        *((name, {}, ValueError, "not below the model's folder") for name in ("../w.bin", "/etc/passwd", "")),
        *((name, {}, ValueError, "which is a link") for name in ("link.bin", "inside/w.bin")),
        ("none.bin", {}, FileNotFoundError, "'none.bin' is missing"),
        ("w.bin", {"length": 8}, ValueError, "8 bytes of external data, expected 512"),
        ("w.bin", {"offset": 10_000}, ValueError, "ends beyond 'w.bin'"),
        (".", {}, ValueError, "which is no file"),
    ],
)
def test_external_data_stays_in_the_models_folder(tmp_path, location, more, error, words):
    home = tmp_path / "model"
    home.mkdir()
    path = external(home, location, **more)
    (home / "link.bin").symlink_to(home / "w.bin")
    (home / "inside").symlink_to(tmp_path)
    refuses(error, words, lambda: hologram.from_onnx(path))


def test_the_package_onnx_is_imported_only_for_what_the_standard_says_by_functions():
    code = """if 1:
        import sys, numpy as np
        sys.modules["torch"] = sys.modules["onnx"] = None
        import hologram
        function = hologram.from_onnx(sys.stdin.buffer.read())
        assert function(np.ones((2, 8), np.float32)).shape == (2, 4)
        assert not [name for name in sys.modules if name.startswith("hologram_torch")]
        names = "backend", "_creation", "_functions", "_selection", "_straight", "onnx.quantized", "onnx.recurrent"
        assert not {"json", *(f"hologram.{name}" for name in names)} & sys.modules.keys()
    """
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Neg", ["r"], ["n"]), helper.make_node("Greater", ["r", "n"], ["c"]),
        helper.make_node("Where", ["c", "r", "n"], ["w"]), helper.make_node("Gather", ["w", "rows"], ["y"]),
    ]  # fmt: skip
    moves = model(nodes, {"x": ("float32", [2, 8])}, ["y"], {"shape": np.array([4, -1]), "rows": np.array([1, 0])})
    for proto in (perceptron()[0], moves):
        done = subprocess.run([sys.executable, "-c", code], input=proto.SerializeToString(), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    proto = model([helper.make_node("HannWindow", ["n"], ["y"])], {"n": ("int64", [])}, ["y"])
    code = "import sys; sys.modules['onnx'] = None; import hologram; hologram.from_onnx(sys.stdin.buffer.read())"
    done = subprocess.run([sys.executable, "-c", code], input=proto.SerializeToString(), capture_output=True)
    message = b"needs the package onnx for node 0 (HannWindow, opset 20 of ai.onnx): pip install 'hologram-compute[onnx]'"
    assert message in done.stderr


def test_what_is_read_and_traced_is_not_collected():
    names = ["x", *(f"v{i}" for i in range(300)), "y"]
    data = model([helper.make_node("Neg", [a], [b]) for a, b in zip(names, names[1:])], {"x": ("float32", [2])}, ["y"])
    data, passes = data.SerializeToString(), []
    hologram.from_onnx(data)(np.ones(2, np.float32))  # imports
    gc.collect()
    gc.callbacks.append(lambda phase, info: passes.append(info["generation"]))
    try:
        hologram.from_onnx(data)(np.ones(2, np.float32))
        assert not passes and gc.isenabled() and not gc.get_freeze_count()
    finally:
        gc.callbacks.pop()


def test_backend_of_the_package_onnx():
    from hologram import onnx_backend

    proto, want = perceptron()
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("CUDA:0")
    assert onnx_backend.is_compatible(proto)
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_allclose(onnx_backend.prepare(proto).run(inputs)[0], want(x), rtol=1e-5, atol=1e-5)
    node = helper.make_node("Sub", ["a", "b"], ["c"])
    np.testing.assert_array_equal(onnx_backend.run_node(node, [x, x + 1])[0], x - (x + 1))
    strings = model([helper.make_node("ImageDecoder", ["x"], ["y"])], {"x": ("float32", [3])}, ["y"])
    assert not onnx_backend.is_compatible(strings)


# --- files as they are written


ELEMENTS = [name for name in TensorProto.DataType.keys() if name not in ("UNDEFINED", "STRING", "FLOAT6E2M3", "FLOAT6E3M2")]


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("raw", [False, True])
def test_tensors_are_read_as_the_package_onnx_reads_them(name, raw):
    values = np.array([0, 1, 1, 0, 1]) if name == "BOOL" else np.array([0, 1, 2, 1, 0] if name[0] == "U" else [0, 1, -2, 1, -1])
    kind, values = TensorProto.DataType.Value(name), values * 1j if name[0] == "C" else values
    array = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind))
    listed = array.tolist() if name[0] in "CUI" else array
    made = numpy_helper.from_array(array) if raw else helper.make_tensor("", kind, array.shape, listed)
    data = made.SerializeToString()
    read = tensors.array_of(wire.parse(wire.Tensor, data, 0, len(data)), None)
    assert read.dtype == array.dtype and read.tobytes() == array.tobytes() and not read.flags.writeable


def test_files_cut_anywhere_are_no_models_and_the_rest_is_as_the_package_onnx_has_it():
    proto = perceptron()[0]
    proto.functions.add(name="f", domain="d").opset_import.add(domain="d", version=300)
    proto.graph.node[0].attribute.append(helper.make_attribute("floats", [1.5, -2.0]))
    proto.graph.node[1].attribute.append(helper.make_attribute("ints", [3, -1, 1 << 40]))
    data = proto.SerializeToString()
    read = wire.model(data + b"\xfa\x7f\x01!")  # and a field that nobody knows
    assert [(n.op_type, n.input, n.output) for n in read.graph.node] == [
        (n.op_type, list(n.input), list(n.output)) for n in proto.graph.node
    ]
    assert (read.graph.node[0].attribute[0].floats, read.graph.node[1].attribute[0].ints) == ([1.5, -2.0], [3, -1, 1 << 40])
    assert read.functions[0].opset_import[0].version == 300
    dims = read.graph.input[0].type.tensor_type.shape.dim
    assert [(d.HasField("dim_value"), d.dim_param) for d in dims] == [(False, "batch"), (True, "")]
    assert [bytes(t.raw_data) for t in read.graph.initializer] == [t.raw_data for t in proto.graph.initializer]
    whole = 0
    for n in range(len(data)):
        try:
            wire.model(data[:n])
            whole += 1  # between two fields of the model itself
        except ValueError:
            pass
    assert whole <= 6


def test_files_may_change_while_a_model_of_theirs_is_called(tmp_path):
    proto, want = perceptron()
    proto.graph.initializer.append(numpy_helper.from_array(RNG.standard_normal(10_000).astype(np.float32), "more"))
    proto.graph.node.append(helper.make_node("Identity", ["more"], ["z"]))
    proto.graph.output.append(helper.make_empty_tensor_value_info("z"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    function = hologram.from_onnx(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"")
    x = RNG.standard_normal((2, 8)).astype(np.float32)
    y, z = function(x)
    np.testing.assert_allclose(y, want(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(z, numpy_helper.to_array(proto.graph.initializer[-1]))
    assert function.graph.constants["more"].ctypes.data % 64 == 0


def no_thread(_):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("start", [threading.Thread.start, no_thread])
def test_large_parts_of_a_file_are_read_by_few_calls(tmp_path, monkeypatch, start):
    monkeypatch.setattr(threading.Thread, "start", start)
    content = RNG.bytes(1 << 20)
    (tmp_path / "m").write_bytes(content)
    with open(tmp_path / "m", "rb") as file:
        view = memoryview(content)
        own = parts.Parts(file, view)
        ranges = [(i, i + parts.SMALL) for i in (700_000, *range(3, 500_000, parts.SMALL + 7))]
        placed = [own.place(view[a:b]) for a, b in [*ranges, (5, 9)]]
        calls = [*parts._calls(sorted(own._parts, key=lambda part: part[0]))]
        own.start()
        placed.append(own.place(view[-5000:]))  # at once
    own.finish()
    assert len(calls) == 2 and [array.tobytes() for array in placed] == [content[a:b] for a, b in [*ranges, (5, 9), (-5000, None)]]
    with open(tmp_path / "m", "rb") as file:
        own = parts.Parts(file, view)
        own.place(view)
        os.truncate(tmp_path / "m", 5000)
        own.start()
    refuses(OSError, "from_onnx: the file became shorter while it was read", own.finish)


# --- ONNX's own cases


def test_as_many_cases_pass_as_the_file_says():
    """The file is what the whole run found; it can only grow."""
    expected = onnx_nodes.read_expected()
    single = [status for name, status in expected.items() if "/" not in name]
    assert sum(status in onnx_nodes.PASSED for status in single) >= 1852
    assert sum(status == "native" for status in single) >= 1609
    whole = [status for name, status in expected.items() if "/" in name]
    assert sum(status in onnx_nodes.PASSED for status in whole) >= 113


def test_cases_of_the_package_onnx():
    """A sample, of the commit's own; HOLOGRAM_ONNX=all runs every case, HOLOGRAM_ONNX_SEED repeats a sample."""
    wanted = os.environ.get("HOLOGRAM_ONNX", "200")
    expected = onnx_nodes.read_expected()
    if wanted == "all":
        names = None
    else:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=os.path.dirname(__file__), capture_output=True, check=False).stdout
        seed = int(os.environ.get("HOLOGRAM_ONNX_SEED", int(head[:7] or b"0", 16) or time.time_ns() % (1 << 28)))
        print(f"HOLOGRAM_ONNX_SEED={seed}")
        passing = [n for n, status in expected.items() if status in onnx_nodes.PASSED and not n.startswith("light/")]
        names = onnx_nodes.sample(passing, seed, int(wanted))
    found = onnx_nodes.run_all(names)
    assert not onnx_nodes.regressions(found, expected), "worse than onnx_expected.txt"
