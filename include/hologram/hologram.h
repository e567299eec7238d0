/* hologram/hologram.h: the C interface of Hologram.
 *
 * Conventions, for every function:
 *  - It returns a hologram_status; results go through out-parameters, which are written only on
 *    HOLOGRAM_OK. No function throws, aborts or prints. hologram_last_error_message() explains the
 *    calling thread's last failure.
 *  - Executors, buffers, tensors, graphs and executables are named by 64-bit handles. 0 is never
 *    one. A handle that was freed, belongs to another kind or to another executor, or was made up
 * is reported as HOLOGRAM_NOT_FOUND or HOLOGRAM_INVALID_ARGUMENT, never followed.
 *  - Text and byte results take (buffer, capacity, needed): `needed` (may be NULL) receives the
 * full size, the terminating NUL of text included. With too little capacity the status is
 *    HOLOGRAM_SHORT_BUFFER and nothing is written; a NULL buffer with capacity 0 only asks.
 *  - Lengths and offsets count elements. Functions with 32-bit lengths report an overflow as
 *    HOLOGRAM_INVALID_ARGUMENT; those ending in _u64 are the same with 64-bit ones.
 *  - Everything may be called from any thread. Calls on different buffers run side by side, on one
 *    executor too; writing one buffer from two threads at once is a race of the caller's data, but
 *    never damages anything else. Freeing a buffer while another thread uses it is safe: the memory
 *    goes when that call ends.
 */
#ifndef HOLOGRAM_HOLOGRAM_H
#define HOLOGRAM_HOLOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HOLOGRAM_VERSION_MAJOR 0
#define HOLOGRAM_VERSION_MINOR 1
#define HOLOGRAM_VERSION_PATCH 0
#define HOLOGRAM_VERSION_STRING "0.1.0"
/** Changes only when a function changes its meaning or goes; compare with hologram_abi_version().
 */
#define HOLOGRAM_ABI_VERSION 1

#if defined(_WIN32)
#define HOLOGRAM_API __declspec(dllexport)
#elif defined(__GNUC__)
#define HOLOGRAM_API __attribute__((visibility("default")))
#else
#define HOLOGRAM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What every function returns. */
typedef enum hologram_status {
  HOLOGRAM_OK = 0,
  HOLOGRAM_INVALID_ARGUMENT = 1, /**< the message names the argument and what was expected */
  HOLOGRAM_OUT_OF_MEMORY = 2,    /**< nothing was changed */
  HOLOGRAM_NOT_FOUND = 3,        /**< a handle that is not (or no longer) one of its kind */
  HOLOGRAM_UNSUPPORTED = 4,
  HOLOGRAM_UNAVAILABLE = 5, /**< a backend or device that this machine or build lacks */
  HOLOGRAM_CORRUPT = 6,
  HOLOGRAM_IO = 7,
  HOLOGRAM_DIVISION_BY_ZERO = 8, /**< of integers; the quotients in question are 0 */
  HOLOGRAM_INTERNAL = 9,         /**< a fault of the library */
  HOLOGRAM_BUSY = 10,            /**< storage that a view or another call still uses */
  HOLOGRAM_SHORT_BUFFER = 11     /**< see `needed` */
} hologram_status;

/** kind (8 bits) | generation (32 bits) | index (24 bits). */
typedef uint64_t hologram_handle;

/** Element types. b8 is a truth value, a byte 0 or 1. */
typedef enum hologram_dtype {
  HOLOGRAM_B8 = 0,
  HOLOGRAM_U8 = 1,
  HOLOGRAM_I8 = 2,
  HOLOGRAM_I16 = 3,
  HOLOGRAM_I32 = 4,
  HOLOGRAM_I64 = 5,
  HOLOGRAM_F16 = 6,
  HOLOGRAM_BF16 = 7,
  HOLOGRAM_F32 = 8,
  HOLOGRAM_F64 = 9,
  HOLOGRAM_U16 = 10,
  HOLOGRAM_U32 = 11,
  HOLOGRAM_U64 = 12
} hologram_dtype;

/* ---- Errors, version, logging ---------------------------------------------------------------- */

/** "0.1.0". */
HOLOGRAM_API hologram_status hologram_get_version(char* text, size_t capacity, size_t* needed);
/** HOLOGRAM_ABI_VERSION of the loaded library. */
HOLOGRAM_API hologram_status hologram_abi_version(uint32_t* version);
/** The status of this thread's last call that failed, HOLOGRAM_OK if none has. */
HOLOGRAM_API hologram_status hologram_last_error_code(hologram_status* code);
/** Its message, "" if none has failed. */
HOLOGRAM_API hologram_status hologram_last_error_message(char* text, size_t capacity,
                                                         size_t* needed);
/** The same without a copy: valid until this thread's next failing call. Never NULL. */
HOLOGRAM_API const char* hologram_last_error(void);
HOLOGRAM_API hologram_status hologram_clear_last_error(void);
/** "HOLOGRAM_NOT_FOUND" for 3, and so on; "unknown status" for other numbers. */
HOLOGRAM_API const char* hologram_status_name(int32_t status);
/** Receives log lines, from any thread. The library itself writes nowhere. */
typedef void (*hologram_log_function)(void* context, const char* level, const char* message);
/** NULL stops logging. */
HOLOGRAM_API hologram_status hologram_set_log_callback(hologram_log_function function,
                                                       void* context);
/** "trace", "debug", "info", "warn", "error" or "off"; at first "warn". */
HOLOGRAM_API hologram_status hologram_set_log_level(const char* level);
/** Frees every executor, buffer, tensor, graph and executable of the process. */
HOLOGRAM_API hologram_status hologram_clear_all_registries(void);
/** How many handles of all kinds are alive. */
HOLOGRAM_API hologram_status hologram_live_handles(uint64_t* count);

/* ---- Backends -------------------------------------------------------------------------------- */

/** Whether an executor for the backend can be made: a backend of this build, "cuda", "metal" or
 * "auto", in any case, or a further device of it: "cuda:1". HOLOGRAM_INVALID_ARGUMENT for another
 * name. */
HOLOGRAM_API hologram_status hologram_backend_is_available(const char* backend, uint8_t* available);
/** Devices that a backend finds on this machine: 1 for "cpu", 0 for an absent one; of "auto", those
 * of the backend that it chooses. */
