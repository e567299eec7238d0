# hologram_ffi/__init__.pyi: types of hologram_ffi; written by tools/stubs.py
"""Every function of hologram/hologram.h under its name without the prefix, on handles that are plain integers.

    import hologram_ffi as hg

    executor = hg.new_executor()
    a, b, c = (hg.executor_allocate_buffer(executor, 1024) for _ in range(3))
    hg.buffer_copy_from_bytes(executor, a, data)
    hg.vector_add_f32(executor, a, b, c, 1024)
    hg.buffer_to_bytes(executor, c)
    hg.executor_cleanup(executor)

Out-parameters of the C function are returned (several as a tuple) and a failed status is raised: ValueError, MemoryError,
NotImplementedError, OSError, ZeroDivisionError or HologramError. Cleaning up twice is a RuntimeWarning. Only
new_executor_with_backend returns 0 and leaves the reason in last_error_message(). Handles are those of hologram.Executor and
hologram.Buffer.
"""

from collections.abc import Sequence

from hologram import HologramError as HologramError

def get_version() -> str:
    """"0.1.0"."""

def abi_version() -> int:
    """HOLOGRAM_ABI_VERSION of the loaded library."""

def last_error_code() -> int:
    """
    The status of this thread's last call that failed, HOLOGRAM_OK if none has.
    """

def last_error_message() -> str:
    """Its message, "" if none has failed."""

def last_error() -> str:
    """
    The same without a copy: valid until this thread's next failing call. Never NULL.
    """

def clear_last_error() -> None:
    """Errors, version, logging: clear last error."""

def status_name(status: int) -> str:
    """
    "HOLOGRAM_NOT_FOUND" for 3, and so on; "unknown status" for other numbers.
    """

def set_log_level(level: str) -> None:
    """"trace", "debug", "info", "warn", "error" or "off"; at first "warn"."""

def clear_all_registries() -> None:
    """
    Frees every executor, buffer, tensor, graph and executable of the process.
    """

def live_handles() -> int:
    """How many handles of all kinds are alive."""

def backend_is_available(backend: str) -> int:
    """
    Whether an executor for the backend can be made: a backend of this build, "cuda", "metal" or "auto", in any case, or a further device of it: "cuda:1". HOLOGRAM_INVALID_ARGUMENT for another name.
    """

def device_count(backend: str) -> int:
    """
    Devices that a backend finds on this machine: 1 for "cpu", 0 for an absent one; of "auto", those of the backend that it chooses.
    """

def is_atlas_available() -> int:
    """1: Atlas programs can be run."""

def set_num_threads(threads: int) -> None:
    """
    Threads that one call may use, the caller included; 0 asks for the default.
    """

def get_num_threads() -> int:
    """Backends: get num threads."""

def new_executor() -> int:
    """
    A CPU executor: a boundary pool of 96 classes of 12,288 bytes, a linear pool, and the kernels. May be used from several threads.
    """

def new_executor_auto() -> int:
    """The best backend of this machine; never fails for lack of a device."""

def executor_cleanup(executor: int) -> None:
    """
    Frees the executor and kills the handles of its buffers, tensors and executables. Memory that an exported view uses stays until the view goes. HOLOGRAM_NOT_FOUND when called again.
    """

def executor_backend(executor: int) -> str:
    """
    The name of its backend, "cpu" for instance; of a device that is not the first, "cuda:1".
    """

def synchronize(executor: int) -> None:
    """Returns when everything that was started on the executor is done."""

def executor_allocate_buffer(executor: int, length: int) -> int:
    """
    A zeroed float32 buffer of `length` elements (0 is allowed): in a free boundary class if it fits in 12,288 bytes, else in the linear pool.
    """

def executor_allocate_buffer_u64(executor: int, length: int) -> int:
    """
    A zeroed float32 buffer of `length` elements (0 is allowed): in a free boundary class if it fits in 12,288 bytes, else in the linear pool.
    """

def executor_allocate_boundary_buffer(executor: int, class_index: int, width: int, height: int) -> int:
    """
    A zeroed float32 buffer in class 0…95: `width` pages (1…48) of `height` bytes (1…256) each, so width * height / 4 elements. HOLOGRAM_BUSY when the class is taken.
    """

