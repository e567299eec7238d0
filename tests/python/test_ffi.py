# tests/python/test_ffi.py: hologram_ffi is the C header, whole and documented
import json
import math
import pathlib
import re
import struct
import subprocess
import sys

import hologram
import hologram_ffi as hg
import numpy as np
import pytest

HEADER = pathlib.Path(__file__).parents[2] / "include/hologram/hologram.h"
NAMED = """new_executor new_executor_with_backend new_executor_auto executor_cleanup executor_allocate_buffer
executor_allocate_boundary_buffer buffer_length buffer_size_bytes buffer_element_size buffer_is_empty buffer_is_linear
buffer_is_boundary buffer_pool buffer_class_index buffer_copy_from_slice buffer_to_vec buffer_copy_to_slice
buffer_copy_from_bytes buffer_to_bytes buffer_as_ptr buffer_as_mut_ptr buffer_fill buffer_copy
buffer_copy_from_canonical_slice buffer_canonicalize_all buffer_verify_canonical buffer_cleanup vector_add_f32 vector_sub_f32
vector_mul_f32 vector_div_f32 vector_min_f32 vector_max_f32 vector_abs_f32 vector_neg_f32 vector_relu_f32 vector_clip_f32
scalar_add_f32 scalar_mul_f32 sigmoid_f32 tanh_f32 gelu_f32 softmax_f32 reduce_sum_f32 reduce_min_f32 reduce_max_f32
mse_loss_f32 cross_entropy_loss_f32 binary_cross_entropy_loss_f32 gemm_f32 matvec_f32 tensor_from_buffer
tensor_from_buffer_with_strides tensor_shape tensor_strides tensor_ndim tensor_numel tensor_offset tensor_is_contiguous
tensor_contiguous tensor_transpose tensor_reshape tensor_permute tensor_view_1d tensor_select tensor_narrow tensor_slice
tensor_matmul tensor_is_broadcast_compatible_with tensor_broadcast_shapes tensor_buffer tensor_cleanup tensor_to_dlpack
tensor_from_dlpack_capsule tensor_dlpack_device_type tensor_dlpack_device_id get_version clear_all_registries""".split()


@pytest.fixture(params=["cpu", "null"])
def executor(request):
    """On the host, and on a device whose memory the host does not see."""
    handle = hg.new_executor_with_backend(request.param)
    yield handle
    with pytest.warns(RuntimeWarning):
        hg.executor_cleanup(handle)
        hg.executor_cleanup(handle)  # the second time is a warning


def filled(executor, values):
    buffer = hg.executor_allocate_buffer(executor, len(values))
    hg.buffer_copy_from_bytes(executor, buffer, struct.pack(f"{len(values)}f", *values))
    return buffer


def read(executor, buffer):
    return np.frombuffer(hg.buffer_to_bytes(executor, buffer), np.float32).tolist()


def test_every_function_of_the_header():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"HOLOGRAM_API[^;]*?hologram_(\w+)\(", text))
    assert len(declared) > 150
    assert declared == set(hg.__all__) - {"HologramError"}
    assert len(NAMED) == 78 and set(NAMED) <= declared


def test_every_function_is_documented():
    for name in hg.__all__:
        about = getattr(hg, name).__doc__.split("\n\n", 1)
        assert name == "HologramError" or (len(about) == 2 and about[1].strip()), name


def test_backends():
    assert hg.new_executor_with_backend("tpu") == 0
    assert "tpu" in hg.last_error_message() and hg.last_error_code() == 1
    auto = hg.new_executor_auto()
    assert auto and hg.executor_backend(auto) == "cpu"
    hg.executor_cleanup(auto)


def test_errors_are_python_exceptions(executor):
    a = filled(executor, [1, 2, 3])
    for error, use in [
        (ValueError, lambda: hg.buffer_copy_from_bytes(executor, a, bytes(11))),
        (ValueError, lambda: hg.buffer_copy_from_slice(executor, a, "[1, 2")),
        (ValueError, lambda: hg.vector_abs_f32(executor, a, a, 4)),
        (ValueError, lambda: hg.vector_abs_f32(executor, a, a, 1 << 32)),
        (ValueError, lambda: hg.vector_abs_f32(executor, a, a, -1)),
        (hg.HologramError, lambda: hg.vector_abs_f32(executor, 0, a, 3)),
        (ValueError, lambda: hg.buffer_length(executor)),
        (ValueError, lambda: hg.reduce_min_f32(executor, a, a, 0)),
        (TypeError, lambda: hg.buffer_length("x")),
    ]:
        with pytest.raises(error):
            use()
    assert hg.reduce_sum_f32(executor, a, a, 3) == 6
    hg.buffer_cleanup(a)
    with pytest.raises(hg.HologramError, match="buffer_length.*freed"):
        hg.buffer_length(a)


class Recorder:
    """hologram_ffi, noting which functions were called and came back."""

    def __init__(self):
        self.called = set()

    def __getattr__(self, name):
        function = getattr(hg, name)

        def call(*args):
            result = function(*args)
            self.called.add(name)
            return result

        return call