HOLOGRAM_API hologram_status hologram_device_count(const char* backend, uint32_t* count);
/** 1: Atlas programs can be run. */
HOLOGRAM_API hologram_status hologram_is_atlas_available(uint8_t* available);
/** Threads that one call may use, the caller included; 0 asks for the default. */
HOLOGRAM_API hologram_status hologram_set_num_threads(uint32_t threads);
HOLOGRAM_API hologram_status hologram_get_num_threads(uint32_t* threads);

/* ---- Executors ------------------------------------------------------------------------------- */

/** A CPU executor: a boundary pool of 96 classes of 12,288 bytes, a linear pool, and the kernels.
 * May be used from several threads. */
HOLOGRAM_API hologram_status hologram_new_executor(hologram_handle* executor);
/** `backend`: a name, "cuda:1" for its second device. HOLOGRAM_INVALID_ARGUMENT for an unknown
 * name, HOLOGRAM_UNAVAILABLE for an absent device. */
HOLOGRAM_API hologram_status hologram_new_executor_with_backend(const char* backend,
                                                                hologram_handle* executor);
/** The best backend of this machine; never fails for lack of a device. */
HOLOGRAM_API hologram_status hologram_new_executor_auto(hologram_handle* executor);
/** Frees the executor and kills the handles of its buffers, tensors and executables. Memory that an
 * exported view uses stays until the view goes. HOLOGRAM_NOT_FOUND when called again. */
HOLOGRAM_API hologram_status hologram_executor_cleanup(hologram_handle executor);
/** The name of its backend, "cpu" for instance; of a device that is not the first, "cuda:1". */
HOLOGRAM_API hologram_status hologram_executor_backend(hologram_handle executor, char* text,
                                                       size_t capacity, size_t* needed);
/** Returns when everything that was started on the executor is done. */
HOLOGRAM_API hologram_status hologram_synchronize(hologram_handle executor);

/** A zeroed float32 buffer of `length` elements (0 is allowed): in a free boundary class if it fits
 * in 12,288 bytes, else in the linear pool. */
HOLOGRAM_API hologram_status hologram_executor_allocate_buffer(hologram_handle executor,
                                                               uint32_t length,
                                                               hologram_handle* buffer);
HOLOGRAM_API hologram_status hologram_executor_allocate_buffer_u64(hologram_handle executor,
                                                                   uint64_t length,
                                                                   hologram_handle* buffer);
/** A zeroed float32 buffer in class 0…95: `width` pages (1…48) of `height` bytes (1…256) each, so
 * width * height / 4 elements. HOLOGRAM_BUSY when the class is taken. */
HOLOGRAM_API hologram_status hologram_executor_allocate_boundary_buffer(hologram_handle executor,
                                                                        uint8_t class_index,
                                                                        uint32_t width,
                                                                        uint32_t height,
                                                                        hologram_handle* buffer);

/** Bits of `flags` below. */
#define HOLOGRAM_UNINITIALIZED 1u /**< contents undefined instead of zero */
#define HOLOGRAM_LINEAR 2u        /**< in the linear pool whatever the size */

/** hologram_executor_allocate_buffer for any dtype. */
HOLOGRAM_API hologram_status hologram_executor_allocate(hologram_handle executor,
                                                        hologram_dtype dtype, uint64_t length,
                                                        uint32_t flags, hologram_handle* buffer);
/** hologram_executor_allocate_boundary_buffer for any dtype. */
HOLOGRAM_API hologram_status hologram_executor_allocate_boundary(hologram_handle executor,
                                                                 hologram_dtype dtype,
                                                                 uint8_t class_index,
                                                                 uint32_t width, uint32_t height,
                                                                 hologram_handle* buffer);
/** A buffer over the caller's memory. If `data` is aligned for the dtype the memory is shared:
 * *copied becomes 0 and `release(context)` (may be NULL) is called once, on any thread, when the
 * last user is gone. Otherwise the elements are copied, *copied becomes 1, and `release` is called
 * before the function returns. On failure it is not called. */
HOLOGRAM_API hologram_status hologram_executor_wrap(hologram_handle executor, hologram_dtype dtype,
                                                    void* data, uint64_t length,
                                                    void (*release)(void* context), void* context,
                                                    uint8_t* copied, hologram_handle* buffer);
/** Bound of the executor's live linear memory in bytes; allocations beyond it are
 * HOLOGRAM_OUT_OF_MEMORY. At first it is what the device has, on the host what this process may
 * use. */
HOLOGRAM_API hologram_status hologram_executor_set_memory_limit(hologram_handle executor,
                                                                uint64_t bytes);
/** Gives cached linear memory back to the system; *bytes (may be NULL) is how much. */
HOLOGRAM_API hologram_status hologram_executor_trim(hologram_handle executor, uint64_t* bytes);

/** Counters of one executor. Set struct_size before the call: fields beyond it are not written. */
typedef struct hologram_statistics {
  uint64_t struct_size;
  uint64_t buffers;               /**< alive */
  uint64_t tensors;               /**< alive */
  uint64_t boundary_classes_busy; /**< of 96 */
  uint64_t linear_bytes;          /**< in use */
  uint64_t linear_peak;           /**< largest linear_bytes so far */
  uint64_t linear_cached;         /**< kept for reuse */
  uint64_t linear_reused;         /**< allocations served without the system */
  uint64_t linear_mapped;         /**< allocations that asked the system */
  uint64_t memory_limit;
  uint64_t kernel_calls;      /**< kernels launched by operations and executables */
  uint64_t builtin_kernels;   /**< kernels in use that came with the library */
  uint64_t compiled_kernels;  /**< kernels compiled by this process */
  uint64_t interpreted_calls; /**< those of kernel_calls that an interpreter ran */
  uint64_t bytes_copied_in;   /**< by copies into buffers */
  uint64_t bytes_copied_out;
  uint64_t fallbacks; /**< choices of another backend than asked for */
  /* What compiled operations and graphs take, of all executors of a backend: */
  uint64_t code_bytes;  /**< machine code in use, but for that in the library or an archive */
  uint64_t code_cached; /**< kernels that nothing uses now */
  uint64_t plan_bytes;  /**< how executables run: programs, steps, sizes */
  uint64_t host_runs;   /**< steps that a device's backend ran on the host, having no kernel */
} hologram_statistics;