def executor_allocate(executor: int, dtype: object, length: int, flags: int) -> int:
    """hologram_executor_allocate_buffer for any dtype."""

def executor_allocate_boundary(executor: int, dtype: object, class_index: int, width: int, height: int) -> int:
    """hologram_executor_allocate_boundary_buffer for any dtype."""

def executor_set_memory_limit(executor: int, bytes: int) -> None:
    """
    Bound of the executor's live linear memory in bytes; allocations beyond it are HOLOGRAM_OUT_OF_MEMORY. At first it is what the device has, on the host what this process may use.
    """

def executor_trim(executor: int) -> int:
    """
    Gives cached linear memory back to the system; *bytes (may be NULL) is how much.
    """

def stats_json(executor: int) -> str:
    """The same as a JSON object."""

def boundary_pointer(executor: int, class_index: int, page: int, byte: int) -> int:
    """
    The address of (class, page, byte) in the executor's pool, valid while the executor or a view lives.
    """

def boundary_address(executor: int, pointer: int) -> tuple[int, int, int]:
    """The inverse; HOLOGRAM_NOT_FOUND for a pointer outside the pool."""

def boundary_free_classes(executor: int) -> int:
    """The inverse; HOLOGRAM_NOT_FOUND for a pointer outside the pool."""

def class_mirror(class_index: int) -> int:
    """e7 flipped."""

def class_modality_mirror(class_index: int) -> int:
    """Modality 1 and 2 exchanged."""

def class_complement(class_index: int) -> int:
    """95 - class."""

def buffer_length(buffer: int) -> int:
    """Buffers: buffer length."""

def buffer_length_u64(buffer: int) -> int:
    """Buffers: buffer length."""

def buffer_size_bytes(buffer: int) -> int:
    """Buffers: buffer size bytes."""

def buffer_size_bytes_u64(buffer: int) -> int:
    """Buffers: buffer size bytes."""

def buffer_element_size(buffer: int) -> int:
    """Bytes of one element."""

def buffer_dtype(buffer: int) -> str:
    """Buffers: buffer dtype."""

def buffer_executor(buffer: int) -> int:
    """Buffers: buffer executor."""

def buffer_is_empty(buffer: int) -> int:
    """Buffers: buffer is empty."""

def buffer_is_linear(buffer: int) -> int:
    """Buffers: buffer is empty."""

def buffer_is_boundary(buffer: int) -> int:
    """Buffers: buffer is empty."""

def buffer_pool(buffer: int) -> str:
    """"linear" or "boundary"; "foreign" for wrapped memory."""

def buffer_class_index(buffer: int) -> int:
    """
    0…95; HOLOGRAM_INVALID_ARGUMENT for a buffer outside the boundary pool.
    """

def buffer_copy_from_slice(executor: int, buffer: int, json: str) -> None:
    """
    Writes a JSON array of as many numbers as the buffer has elements. NaN, Infinity and -Infinity are accepted as such or as strings; null is NaN. Nothing is written on an error.
    """

def buffer_to_vec(executor: int, buffer: int) -> str:
    """
    The elements as a JSON array; reading it back gives the same bits, NaN payloads apart.
    """

def buffer_copy_to_slice(executor: int, buffer: int) -> str:
    """hologram_buffer_to_vec by its other name."""

def buffer_as_ptr(executor: int, buffer: int) -> int:
    """
    The first element's address, valid until the buffer is freed or resized; HOLOGRAM_UNSUPPORTED where the memory is not the host's.
    """

def buffer_as_mut_ptr(executor: int, buffer: int) -> int:
    """
    The first element's address, valid until the buffer is freed or resized; HOLOGRAM_UNSUPPORTED where the memory is not the host's.
    """

def buffer_fill(executor: int, buffer: int, value: float, length: int) -> None:
    """
    Sets the first `length` elements to `value`, converted to the buffer's dtype.
    """