def values_of(f, e, b, n):
    return np.array(json.loads(f.buffer_to_vec(e, b)), np.float32)[:n]


def test_every_named_function_does_its_work():
    f = Recorder()
    n = 1000
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.05, 0.95, (2, n)).astype(np.float32)
    assert f.get_version() == hologram.__version__
    others = [f.new_executor_with_backend("CPU"), f.new_executor_auto()]
    e = f.new_executor()
    assert len({e, *others}) == 3
    for other in others:
        f.executor_cleanup(other)

    a, b, c, boundary = *(f.executor_allocate_buffer(e, n) for _ in range(3)), f.executor_allocate_boundary_buffer(e, 95, 48, 256)
    assert (f.buffer_length(a), f.buffer_size_bytes(a), f.buffer_element_size(a), f.buffer_is_empty(a)) == (n, 4 * n, 4, 0)
    assert (f.buffer_length(boundary), f.buffer_is_boundary(boundary), f.buffer_is_linear(boundary)) == (3072, 1, 0)
    assert (f.buffer_pool(boundary), f.buffer_class_index(boundary)) == ("boundary", 95)
    f.buffer_copy_from_slice(e, a, json.dumps(x.tolist()))
    f.buffer_copy_from_bytes(e, b, y)
    assert f.buffer_copy_to_slice(e, a) == f.buffer_to_vec(e, a) and f.buffer_to_bytes(e, b) == y.tobytes()
    assert f.buffer_as_ptr(e, a) == f.buffer_as_mut_ptr(e, a) != 0
    f.buffer_fill(e, c, 2.5, n - 1)
    assert values_of(f, e, c, n).tolist() == [2.5] * (n - 1) + [0]
    f.buffer_copy(e, a, c, 10)
    assert (values_of(f, e, c, n)[:11] == [*x[:10], 2.5]).all()
    f.buffer_copy_from_canonical_slice(e, c, json.dumps(x.tolist()))
    assert f.buffer_verify_canonical(e, c) == 1
    assert f.buffer_to_bytes(e, c) == bytes(v & 0xFE for v in x.tobytes())
    f.buffer_copy(e, a, c, n)
    assert f.buffer_verify_canonical(e, c) == 0
    f.buffer_canonicalize_all(e, c)
    assert f.buffer_verify_canonical(e, c) == 1

    def gives(name, expected, *numbers, operands=(a, b), tolerance=2e-6):
        getattr(f, name)(e, *operands, c, n, *numbers)
        np.testing.assert_allclose(values_of(f, e, c, n), expected, rtol=tolerance, atol=1e-7, err_msg=name)

    d = x.astype(np.float64)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum}
    for name, function in functions.items():
        gives(f"vector_{name}_f32", function(x, y))
    f.buffer_copy_from_bytes(e, a, -x)
    gives("vector_abs_f32", x, operands=(a,))
    gives("vector_neg_f32", x, operands=(a,))
    gives("vector_relu_f32", 0 * x, operands=(a,))
    gives("vector_clip_f32", np.clip(-x, -0.5, -0.25), -0.5, -0.25, operands=(a,))
    f.buffer_copy_from_bytes(e, a, x)
    gives("scalar_add_f32", x + np.float32(1.5), 1.5, operands=(a,))
    gives("scalar_mul_f32", x * np.float32(1.5), 1.5, operands=(a,))
    gives("sigmoid_f32", 1 / (1 + np.exp(-d)), operands=(a,))
    gives("tanh_f32", np.tanh(d), operands=(a,))
    gives("gelu_f32", [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in d], operands=(a,))
    gives("softmax_f32", np.exp(d) / np.exp(d).sum(), operands=(a,))
    for name, expected in {"sum": d.sum(), "min": x.min(), "max": x.max()}.items():
        result = getattr(f, f"reduce_{name}_f32")(e, a, c, n)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert values_of(f, e, c, 1)[0] == np.float32(result)
    t = y.astype(np.float64)
    np.testing.assert_allclose(f.mse_loss_f32(e, a, b, c, n), np.mean((d - t) ** 2), rtol=1e-5)
    np.testing.assert_allclose(f.cross_entropy_loss_f32(e, a, b, c, n), -np.mean(t * np.log(d)), rtol=1e-5)
    np.testing.assert_allclose(f.binary_cross_entropy_loss_f32(e, a, b, c, n), -np.mean(t * np.log(d) + (1 - t) * np.log(1 - d)), rtol=1e-5)
    for m, columns, k in ((2, 3, 5), (7, 1, 9), (1, 8, 3)):  # rows, columns, depth
        f.gemm_f32(e, a, b, c, m, columns, k)
        expected = d[: m * k].reshape(m, k) @ t[: k * columns].reshape(k, columns)
        np.testing.assert_allclose(values_of(f, e, c, m * columns), expected.ravel(), rtol=1e-5)
    for m, k in ((3, 7), (9, 100)):
        f.matvec_f32(e, a, b, c, m, k)
        np.testing.assert_allclose(values_of(f, e, c, m), d[: m * k].reshape(m, k) @ t[:k], rtol=1e-5)

    whole = f.tensor_from_buffer(a, "[10, 100]")
    assert f.tensor_buffer(whole) == a and (f.tensor_ndim(whole), f.tensor_numel(whole)) == (2, 1000)
    strided = f.tensor_from_buffer_with_strides(a, "[4, 3]", "[100, 2]")
    assert json.loads(f.tensor_strides(strided)) == [100, 2] and f.tensor_is_contiguous(strided) == 0
    cube = x.reshape(10, 100)

    def shows(tensor, expected):
        assert json.loads(f.tensor_shape(tensor)) == list(expected.shape)
        dense = f.tensor_contiguous(e, tensor)
        assert f.tensor_is_contiguous(dense) == 1
        flat = f.tensor_view_1d(dense)
        start = f.tensor_offset(flat)
        assert (values_of(f, e, f.tensor_buffer(flat), start + expected.size)[start:] == expected.ravel()).all()
        for made in {dense, flat} - {tensor}:
            f.tensor_cleanup(made)

    shows(strided, cube[:4, 0:5:2])
    shows(f.tensor_transpose(whole), cube.T)
    shows(f.tensor_reshape(e, whole, "[5, 200]"), cube.reshape(5, 200))
    shows(f.tensor_permute(whole, "[1, 0]"), cube.T)
    shows(f.tensor_select(whole, 1, 7), cube[:, 7])
    narrow = f.tensor_narrow(whole, 1, 20, 30)
    assert f.tensor_offset(narrow) == 20
    shows(narrow, cube[:, 20:50])
    shows(f.tensor_slice(whole, 1, 3, -1, 10), cube[:, 3::10])
    product = f.tensor_matmul(e, narrow, f.tensor_transpose(narrow))
    expected = cube[:, 20:50].astype(np.float64) @ cube[:, 20:50].T
    np.testing.assert_allclose(values_of(f, e, f.tensor_buffer(product), 100), expected.ravel(), rtol=1e-5)
    assert f.tensor_is_broadcast_compatible_with(whole, strided) == 0
    assert json.loads(f.tensor_broadcast_shapes("[2, 1]", "[3]")) == [2, 3]
    made = json.loads(f.tensor_from_dlpack_capsule(e, f.tensor_to_dlpack(e, whole)))
    assert hg.tensor_data(made["tensor"]) == hg.buffer_as_ptr(e, a)
    assert (f.tensor_dlpack_device_type(e), f.tensor_dlpack_device_id(e)) == (1, 0)
    f.buffer_cleanup(b)
    f.executor_cleanup(e)

    script = "import hologram_ffi as f; e = f.new_executor(); f.clear_all_registries(); assert f.live_handles() == 0"
    subprocess.run([sys.executable, "-c", script], check=True)  # it would clear what other tests hold
    assert set(NAMED) - f.called == {"clear_all_registries"}