HOLOGRAM_API hologram_status hologram_stats(hologram_handle executor,
                                            hologram_statistics* statistics);
/** The same as a JSON object. */
HOLOGRAM_API hologram_status hologram_stats_json(hologram_handle executor, char* text,
                                                 size_t capacity, size_t* needed);

/* ---- The boundary pool: classes, pages, bytes -------------------------------------------------
 */

/** The address of (class, page, byte) in the executor's pool, valid while the executor or a view
 * lives. */
HOLOGRAM_API hologram_status hologram_boundary_pointer(hologram_handle executor,
                                                       uint8_t class_index, uint8_t page,
                                                       uint8_t byte, void** pointer);
/** The inverse; HOLOGRAM_NOT_FOUND for a pointer outside the pool. */
HOLOGRAM_API hologram_status hologram_boundary_address(hologram_handle executor,
                                                       const void* pointer, uint8_t* class_index,
                                                       uint8_t* page, uint8_t* byte);
HOLOGRAM_API hologram_status hologram_boundary_free_classes(hologram_handle executor,
                                                            uint32_t* count);
/** Classes next to this one in the Atlas graph, ascending: 5 or 6 bytes. */
HOLOGRAM_API hologram_status hologram_class_neighbors(uint8_t class_index, uint8_t* classes,
                                                      size_t capacity, size_t* needed);
/** e7 flipped. */
HOLOGRAM_API hologram_status hologram_class_mirror(uint8_t class_index, uint8_t* mirror);
/** Modality 1 and 2 exchanged. */
HOLOGRAM_API hologram_status hologram_class_modality_mirror(uint8_t class_index, uint8_t* mirror);
/** 95 - class. */
HOLOGRAM_API hologram_status hologram_class_complement(uint8_t class_index, uint8_t* complement);

/* ---- Buffers --------------------------------------------------------------------------------- */

HOLOGRAM_API hologram_status hologram_buffer_length(hologram_handle buffer, uint32_t* length);
HOLOGRAM_API hologram_status hologram_buffer_length_u64(hologram_handle buffer, uint64_t* length);
HOLOGRAM_API hologram_status hologram_buffer_size_bytes(hologram_handle buffer, uint32_t* bytes);
HOLOGRAM_API hologram_status hologram_buffer_size_bytes_u64(hologram_handle buffer,
                                                            uint64_t* bytes);
/** Bytes of one element. */
HOLOGRAM_API hologram_status hologram_buffer_element_size(hologram_handle buffer, uint32_t* bytes);
HOLOGRAM_API hologram_status hologram_buffer_dtype(hologram_handle buffer, hologram_dtype* dtype);
HOLOGRAM_API hologram_status hologram_buffer_executor(hologram_handle buffer,
                                                      hologram_handle* executor);
HOLOGRAM_API hologram_status hologram_buffer_is_empty(hologram_handle buffer, uint8_t* yes);
HOLOGRAM_API hologram_status hologram_buffer_is_linear(hologram_handle buffer, uint8_t* yes);
HOLOGRAM_API hologram_status hologram_buffer_is_boundary(hologram_handle buffer, uint8_t* yes);
/** "linear" or "boundary"; "foreign" for wrapped memory. */
HOLOGRAM_API hologram_status hologram_buffer_pool(hologram_handle buffer, char* text,
                                                  size_t capacity, size_t* needed);
/** 0…95; HOLOGRAM_INVALID_ARGUMENT for a buffer outside the boundary pool. */
HOLOGRAM_API hologram_status hologram_buffer_class_index(hologram_handle buffer,
                                                         uint8_t* class_index);

/** Writes a JSON array of as many numbers as the buffer has elements. NaN, Infinity and -Infinity
 * are accepted as such or as strings; null is NaN. Nothing is written on an error. */
HOLOGRAM_API hologram_status hologram_buffer_copy_from_slice(hologram_handle executor,
                                                             hologram_handle buffer,
                                                             const char* json);
/** The elements as a JSON array; reading it back gives the same bits, NaN payloads apart. */
HOLOGRAM_API hologram_status hologram_buffer_to_vec(hologram_handle executor,
                                                    hologram_handle buffer, char* json,
                                                    size_t capacity, size_t* needed);
/** hologram_buffer_to_vec by its other name. */
HOLOGRAM_API hologram_status hologram_buffer_copy_to_slice(hologram_handle executor,
                                                           hologram_handle buffer, char* json,
                                                           size_t capacity, size_t* needed);
/** `size` must be the buffer's size in bytes. One copy. */
HOLOGRAM_API hologram_status hologram_buffer_copy_from_bytes(hologram_handle executor,
                                                             hologram_handle buffer,
                                                             const void* bytes, size_t size);
HOLOGRAM_API hologram_status hologram_buffer_to_bytes(hologram_handle executor,
                                                      hologram_handle buffer, void* bytes,
                                                      size_t capacity, size_t* needed);
/** The first element's address, valid until the buffer is freed or resized;
 * HOLOGRAM_UNSUPPORTED where the memory is not the host's. */
HOLOGRAM_API hologram_status hologram_buffer_as_ptr(hologram_handle executor,
                                                    hologram_handle buffer, const void** pointer);
HOLOGRAM_API hologram_status hologram_buffer_as_mut_ptr(hologram_handle executor,
                                                        hologram_handle buffer, void** pointer);
/** Where the buffer is in its device's memory: a CUdeviceptr. Valid until it is freed or resized;
 * HOLOGRAM_UNSUPPORTED in host memory. */
HOLOGRAM_API hologram_status hologram_buffer_device_ptr(hologram_handle executor,
                                                        hologram_handle buffer, void** pointer);
/** Sets the first `length` elements to `value`, converted to the buffer's dtype. */
HOLOGRAM_API hologram_status hologram_buffer_fill(hologram_handle executor, hologram_handle buffer,
                                                  float value, uint32_t length);
/** The same with an element of the buffer's own dtype at `value`. */
HOLOGRAM_API hologram_status hologram_buffer_fill_element(hologram_handle executor,
                                                          hologram_handle buffer, const void* value,
                                                          uint64_t length);