def buffer_copy(executor: int, source: int, destination: int, length: int) -> None:
    """
    Copies the first `length` elements between buffers of one dtype. The source may belong to another executor; only what goes from one device to another passes through the host's memory.
    """

def buffer_copy_u64(executor: int, source: int, destination: int, length: int) -> None:
    """
    Copies the first `length` elements between buffers of one dtype. The source may belong to another executor; only what goes from one device to another passes through the host's memory.
    """

def buffer_copy_from_canonical_slice(executor: int, buffer: int, json: str) -> None:
    """
    hologram_buffer_copy_from_slice, then hologram_buffer_canonicalize_all.
    """

def buffer_canonicalize_all(executor: int, buffer: int) -> None:
    """Clears bit 0 of every byte."""

def buffer_verify_canonical(executor: int, buffer: int) -> int:
    """1 if bit 0 of every byte is clear."""

def buffer_resize(executor: int, buffer: int, length: int) -> None:
    """
    Changes the length; elements that stay keep their values, new ones are zero. HOLOGRAM_BUSY while a view, a slice, a tensor or another call uses the storage, or when it is the caller's memory.
    """

def buffer_slice(executor: int, buffer: int, offset: int, length: int) -> int:
    """A second buffer over elements [offset, offset + length) of the first."""

def buffer_cleanup(buffer: int) -> None:
    """HOLOGRAM_NOT_FOUND when called again."""