def test_tensors(executor):
    a = filled(executor, range(6))
    t = hg.tensor_from_buffer(a, "[2, 3]")
    assert hg.tensor_dimensions(hg.tensor_transpose(t)) == ([3, 2], [1, 3])
    assert hg.tensor_dlpack_device_type(executor) == (1 if hg.executor_backend(executor) == "cpu" else 12)
    made = json.loads(hg.tensor_from_dlpack_capsule(executor, hg.tensor_to_dlpack(executor, t)))
    hg.buffer_fill(executor, a, 7, 1)
    assert hg.tensor_to_bytes(executor, made["tensor"]) == struct.pack("6f", 7, 1, 2, 3, 4, 5)


def test_graphs(executor):
    g = hg.graph_create(1)
    x = hg.graph_parameter(g, "float32", "[s0]")
    hg.graph_output(g, hg.graph_apply(g, "mul", [x, x]))
    run = hg.graph_compile(executor, g, 0)
    a, out = filled(executor, [1, 2, 3]), hg.executor_allocate_buffer(executor, 3)
    assert hg.executable_run(run, [a], [out]) == [out] and read(executor, out) == [1, 4, 9]
    (fresh,) = hg.executable_run(run, [a])
    assert read(executor, hg.tensor_buffer(fresh)) == [1, 4, 9]
    assert json.loads(hg.executable_report(run))["kernels"] == 1


def test_handles_are_those_of_the_sdk(executor):
    e = hologram.Executor()
    b = e.from_numpy(np.float32([1, 2]))
    hg.vector_neg_f32(e.handle, b.handle, b.handle, 2)
    assert b.to_numpy().tolist() == [-1, -2]
    hg.buffer_cleanup(b.handle)
    assert b.freed


def test_log_callback():
    lines = []
    hg.set_log_callback(lambda level, message: lines.append((level, message)))
    hg.set_log_level("debug")
    hg.executor_cleanup(hg.new_executor_auto())
    hg.set_log_callback(None)
    hg.set_log_level("warn")
    assert all(isinstance(level, str) and message for level, message in lines)