/** Copies the first `length` elements between buffers of one dtype. The source may belong to
 * another executor; only what goes from one device to another passes through the host's memory. */
HOLOGRAM_API hologram_status hologram_buffer_copy(hologram_handle executor, hologram_handle source,
                                                  hologram_handle destination, uint32_t length);
HOLOGRAM_API hologram_status hologram_buffer_copy_u64(hologram_handle executor,
                                                      hologram_handle source,
                                                      hologram_handle destination, uint64_t length);
/** hologram_buffer_copy_from_slice, then hologram_buffer_canonicalize_all. */
HOLOGRAM_API hologram_status hologram_buffer_copy_from_canonical_slice(hologram_handle executor,
                                                                       hologram_handle buffer,
                                                                       const char* json);
/** Clears bit 0 of every byte. */
HOLOGRAM_API hologram_status hologram_buffer_canonicalize_all(hologram_handle executor,
                                                              hologram_handle buffer);
/** 1 if bit 0 of every byte is clear. */
HOLOGRAM_API hologram_status hologram_buffer_verify_canonical(hologram_handle executor,
                                                              hologram_handle buffer,
                                                              uint8_t* canonical);
/** Changes the length; elements that stay keep their values, new ones are zero. HOLOGRAM_BUSY while
 * a view, a slice, a tensor or another call uses the storage, or when it is the caller's memory. */
HOLOGRAM_API hologram_status hologram_buffer_resize(hologram_handle executor,
                                                    hologram_handle buffer, uint64_t length);
/** A second buffer over elements [offset, offset + length) of the first. */
HOLOGRAM_API hologram_status hologram_buffer_slice(hologram_handle executor, hologram_handle buffer,
                                                   uint64_t offset, uint64_t length,
                                                   hologram_handle* slice);
/** A view that outlives the handle: memory at *data, *bytes long, stays until
 * hologram_view_release(*view), whatever is freed before. */
HOLOGRAM_API hologram_status hologram_buffer_export(hologram_handle buffer, void** data,
                                                    uint64_t* bytes, void** view);
/** Once per view, on any thread. NULL is ignored. */
HOLOGRAM_API hologram_status hologram_view_release(void* view);
/** HOLOGRAM_NOT_FOUND when called again. */
HOLOGRAM_API hologram_status hologram_buffer_cleanup(hologram_handle buffer);

/* ---- Element-wise operations on float32 -------------------------------------------------------
 * The first `length` elements; every buffer needs as many. The result may be the very buffer of an
 * operand; a partial overlap is HOLOGRAM_INVALID_ARGUMENT. NaN propagates everywhere.
 *
 * All operations on buffers, down to hologram_matvec_f32_u64, take one of the executor's streams in
 * the executor's place: they are then put on it and return at once. Wrong arguments are told by the
 * call, all other errors by hologram_stream_synchronize. */

HOLOGRAM_API hologram_status hologram_vector_add_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_sub_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_mul_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_div_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_min_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_max_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle b, hologram_handle c,
                                                     uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_abs_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle c, uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_neg_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle c, uint32_t length);
HOLOGRAM_API hologram_status hologram_vector_relu_f32(hologram_handle executor, hologram_handle a,
                                                      hologram_handle c, uint32_t length);
/** min(max(a, low), high); low > high or a NaN bound is an error. */
HOLOGRAM_API hologram_status hologram_vector_clip_f32(hologram_handle executor, hologram_handle a,
                                                      hologram_handle c, uint32_t length, float low,
                                                      float high);
HOLOGRAM_API hologram_status hologram_scalar_add_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle c, uint32_t length,
                                                     float scalar);
HOLOGRAM_API hologram_status hologram_scalar_mul_f32(hologram_handle executor, hologram_handle a,
                                                     hologram_handle c, uint32_t length,
                                                     float scalar);
HOLOGRAM_API hologram_status hologram_sigmoid_f32(hologram_handle executor, hologram_handle in,
                                                  hologram_handle out, uint32_t length);
HOLOGRAM_API hologram_status hologram_tanh_f32(hologram_handle executor, hologram_handle in,
                                               hologram_handle out, uint32_t length);
/** x (1 + erf(x / sqrt 2)) / 2. */
HOLOGRAM_API hologram_status hologram_gelu_f32(hologram_handle executor, hologram_handle in,
                                               hologram_handle out, uint32_t length);
/** x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
HOLOGRAM_API hologram_status hologram_gelu_tanh_f32(hologram_handle executor, hologram_handle in,
                                                    hologram_handle out, uint32_t length);
/** Over the whole vector. */
HOLOGRAM_API hologram_status hologram_softmax_f32(hologram_handle executor, hologram_handle in,
                                                  hologram_handle out, uint32_t length);

HOLOGRAM_API hologram_status hologram_vector_add_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_sub_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_mul_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_div_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_min_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_max_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle b,
                                                         hologram_handle c, uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_abs_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle c,
                                                         uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_neg_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle c,
                                                         uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_relu_f32_u64(hologram_handle executor,
                                                          hologram_handle a, hologram_handle c,
                                                          uint64_t length);
HOLOGRAM_API hologram_status hologram_vector_clip_f32_u64(hologram_handle executor,
                                                          hologram_handle a, hologram_handle c,
                                                          uint64_t length, float low, float high);
HOLOGRAM_API hologram_status hologram_scalar_add_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle c,
                                                         uint64_t length, float scalar);
HOLOGRAM_API hologram_status hologram_scalar_mul_f32_u64(hologram_handle executor,
                                                         hologram_handle a, hologram_handle c,
                                                         uint64_t length, float scalar);
HOLOGRAM_API hologram_status hologram_sigmoid_f32_u64(hologram_handle executor, hologram_handle in,
                                                      hologram_handle out, uint64_t length);
HOLOGRAM_API hologram_status hologram_tanh_f32_u64(hologram_handle executor, hologram_handle in,
                                                   hologram_handle out, uint64_t length);
HOLOGRAM_API hologram_status hologram_gelu_f32_u64(hologram_handle executor, hologram_handle in,
                                                   hologram_handle out, uint64_t length);