def vector_add_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_sub_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_mul_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_div_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_min_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_max_f32(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_abs_f32(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_neg_f32(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_relu_f32(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_clip_f32(executor: int, a: int, c: int, length: int, low: float, high: float) -> None:
    """min(max(a, low), high); low > high or a NaN bound is an error."""

def scalar_add_f32(executor: int, a: int, c: int, length: int, scalar: float) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def scalar_mul_f32(executor: int, a: int, c: int, length: int, scalar: float) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def sigmoid_f32(executor: int, input: int, out: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def tanh_f32(executor: int, input: int, out: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def gelu_f32(executor: int, input: int, out: int, length: int) -> None:
    """x (1 + erf(x / sqrt 2)) / 2."""

def gelu_tanh_f32(executor: int, input: int, out: int, length: int) -> None:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""

def softmax_f32(executor: int, input: int, out: int, length: int) -> None:
    """Over the whole vector."""

def vector_add_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_sub_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_mul_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_div_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_min_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_max_f32_u64(executor: int, a: int, b: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_abs_f32_u64(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_neg_f32_u64(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_relu_f32_u64(executor: int, a: int, c: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def vector_clip_f32_u64(executor: int, a: int, c: int, length: int, low: float, high: float) -> None:
    """min(max(a, low), high); low > high or a NaN bound is an error."""

def scalar_add_f32_u64(executor: int, a: int, c: int, length: int, scalar: float) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def scalar_mul_f32_u64(executor: int, a: int, c: int, length: int, scalar: float) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def sigmoid_f32_u64(executor: int, input: int, out: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def tanh_f32_u64(executor: int, input: int, out: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def gelu_f32_u64(executor: int, input: int, out: int, length: int) -> None:
    """x (1 + erf(x / sqrt 2)) / 2."""

def gelu_tanh_f32_u64(executor: int, input: int, out: int, length: int) -> None:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""

def softmax_f32_u64(executor: int, input: int, out: int, length: int) -> None:
    """Over the whole vector."""

def operation_id(operation: str) -> int:
    """
    The number of an operation for hologram_elementwise_by_id, which saves the search by name.
    """

def convert(executor: int, input: int, output: int, length: int) -> None:
    """
    Element-wise conversion between dtypes; floats to integers truncate and saturate.
    """

def reduce_sum_f32(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def reduce_min_f32(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def reduce_max_f32(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def mse_loss_f32(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """mean((prediction - target)^2)."""

def cross_entropy_loss_f32(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """
    -mean(target * log(prediction)) over probabilities; a prediction of 0 counts only where the target is not 0, and gives infinity there.
    """

def binary_cross_entropy_loss_f32(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """
    -mean(target log(prediction) + (1 - target) log(1 - prediction)), logarithms at least -100.
    """

def reduce_sum_f32_u64(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def reduce_min_f32_u64(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def reduce_max_f32_u64(executor: int, input: int, out: int, length: int) -> float:
    """
    Reductions and losses on float32. The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing is 0; its smallest and largest element are errors. On a stream `result` must be NULL.
    """

def mse_loss_f32_u64(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """mean((prediction - target)^2)."""

def cross_entropy_loss_f32_u64(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """
    -mean(target * log(prediction)) over probabilities; a prediction of 0 counts only where the target is not 0, and gives infinity there.
    """

def binary_cross_entropy_loss_f32_u64(executor: int, prediction: int, target: int, out: int, length: int) -> float:
    """
    -mean(target log(prediction) + (1 - target) log(1 - prediction)), logarithms at least -100.
    """

def along_axis_f32(executor: int, operation: str, input: int, out: int, outer: int, length: int, inner: int) -> None:
    """
    softmax, "reduce_sum", "reduce_min", "reduce_max" or "reduce_prod" along the middle axis of a row-major float32 array of `outer` x `length` x `inner` elements. Reductions write outer x inner elements, softmax as many as it reads.
    """

def gemm_f32(executor: int, a: int, b: int, c: int, m: int, n: int, k: int) -> None:
    """C (m x n) = A (m x k) B (k x n), row-major; C must not overlap A or B."""

def gemm_f32_u64(executor: int, a: int, b: int, c: int, m: int, n: int, k: int) -> None:
    """C (m x n) = A (m x k) B (k x n), row-major; C must not overlap A or B."""

def matvec_f32(executor: int, a: int, x: int, y: int, m: int, n: int) -> None:
    """y (m) = A (m x n) x (n)."""

def matvec_f32_u64(executor: int, a: int, x: int, y: int, m: int, n: int) -> None:
    """y (m) = A (m x n) x (n)."""

def tensor_from_buffer(buffer: int, shape_json: str) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_from_buffer_with_strides(buffer: int, shape_json: str, strides_json: str) -> int:
    """Strides in elements, none negative."""

def tensor_shape(tensor: int) -> str:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_strides(tensor: int) -> str:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_ndim(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_numel(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_numel_u64(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_offset(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_offset_u64(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_dtype(tensor: int) -> str:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_data(tensor: int) -> int:
    """
    The first element's address, valid while the tensor lives; HOLOGRAM_UNSUPPORTED where the memory is not the host's.
    """

def tensor_is_contiguous(tensor: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_contiguous(executor: int, tensor: int) -> int:
    """
    A row-major tensor of the same elements: a second view if it is one already, else a copy.
    """

def tensor_transpose(tensor: int) -> int:
    """The dimensions of a matrix exchanged."""

def tensor_reshape(executor: int, tensor: int, shape_json: str) -> int:
    """A view if the tensor is contiguous, else a copy."""

def tensor_permute(tensor: int, dims_json: str) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_view_1d(tensor: int) -> int:
    """Flattened; the tensor must be contiguous."""

def tensor_select(tensor: int, dim: int, index: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_narrow(tensor: int, dim: int, start: int, length: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_slice(tensor: int, dim: int, start: int, end: int, step: int) -> int:
    """
    Elements start, start + step, … below end. A negative number stands for "left out": 0, the dimension's size, and 1.
    """

def tensor_broadcast_to(tensor: int, shape_json: str) -> int:
    """The tensor seen with the larger shape of NumPy's broadcasting."""

def tensor_matmul(executor: int, a: int, b: int) -> int:
    """Product of matrices of one float dtype, whatever their strides."""

def tensor_gemm(executor: int, a: int, b: int, c: int, alpha: float, beta: float) -> None:
    """
    c = alpha a b + beta c; a and b may have any strides, the rows of c are contiguous and c overlaps neither. With beta 0 the old c is not read.
    """

def tensor_is_broadcast_compatible_with(a: int, b: int) -> int:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_broadcast_shapes(a_json: str, b_json: str) -> str:
    """
    Tensors: strided views of buffers. A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of dimensions in text are JSON arrays. Results of operations that copy own new memory.
    """

def tensor_buffer(tensor: int) -> int:
    """
    The buffer that the tensor shows. For a result that owns its memory a buffer handle is made at the first call; the caller frees it. HOLOGRAM_NOT_FOUND when the buffer was freed.
    """

def tensor_cleanup(tensor: int) -> None:
    """Drops the view, not the buffer."""

def tensor_to_dlpack(executor: int, tensor: int) -> int:
    """
    Address of a new DLManagedTensor that shares the tensor's memory. Its deleter must be called exactly once; the memory lives until then.
    """

def tensor_to_dlpack_versioned(executor: int, tensor: int) -> int:
    """The same as a DLManagedTensorVersioned (DLPack 1.x)."""

def tensor_from_dlpack(executor: int, managed: int) -> tuple[int, int]:
    """The same with the handle itself; `copied` may be NULL."""

def tensor_from_dlpack_versioned(executor: int, managed: int) -> tuple[int, int]:
    """The same with the handle itself; `copied` may be NULL."""

def tensor_dlpack_device_type(executor: int) -> int:
    """DLPack's number: 1 for the CPU, 2 for CUDA, 8 for Metal."""

def tensor_dlpack_device_id(executor: int) -> int:
    """DLPack's number: 1 for the CPU, 2 for CUDA, 8 for Metal."""

def graph_create(num_symbols: int) -> int:
    """An empty graph whose shapes may use symbols s0 … s<num_symbols - 1>."""

def graph_parse(text: str) -> int:
    """A graph from its text form (docs/c-api.md)."""

def graph_print(graph: int) -> str:
    """Graphs and executables: graph print."""

def graph_parameter(graph: int, dtype: object, shape: str) -> int:
    """
    Appends a parameter; dimensions are written as in the text form: "[s0, 384]".
    """

def graph_constant(graph: int, dtype: object, value: float, shape: str) -> int:
    """Appends a scalar constant expanded to `shape` (NULL: a scalar)."""

def graph_output(graph: int, node: int) -> None:
    """Appends the node to the graph's results (row-major)."""

def graph_type(graph: int, node: int) -> str:
    """Dtype and shape of a node as text: "f32[s0, 4]"."""

def graph_cleanup(graph: int) -> None:
    """Graphs and executables: graph cleanup."""

def graph_compile(executor: int, graph: int, flags: int) -> int:
    """Compiles a graph. The graph may be freed or go on growing afterwards."""

def executable_num_inputs(executable: int) -> int:
    """Graphs and executables: executable num inputs."""

def executable_num_outputs(executable: int) -> int:
    """Graphs and executables: executable num inputs."""

def executable_report(executable: int) -> str:
    """
    What compiling did, as a JSON object: operations before and after, kernels, milliseconds.
    """

def executable_cleanup(executable: int) -> None:
    """
    What compiling did, as a JSON object: operations before and after, kernels, milliseconds.
    """

def stream_create(executor: int) -> int:
    """
    Streams and events. A stream is a queue of an executor's device: what is put on it is done in order, beside what is on other streams. All other functions wait for what they started, and for nothing on any stream: wait for a stream before its buffers are used without it. On executors in host memory the work is done when it is put on a stream, and its errors are told likewise.
    """

def stream_synchronize(stream: int) -> None:
    """
    Returns when its work is done, with the first error since it was last called.
    """

def stream_query(stream: int) -> int:
    """Whether its work is done."""

def stream_cleanup(stream: int) -> None:
    """Waits for its work."""

def event_create(executor: int) -> int:
    """
    A mark in a stream's work, for other streams of the executor and for the host.
    """

def event_record(event: int, stream: int) -> None:
    """
    Marks the end of what is on the stream now, in place of an earlier mark.
    """

def stream_wait_event(stream: int, event: int) -> None:
    """
    What is put on the stream from now on begins when the mark has been reached.
    """

def event_synchronize(event: int) -> None:
    """Returns when the mark has been reached; of errors the stream tells."""

def event_query(event: int) -> int:
    """Whether the mark has been reached; without one, yes."""

def event_cleanup(event: int) -> None:
    """
    Streams and events. A stream is a queue of an executor's device: what is put on it is done in order, beside what is on other streams. All other functions wait for what they started, and for nothing on any stream: wait for a stream before its buffers are used without it. On executors in host memory the work is done when it is put on a stream, and its errors are told likewise.
    """

def archive_open(path: str, flags: int) -> int:
    """
    Opens a .holo file; its weights are mapped into memory. A damaged file is HOLOGRAM_CORRUPT, one of a later version HOLOGRAM_UNSUPPORTED. Machine code in it runs only if the user's list of trusted archives names it, or after hologram_archive_trust.
    """

def archive_info(archive: int) -> str:
    """
    What it holds as a JSON object: fingerprint, methods with inputs, results and sizes, tensors.
    """

def archive_fingerprint(archive: int) -> str:
    """Names the whole content: 64 hexadecimal digits."""

def archive_trust(archive: int, fingerprint: str) -> None:
    """
    Methods made from here on run the archive's machine code, where it has some for this machine: no compiling, no code generator; the code has all rights of this process. `fingerprint`: what the archive must be, else HOLOGRAM_CORRUPT; NULL trusts it whatever it is.
    """

def archive_verify(archive: int) -> None:
    """Compares everything with its checksums: reads the whole file."""

def archive_method(archive: int, executor: int, name: str, session: int) -> int:
    """
    A method as an executable, compiled or taken from the cache of kernels. Its inputs and results are the method's, row-major; hologram_executable_run checks their sizes. `session`: where state is kept, 0 for a method without. The executable outlives the archive's and the session's handles.
    """

def archive_session(archive: int) -> int:
    """
    A copy of the archive's state, which methods read and write. Calls on one session run one after the other.
    """

def session_reset(session: int) -> None:
    """Brings the session back to the state in the archive."""

def session_cleanup(session: int) -> None:
    """Brings the session back to the state in the archive."""

def archive_cleanup(archive: int) -> None:
    """Archives: models in files (docs/archives.md): archive cleanup."""

def new_executor_with_backend(backend: str) -> int:
    """
    `backend`: a name, "cuda:1" for its second device. HOLOGRAM_INVALID_ARGUMENT for an unknown name, HOLOGRAM_UNAVAILABLE for an absent device.
    """

def set_log_callback(function: object | None) -> None:
    """NULL stops logging."""

def executor_wrap(executor: int, dtype: object, data: object, length: int) -> int:
    """
    A buffer over the caller's memory. If `data` is aligned for the dtype the memory is shared: *copied becomes 0 and `release(context)` (may be NULL) is called once, on any thread, when the last user is gone. Otherwise the elements are copied, *copied becomes 1, and `release` is called before the function returns. On failure it is not called.
    """

def stats(executor: int) -> object:
    """< steps that a device's backend ran on the host, having no kernel"""

def class_neighbors(class_index: int) -> list[int]:
    """Classes next to this one in the Atlas graph, ascending: 5 or 6 bytes."""

def buffer_copy_from_bytes(executor: int, buffer: int, bytes: object) -> None:
    """`size` must be the buffer's size in bytes. One copy."""

def buffer_to_bytes(executor: int, buffer: int) -> bytes:
    """Buffers: buffer to bytes."""

def tensor_to_bytes(executor: int, tensor: int) -> bytes:
    """
    The elements in row-major order, wherever the memory is, into the host's memory or that of the executor's device; `bytes` must be apart from it.
    """

def buffer_fill_element(executor: int, buffer: int, element: object, length: int) -> None:
    """The same with an element of the buffer's own dtype at `value`."""

def buffer_export(buffer: int) -> tuple[int, int, int]:
    """
    A view that outlives the handle: memory at *data, *bytes long, stays until hologram_view_release(*view), whatever is freed before.
    """

def view_release(view: int) -> None:
    """Once per view, on any thread. NULL is ignored."""

def elementwise(executor: int, operation: str, inputs: Sequence[int], output: int, length: int) -> None:
    """
    Any element-wise operation of the op table by name ("exp", "sqrt", "pow", "lt", …; also "relu", "gelu_tanh") on buffers of one dtype; comparisons give b8. Kernels that the library was not built with are compiled on first use. Integer division by zero gives 0 and HOLOGRAM_DIVISION_BY_ZERO after the whole result is written.
    """

def elementwise_by_id(executor: int, id: int, inputs: Sequence[int], output: int, length: int) -> None:
    """
    Element-wise operations on float32. The first `length` elements; every buffer needs as many. The result may be the very buffer of an operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere. All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in the executor's place: they are then put on it and return at once. Wrong arguments are told by the call, all other errors by hologram_stream_synchronize.
    """

def archive_open_memory(bytes: object, flags: int) -> int:
    """The same for a file's bytes, which are copied."""

def archive_replace(archive: int, name: str, dtype: object, shape: Sequence[int], elements: object) -> None:
    """
    Puts a copy of these elements, in row-major order, in the place of the tensor `name`, for calls that begin afterwards, of executables that exist already too; the file stays as it is. dtype and shape must be the tensor's.
    """

def tensor_create(buffer: int, shape: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0) -> int:
    """
    The same from arrays; `strides` NULL means row-major; `offset` in elements.
    """

def tensor_dimensions(tensor: int) -> tuple[list[int], list[int]]:
    """
    Shape and strides into arrays (either may be NULL) of `capacity` numbers.
    """

def tensor_from_dlpack_capsule(executor: int, managed: int) -> str:
    """
    Takes over the DLManagedTensor at this address and shares its memory (copies it where it is not aligned to its element). Gives {"buffer": …, "tensor": …}. On failure the caller keeps it.
    """

def graph_apply(graph: int, operation: str, inputs: Sequence[int], attributes: str | None = None, result: str | None = None) -> int:
    """
    Appends an operation of the op table on earlier nodes, with NumPy's broadcasting for element-wise ones. `attributes` (may be NULL) is written as in the text form: "axes=[1]". `result` (may be NULL where the operation determines it) is the result's dtype and shape: "f32[s0, 4]".
    """

def executable_run(executable: int, inputs: Sequence[int], outputs: Sequence[int] | None = None) -> list[int]:
    """
    Runs once. Inputs are tensors (row-major) or buffers (taken as flat: their length must match); symbols get their values from the tensors' dimensions. `outputs` receives new tensors, or, where it holds handles of tensors or buffers of the right size instead of 0, they are written.
    """

def executable_run_on_stream(executable: int, stream: int, inputs: Sequence[int], outputs: Sequence[int] | None = None) -> list[int]:
    """
    The same without waiting: the call is put on the stream, which keeps what it needs. Argument errors are told at once, all others by hologram_stream_synchronize; the outputs hold results then. Methods of archives with loops first wait for the stream, and then for their own end.
    """

def stream_from_native(executor: int, native: int) -> int:
    """
    Another library's stream on the executor's device, a CUstream for instance, which must live as long as this; one of hologram_stream_native lives on by itself. HOLOGRAM_UNSUPPORTED on the host.
    """

def stream_native(stream: int) -> int:
    """The device's own name for it: a CUstream; NULL on the host."""

def stream_copy_from_bytes(stream: int, buffer: int, bytes: object) -> None:
    """
    Copies `size` bytes, the buffer's, in: now to memory of the stream's own, and behind what is on the stream to the buffer. The bytes may change at once.
    """

def stream_copy_to_bytes(stream: int, buffer: int, address: int, size: int) -> None:
    """
    Copies the buffer out: `bytes` holds it, and must stay until then, when hologram_stream_synchronize returns.
    """

def buffer_device_ptr(executor: int, buffer: int) -> int:
    """
    Where the buffer is in its device's memory: a CUdeviceptr. Valid until it is freed or resized; HOLOGRAM_UNSUPPORTED in host memory.
    """

def executable_run_with_symbols(executable: int, inputs: Sequence[int], symbols: Sequence[int], outputs: Sequence[int] | None = None) -> list[int]:
    """
    The same with the symbols' values given, which buffers alone may leave open.
    """
