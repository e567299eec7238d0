# tests/python/test_ffi.py: hologram_ffi is the C header, whole and documented
import json
import pathlib
import re
import struct

import hologram
import hologram_ffi as hg
import numpy as np
import pytest
from checks import python, refuses

HEADER = pathlib.Path(__file__).parents[2] / "include/hologram/hologram.h"


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


def test_every_function_is_documented():
    for name in hg.__all__:
        about = getattr(hg, name).__doc__.split("\n\n", 1)
        assert name == "HologramError" or (len(about) == 2 and about[1].strip()), name


def test_backends():
    assert hg.new_executor_with_backend("tpu") == 0 and "tpu" in hg.last_error_message() and hg.last_error_code() == 1
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
        (TypeError, lambda: hg.archive_open_memory(1, 0)),  # numbers are no addresses
        (TypeError, lambda: hg.archive_replace(1, "w", "float32", [1], 1)),
        (TypeError, lambda: hg.executor_wrap(executor, "float32", 1, 1)),
        (ValueError, lambda: hg.executor_wrap(executor, "float32", bytearray(11), 3)),
        (ValueError, lambda: hg.view_release(1)),
    ]:
        refuses(error, None, use)
    assert hg.reduce_sum_f32(executor, a, a, 3) == 6
    hg.buffer_cleanup(a)
    refuses(hg.HologramError, "buffer_length.*freed", lambda: hg.buffer_length(a))


def values_of(e, b, n):
    return np.array(json.loads(hg.buffer_to_vec(e, b)), np.float32)[:n]


def test_arguments_come_in_their_order():
    """Of one function of each signature; what they compute is tested through hologram.ops and the C++ interface."""
    e, n = hg.new_executor(), 1000
    x, y = np.random.default_rng(0).uniform(0.05, 0.95, (2, n)).astype(np.float32)
    a, b, c = (hg.executor_allocate_buffer(e, n) for _ in range(3))
    boundary = hg.executor_allocate_boundary_buffer(e, 95, 48, 256)
    assert (hg.buffer_length(a), hg.buffer_size_bytes(a), hg.buffer_element_size(a), hg.buffer_is_empty(a)) == (n, 4 * n, 4, 0)
    assert (hg.buffer_length(boundary), hg.buffer_is_boundary(boundary), hg.buffer_is_linear(boundary)) == (3072, 1, 0)
    assert (hg.buffer_pool(boundary), hg.buffer_class_index(boundary)) == ("boundary", 95)
    hg.buffer_copy_from_slice(e, a, json.dumps(x.tolist()))
    hg.buffer_copy_from_bytes(e, b, y)
    assert hg.buffer_copy_to_slice(e, a) == hg.buffer_to_vec(e, a) and hg.buffer_to_bytes(e, b) == y.tobytes()
    assert hg.buffer_as_ptr(e, a) == hg.buffer_as_mut_ptr(e, a) != 0
    hg.buffer_fill(e, c, 2.5, n - 1)
    hg.buffer_copy(e, a, c, 10)
    assert values_of(e, c, n).tolist() == [*x[:10].tolist(), *[2.5] * (n - 11), 0]
    hg.buffer_copy_from_canonical_slice(e, c, json.dumps(x.tolist()))
    assert hg.buffer_verify_canonical(e, c) == 1 and hg.buffer_to_bytes(e, c) == bytes(v & 0xFE for v in x.tobytes())
    for function, arguments, want in (
        (hg.vector_sub_f32, (a, b, c, n), x - y),
        (hg.vector_neg_f32, (a, c, n), -x),
        (hg.vector_clip_f32, (a, c, n, 0.25, 0.5), np.clip(x, 0.25, 0.5)),
        (hg.scalar_add_f32, (a, c, n, 1.5), x + np.float32(1.5)),
        (hg.matvec_f32, (a, b, c, 9, 100), x[:900].reshape(9, 100) @ y[:100]),
        (hg.gemm_f32, (a, b, c, 2, 3, 5), (x[:10].reshape(2, 5) @ y[:15].reshape(5, 3)).ravel()),
    ):
        function(e, *arguments)
        np.testing.assert_allclose(values_of(e, c, len(want)), want, rtol=1e-5)
    np.testing.assert_allclose(hg.reduce_max_f32(e, a, c, n), x.max())
    np.testing.assert_allclose(hg.cross_entropy_loss_f32(e, a, b, c, n), -np.mean(y * np.log(x)), rtol=1e-5)
    whole, cube = hg.tensor_from_buffer(a, "[10, 100]"), x.reshape(10, 100)
    assert hg.tensor_buffer(whole) == a and (hg.tensor_ndim(whole), hg.tensor_numel(whole)) == (2, 1000)
    strided = hg.tensor_from_buffer_with_strides(a, "[4, 3]", "[100, 2]")
    assert json.loads(hg.tensor_strides(strided)) == [100, 2] and hg.tensor_is_contiguous(strided) == 0
    narrow = hg.tensor_narrow(whole, 1, 20, 30)
    product = hg.tensor_matmul(e, narrow, hg.tensor_transpose(narrow))
    for tensor, want in (
        (strided, cube[:4, 0:5:2]), (hg.tensor_reshape(e, whole, "[5, 200]"), cube.reshape(5, 200)),
        (hg.tensor_permute(whole, "[1, 0]"), cube.T), (hg.tensor_select(whole, 1, 7), cube[:, 7]),
        (hg.tensor_slice(whole, 1, 3, -1, 10), cube[:, 3::10]), (product, cube[:, 20:50] @ cube[:, 20:50].T),
    ):  # fmt: skip
        flat = hg.tensor_view_1d(hg.tensor_contiguous(e, tensor))
        start = hg.tensor_offset(flat)
        assert json.loads(hg.tensor_shape(tensor)) == list(want.shape)
        np.testing.assert_allclose(values_of(e, hg.tensor_buffer(flat), start + want.size)[start:], want.ravel(), rtol=1e-5)
    assert hg.tensor_is_broadcast_compatible_with(whole, strided) == 0
    assert json.loads(hg.tensor_broadcast_shapes("[2, 1]", "[3]")) == [2, 3]
    hg.executor_cleanup(e)
    script = "import hologram_ffi as f; e = f.new_executor(); f.clear_all_registries(); assert f.live_handles() == 0"
    python("-c", script)  # it would clear what other tests hold


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


def test_memory_of_pythons_own(executor):
    memory = bytearray(struct.pack("3f", 1, 2, 3))
    buffer = hg.executor_wrap(executor, "float32", memory, 3)
    assert read(executor, buffer) == [1, 2, 3]
    if hg.executor_backend(executor) == "cpu":
        hg.vector_neg_f32(executor, buffer, buffer, 3)
        assert struct.unpack("3f", memory) == (-1, -2, -3)
        with pytest.raises(BufferError):
            memory.clear()  # the buffer shows it
        for _, _, view in (hg.buffer_export(buffer), hg.buffer_export(buffer)):
            hg.view_release(view)
    hg.buffer_cleanup(buffer)
    memory.clear()
    content = (HEADER.parents[2] / "examples/model.holo").read_bytes()
    archive = hg.archive_open_memory(content, 0)
    name, about = next(iter(json.loads(hg.archive_info(archive))["tensors"].items()))
    refuses(ValueError, "elements of", lambda: hg.archive_replace(archive, name, about["dtype"], about["shape"], b"few"))


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