HOLOGRAM_API hologram_status hologram_gelu_tanh_f32_u64(hologram_handle executor,
                                                        hologram_handle in, hologram_handle out,
                                                        uint64_t length);
HOLOGRAM_API hologram_status hologram_softmax_f32_u64(hologram_handle executor, hologram_handle in,
                                                      hologram_handle out, uint64_t length);

/** Any element-wise operation of the op table by name ("exp", "sqrt", "pow", "lt", …; also "relu",
 * "gelu_tanh") on buffers of one dtype; comparisons give b8. Kernels that the library was not built
 * with are compiled on first use. Integer division by zero gives 0 and HOLOGRAM_DIVISION_BY_ZERO
 * after the whole result is written. */
HOLOGRAM_API hologram_status hologram_elementwise(hologram_handle executor, const char* operation,
                                                  const hologram_handle* inputs, size_t num_inputs,
                                                  hologram_handle output, uint64_t length);
/** The number of an operation for hologram_elementwise_by_id, which saves the search by name. */
HOLOGRAM_API hologram_status hologram_operation_id(const char* operation, uint32_t* id);
HOLOGRAM_API hologram_status hologram_elementwise_by_id(hologram_handle executor, uint32_t id,
                                                        const hologram_handle* inputs,
                                                        size_t num_inputs, hologram_handle output,
                                                        uint64_t length);
/** Element-wise conversion between dtypes; floats to integers truncate and saturate. */
HOLOGRAM_API hologram_status hologram_convert(hologram_handle executor, hologram_handle input,
                                              hologram_handle output, uint64_t length);

/* ---- Reductions and losses on float32 ----------------------------------------------------------
 * The result is returned and stored in out[0]; `out` needs at least one element. The sum of nothing
 * is 0; its smallest and largest element are errors. On a stream `result` must be NULL. */

HOLOGRAM_API hologram_status hologram_reduce_sum_f32(hologram_handle executor, hologram_handle in,
                                                     hologram_handle out, uint32_t length,
                                                     float* result);
HOLOGRAM_API hologram_status hologram_reduce_min_f32(hologram_handle executor, hologram_handle in,
                                                     hologram_handle out, uint32_t length,
                                                     float* result);
HOLOGRAM_API hologram_status hologram_reduce_max_f32(hologram_handle executor, hologram_handle in,
                                                     hologram_handle out, uint32_t length,
                                                     float* result);
/** mean((prediction - target)^2). */
HOLOGRAM_API hologram_status hologram_mse_loss_f32(hologram_handle executor,
                                                   hologram_handle prediction,
                                                   hologram_handle target, hologram_handle out,
                                                   uint32_t length, float* result);
/** -mean(target * log(prediction)) over probabilities; a prediction of 0 counts only where the
 * target is not 0, and gives infinity there. */
HOLOGRAM_API hologram_status hologram_cross_entropy_loss_f32(hologram_handle executor,
                                                             hologram_handle prediction,
                                                             hologram_handle target,
                                                             hologram_handle out, uint32_t length,
                                                             float* result);
/** -mean(target log(prediction) + (1 - target) log(1 - prediction)), logarithms at least -100. */
HOLOGRAM_API hologram_status hologram_binary_cross_entropy_loss_f32(hologram_handle executor,
                                                                    hologram_handle prediction,
                                                                    hologram_handle target,
                                                                    hologram_handle out,
                                                                    uint32_t length, float* result);

HOLOGRAM_API hologram_status hologram_reduce_sum_f32_u64(hologram_handle executor,
                                                         hologram_handle in, hologram_handle out,
                                                         uint64_t length, float* result);
HOLOGRAM_API hologram_status hologram_reduce_min_f32_u64(hologram_handle executor,
                                                         hologram_handle in, hologram_handle out,
                                                         uint64_t length, float* result);
HOLOGRAM_API hologram_status hologram_reduce_max_f32_u64(hologram_handle executor,
                                                         hologram_handle in, hologram_handle out,
                                                         uint64_t length, float* result);
HOLOGRAM_API hologram_status hologram_mse_loss_f32_u64(hologram_handle executor,
                                                       hologram_handle prediction,
                                                       hologram_handle target, hologram_handle out,
                                                       uint64_t length, float* result);
HOLOGRAM_API hologram_status hologram_cross_entropy_loss_f32_u64(hologram_handle executor,
                                                                 hologram_handle prediction,
                                                                 hologram_handle target,
                                                                 hologram_handle out,
                                                                 uint64_t length, float* result);
HOLOGRAM_API hologram_status hologram_binary_cross_entropy_loss_f32_u64(
    hologram_handle executor, hologram_handle prediction, hologram_handle target,
    hologram_handle out, uint64_t length, float* result);

/** softmax, "reduce_sum", "reduce_min", "reduce_max" or "reduce_prod" along the middle axis of a
 * row-major float32 array of `outer` x `length` x `inner` elements. Reductions write outer x inner
 * elements, softmax as many as it reads. */
HOLOGRAM_API hologram_status hologram_along_axis_f32(hologram_handle executor,
                                                     const char* operation, hologram_handle in,
                                                     hologram_handle out, uint64_t outer,
                                                     uint64_t length, uint64_t inner);

/* ---- Linear algebra on float32 ----------------------------------------------------------------
 */

/** C (m x n) = A (m x k) B (k x n), row-major; C must not overlap A or B. */
HOLOGRAM_API hologram_status hologram_gemm_f32(hologram_handle executor, hologram_handle a,
                                               hologram_handle b, hologram_handle c, uint32_t m,
                                               uint32_t n, uint32_t k);
HOLOGRAM_API hologram_status hologram_gemm_f32_u64(hologram_handle executor, hologram_handle a,
                                                   hologram_handle b, hologram_handle c, uint64_t m,
                                                   uint64_t n, uint64_t k);
/** y (m) = A (m x n) x (n). */
HOLOGRAM_API hologram_status hologram_matvec_f32(hologram_handle executor, hologram_handle a,
                                                 hologram_handle x, hologram_handle y, uint32_t m,
                                                 uint32_t n);
HOLOGRAM_API hologram_status hologram_matvec_f32_u64(hologram_handle executor, hologram_handle a,
                                                     hologram_handle x, hologram_handle y,
                                                     uint64_t m, uint64_t n);

/* ---- Tensors: strided views of buffers ---------------------------------------------------------
 * A tensor keeps the memory it shows, also when its buffer's handle is freed. Shapes and lists of
 * dimensions in text are JSON arrays. Results of operations that copy own new memory. */

HOLOGRAM_API hologram_status hologram_tensor_from_buffer(hologram_handle buffer,
                                                         const char* shape_json,
                                                         hologram_handle* tensor);
/** Strides in elements, none negative. */
HOLOGRAM_API hologram_status hologram_tensor_from_buffer_with_strides(hologram_handle buffer,
                                                                      const char* shape_json,
                                                                      const char* strides_json,
                                                                      hologram_handle* tensor);
/** The same from arrays; `strides` NULL means row-major; `offset` in elements. */
HOLOGRAM_API hologram_status hologram_tensor_create(hologram_handle buffer, uint32_t ndim,
                                                    const int64_t* shape, const int64_t* strides,
                                                    uint64_t offset, hologram_handle* tensor);
HOLOGRAM_API hologram_status hologram_tensor_shape(hologram_handle tensor, char* json,
                                                   size_t capacity, size_t* needed);
HOLOGRAM_API hologram_status hologram_tensor_strides(hologram_handle tensor, char* json,
                                                     size_t capacity, size_t* needed);
/** Shape and strides into arrays (either may be NULL) of `capacity` numbers. */
HOLOGRAM_API hologram_status hologram_tensor_dimensions(hologram_handle tensor, int64_t* shape,
                                                        int64_t* strides, size_t capacity,
                                                        size_t* needed);
HOLOGRAM_API hologram_status hologram_tensor_ndim(hologram_handle tensor, uint32_t* ndim);
HOLOGRAM_API hologram_status hologram_tensor_numel(hologram_handle tensor, uint32_t* numel);
HOLOGRAM_API hologram_status hologram_tensor_numel_u64(hologram_handle tensor, uint64_t* numel);
HOLOGRAM_API hologram_status hologram_tensor_offset(hologram_handle tensor, uint32_t* offset);
HOLOGRAM_API hologram_status hologram_tensor_offset_u64(hologram_handle tensor, uint64_t* offset);
HOLOGRAM_API hologram_status hologram_tensor_dtype(hologram_handle tensor, hologram_dtype* dtype);
/** The first element's address, valid while the tensor lives; HOLOGRAM_UNSUPPORTED where the memory
 * is not the host's. */
HOLOGRAM_API hologram_status hologram_tensor_data(hologram_handle tensor, void** pointer);
/** The elements in row-major order, wherever the memory is, into the host's memory or that of the
 * executor's device; `bytes` must be apart from it. */
HOLOGRAM_API hologram_status hologram_tensor_to_bytes(hologram_handle executor,
                                                      hologram_handle tensor, void* bytes,
                                                      size_t capacity, size_t* needed);
HOLOGRAM_API hologram_status hologram_tensor_is_contiguous(hologram_handle tensor, uint8_t* yes);
/** A row-major tensor of the same elements: a second view if it is one already, else a copy. */
HOLOGRAM_API hologram_status hologram_tensor_contiguous(hologram_handle executor,
                                                        hologram_handle tensor,
                                                        hologram_handle* result);
/** The dimensions of a matrix exchanged. */
HOLOGRAM_API hologram_status hologram_tensor_transpose(hologram_handle tensor,
                                                       hologram_handle* result);
/** A view if the tensor is contiguous, else a copy. */
HOLOGRAM_API hologram_status hologram_tensor_reshape(hologram_handle executor,
                                                     hologram_handle tensor, const char* shape_json,
                                                     hologram_handle* result);
HOLOGRAM_API hologram_status hologram_tensor_permute(hologram_handle tensor, const char* dims_json,
                                                     hologram_handle* result);
/** Flattened; the tensor must be contiguous. */
HOLOGRAM_API hologram_status hologram_tensor_view_1d(hologram_handle tensor,
                                                     hologram_handle* result);
HOLOGRAM_API hologram_status hologram_tensor_select(hologram_handle tensor, uint32_t dim,
                                                    uint32_t index, hologram_handle* result);
HOLOGRAM_API hologram_status hologram_tensor_narrow(hologram_handle tensor, uint32_t dim,
                                                    uint32_t start, uint32_t length,
                                                    hologram_handle* result);
/** Elements start, start + step, … below end. A negative number stands for "left out": 0, the
 * dimension's size, and 1. */
HOLOGRAM_API hologram_status hologram_tensor_slice(hologram_handle tensor, uint32_t dim,
                                                   int32_t start, int32_t end, int32_t step,
                                                   hologram_handle* result);
/** The tensor seen with the larger shape of NumPy's broadcasting. */
HOLOGRAM_API hologram_status hologram_tensor_broadcast_to(hologram_handle tensor,
                                                          const char* shape_json,
                                                          hologram_handle* result);
/** Product of matrices of one float dtype, whatever their strides. */
HOLOGRAM_API hologram_status hologram_tensor_matmul(hologram_handle executor, hologram_handle a,
                                                    hologram_handle b, hologram_handle* result);
/** c = alpha a b + beta c; a and b may have any strides, the rows of c are contiguous and c
 * overlaps neither. With beta 0 the old c is not read. */
HOLOGRAM_API hologram_status hologram_tensor_gemm(hologram_handle executor, hologram_handle a,
                                                  hologram_handle b, hologram_handle c,
                                                  double alpha, double beta);
HOLOGRAM_API hologram_status hologram_tensor_is_broadcast_compatible_with(hologram_handle a,
                                                                          hologram_handle b,
                                                                          uint8_t* yes);
HOLOGRAM_API hologram_status hologram_tensor_broadcast_shapes(const char* a_json,
                                                              const char* b_json, char* json,
                                                              size_t capacity, size_t* needed);
/** The buffer that the tensor shows. For a result that owns its memory a buffer handle is made at
 * the first call; the caller frees it. HOLOGRAM_NOT_FOUND when the buffer was freed. */
HOLOGRAM_API hologram_status hologram_tensor_buffer(hologram_handle tensor,
                                                    hologram_handle* buffer);
/** Drops the view, not the buffer. */
HOLOGRAM_API hologram_status hologram_tensor_cleanup(hologram_handle tensor);

/* ---- DLPack -----------------------------------------------------------------------------------
 */

/** Address of a new DLManagedTensor that shares the tensor's memory. Its deleter must be called
 * exactly once; the memory lives until then. */
HOLOGRAM_API hologram_status hologram_tensor_to_dlpack(hologram_handle executor,
                                                       hologram_handle tensor, uint64_t* managed);
/** The same as a DLManagedTensorVersioned (DLPack 1.x). */
HOLOGRAM_API hologram_status hologram_tensor_to_dlpack_versioned(hologram_handle executor,
                                                                 hologram_handle tensor,
                                                                 uint64_t* managed);
/** Takes over the DLManagedTensor at this address and shares its memory (copies it where it is not
 * aligned to its element). Gives {"buffer": …, "tensor": …}. On failure the caller keeps it. */
HOLOGRAM_API hologram_status hologram_tensor_from_dlpack_capsule(hologram_handle executor,
                                                                 uint64_t managed, char* json,
                                                                 size_t capacity, size_t* needed);
/** The same with the handle itself; `copied` may be NULL. */
HOLOGRAM_API hologram_status hologram_tensor_from_dlpack(hologram_handle executor, uint64_t managed,
                                                         uint8_t* copied, hologram_handle* tensor);
HOLOGRAM_API hologram_status hologram_tensor_from_dlpack_versioned(hologram_handle executor,
                                                                   uint64_t managed,
                                                                   uint8_t* copied,
                                                                   hologram_handle* tensor);
/** DLPack's number: 1 for the CPU, 2 for CUDA, 8 for Metal. */
HOLOGRAM_API hologram_status hologram_tensor_dlpack_device_type(hologram_handle executor,
                                                                int32_t* type);
HOLOGRAM_API hologram_status hologram_tensor_dlpack_device_id(hologram_handle executor,
                                                              int32_t* id);

/* ---- Graphs and executables --------------------------------------------------------------------
 */

/** An empty graph whose shapes may use symbols s0 … s<num_symbols - 1>. */
HOLOGRAM_API hologram_status hologram_graph_create(uint32_t num_symbols, hologram_handle* graph);
/** A graph from its text form (docs/c-api.md). */
HOLOGRAM_API hologram_status hologram_graph_parse(const char* text, hologram_handle* graph);
HOLOGRAM_API hologram_status hologram_graph_print(hologram_handle graph, char* text,
                                                  size_t capacity, size_t* needed);
/** Appends a parameter; dimensions are written as in the text form: "[s0, 384]". */
HOLOGRAM_API hologram_status hologram_graph_parameter(hologram_handle graph, hologram_dtype dtype,
                                                      const char* shape, uint32_t* node);
/** Appends a scalar constant expanded to `shape` (NULL: a scalar). */
HOLOGRAM_API hologram_status hologram_graph_constant(hologram_handle graph, hologram_dtype dtype,
                                                     double value, const char* shape,
                                                     uint32_t* node);
/** Appends an operation of the op table on earlier nodes, with NumPy's broadcasting for
 * element-wise ones. `attributes` (may be NULL) is written as in the text form: "axes=[1]".
 * `result` (may be NULL where the operation determines it) is the result's dtype and shape:
 * "f32[s0, 4]". */
HOLOGRAM_API hologram_status hologram_graph_apply(hologram_handle graph, const char* operation,
                                                  const uint32_t* inputs, size_t num_inputs,
                                                  const char* attributes, const char* result,
                                                  uint32_t* node);
/** Appends the node to the graph's results (row-major). */
HOLOGRAM_API hologram_status hologram_graph_output(hologram_handle graph, uint32_t node);
/** Dtype and shape of a node as text: "f32[s0, 4]". */
HOLOGRAM_API hologram_status hologram_graph_type(hologram_handle graph, uint32_t node, char* text,
                                                 size_t capacity, size_t* needed);
HOLOGRAM_API hologram_status hologram_graph_cleanup(hologram_handle graph);

/** Bits of `flags` below. */
#define HOLOGRAM_REPRODUCIBLE 1u /**< the same bits on every instruction set and thread count */
#define HOLOGRAM_FAST 2u         /**< narrowing casts between operations may go */

/** Compiles a graph. The graph may be freed or go on growing afterwards. */
HOLOGRAM_API hologram_status hologram_graph_compile(hologram_handle executor, hologram_handle graph,
                                                    uint32_t flags, hologram_handle* executable);
HOLOGRAM_API hologram_status hologram_executable_num_inputs(hologram_handle executable,
                                                            uint32_t* count);
HOLOGRAM_API hologram_status hologram_executable_num_outputs(hologram_handle executable,
                                                             uint32_t* count);
/** Runs once. Inputs are tensors (row-major) or buffers (taken as flat: their length must match);
 * symbols get their values from the tensors' dimensions. `outputs` receives new tensors, or, where
 * it holds handles of tensors or buffers of the right size instead of 0, they are written. */
HOLOGRAM_API hologram_status hologram_executable_run(hologram_handle executable,
                                                     const hologram_handle* inputs,
                                                     size_t num_inputs, hologram_handle* outputs,
                                                     size_t num_outputs);
/** The same with the symbols' values given, which buffers alone may leave open. */
HOLOGRAM_API hologram_status hologram_executable_run_with_symbols(
    hologram_handle executable, const hologram_handle* inputs, size_t num_inputs,
    const int64_t* symbols, size_t num_symbols, hologram_handle* outputs, size_t num_outputs);
/** The same without waiting: the call is put on the stream, which keeps what it needs. Argument
 * errors are told at once, all others by hologram_stream_synchronize; the outputs hold results
 * then. Methods of archives with loops first wait for the stream, and then for their own end. */
HOLOGRAM_API hologram_status hologram_executable_run_on_stream(
    hologram_handle executable, hologram_handle stream, const hologram_handle* inputs,
    size_t num_inputs, hologram_handle* outputs, size_t num_outputs);
/** What compiling did, as a JSON object: operations before and after, kernels, milliseconds. */
HOLOGRAM_API hologram_status hologram_executable_report(hologram_handle executable, char* json,
                                                        size_t capacity, size_t* needed);
HOLOGRAM_API hologram_status hologram_executable_cleanup(hologram_handle executable);

/* ---- Streams and events ------------------------------------------------------------------------
 *
 * A stream is a queue of an executor's device: what is put on it is done in order, beside what is
 * on other streams. All other functions wait for what they started, and for nothing on any stream:
 * wait for a stream before its buffers are used without it. On executors in host memory the work is
 * done when it is put on a stream, and its errors are told likewise.
 */

HOLOGRAM_API hologram_status hologram_stream_create(hologram_handle executor,
                                                    hologram_handle* stream);
/** Another library's stream on the executor's device, a CUstream for instance, which must live as
 * long as this; one of hologram_stream_native lives on by itself. HOLOGRAM_UNSUPPORTED on the host.
 */
HOLOGRAM_API hologram_status hologram_stream_from_native(hologram_handle executor, void* native,
                                                         hologram_handle* stream);
/** The device's own name for it: a CUstream; NULL on the host. */
HOLOGRAM_API hologram_status hologram_stream_native(hologram_handle stream, void** native);
/** Returns when its work is done, with the first error since it was last called. */
HOLOGRAM_API hologram_status hologram_stream_synchronize(hologram_handle stream);
/** Whether its work is done. */
HOLOGRAM_API hologram_status hologram_stream_query(hologram_handle stream, uint8_t* done);
/** Waits for its work. */
HOLOGRAM_API hologram_status hologram_stream_cleanup(hologram_handle stream);
/** Copies `size` bytes, the buffer's, in: now to memory of the stream's own, and behind what is on
 * the stream to the buffer. The bytes may change at once. */
HOLOGRAM_API hologram_status hologram_stream_copy_from_bytes(hologram_handle stream,
                                                             hologram_handle buffer,
                                                             const void* bytes, size_t size);
/** Copies the buffer out: `bytes` holds it, and must stay until then, when
 * hologram_stream_synchronize returns. */
HOLOGRAM_API hologram_status hologram_stream_copy_to_bytes(hologram_handle stream,
                                                           hologram_handle buffer, void* bytes,
                                                           size_t size);
/** A mark in a stream's work, for other streams of the executor and for the host. */
HOLOGRAM_API hologram_status hologram_event_create(hologram_handle executor,
                                                   hologram_handle* event);
/** Marks the end of what is on the stream now, in place of an earlier mark. */
HOLOGRAM_API hologram_status hologram_event_record(hologram_handle event, hologram_handle stream);
/** What is put on the stream from now on begins when the mark has been reached. */
HOLOGRAM_API hologram_status hologram_stream_wait_event(hologram_handle stream,
                                                        hologram_handle event);
/** Returns when the mark has been reached; of errors the stream tells. */
HOLOGRAM_API hologram_status hologram_event_synchronize(hologram_handle event);
/** Whether the mark has been reached; without one, yes. */
HOLOGRAM_API hologram_status hologram_event_query(hologram_handle event, uint8_t* done);
HOLOGRAM_API hologram_status hologram_event_cleanup(hologram_handle event);

/* ---- Archives: models in files (docs/archives.md) ----------------------------------------------
 */

#define HOLOGRAM_VERIFY \
  1u /**< compare the weights with their checksums too: reads the whole file */

/** Opens a .holo file; its weights are mapped into memory. A damaged file is HOLOGRAM_CORRUPT, one
 * of a later version HOLOGRAM_UNSUPPORTED. Machine code in it runs only if the user's list of
 * trusted archives names it, or after hologram_archive_trust. */
HOLOGRAM_API hologram_status hologram_archive_open(const char* path, uint32_t flags,
                                                   hologram_handle* archive);
/** The same for a file's bytes, which are copied. */
HOLOGRAM_API hologram_status hologram_archive_open_memory(const void* bytes, size_t size,
                                                          uint32_t flags, hologram_handle* archive);
/** What it holds as a JSON object: fingerprint, methods with inputs, results and sizes, tensors. */
HOLOGRAM_API hologram_status hologram_archive_info(hologram_handle archive, char* json,
                                                   size_t capacity, size_t* needed);
/** Names the whole content: 64 hexadecimal digits. */
HOLOGRAM_API hologram_status hologram_archive_fingerprint(hologram_handle archive, char* digits,
                                                          size_t capacity, size_t* needed);
/** Methods made from here on run the archive's machine code, where it has some for this machine: no
 * compiling, no code generator; the code has all rights of this process. `fingerprint`: what the
 * archive must be, else HOLOGRAM_CORRUPT; NULL trusts it whatever it is. */
HOLOGRAM_API hologram_status hologram_archive_trust(hologram_handle archive,
                                                    const char* fingerprint);
/** Puts a copy of these elements, in row-major order, in the place of the tensor `name`, for calls
 * that begin afterwards, of executables that exist already too; the file stays as it is. dtype and
 * shape must be the tensor's. */
HOLOGRAM_API hologram_status hologram_archive_replace(hologram_handle archive, const char* name,
                                                      hologram_dtype dtype, const int64_t* shape,
                                                      size_t rank, const void* elements);
/** Compares everything with its checksums: reads the whole file. */
HOLOGRAM_API hologram_status hologram_archive_verify(hologram_handle archive);
/** A method as an executable, compiled or taken from the cache of kernels. Its inputs and results
 * are the method's, row-major; hologram_executable_run checks their sizes. `session`: where state
 * is kept, 0 for a method without. The executable outlives the archive's and the session's handles.
 */
HOLOGRAM_API hologram_status hologram_archive_method(hologram_handle archive,
                                                     hologram_handle executor, const char* name,
                                                     hologram_handle session,
                                                     hologram_handle* executable);
/** A copy of the archive's state, which methods read and write. Calls on one session run one after
 * the other. */
HOLOGRAM_API hologram_status hologram_archive_session(hologram_handle archive,
                                                      hologram_handle* session);
/** Brings the session back to the state in the archive. */
HOLOGRAM_API hologram_status hologram_session_reset(hologram_handle session);
HOLOGRAM_API hologram_status hologram_session_cleanup(hologram_handle session);
HOLOGRAM_API hologram_status hologram_archive_cleanup(hologram_handle archive);

#ifdef __cplusplus
}
#endif

#endif /* HOLOGRAM_HOLOGRAM_H */
