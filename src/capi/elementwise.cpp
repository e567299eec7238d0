// capi/elementwise.cpp: element-wise operations on buffers; the call path that counts nanoseconds.
#include <cmath>

#include "capi/place.h"

using namespace hologram;
using namespace hologram::capi;
using runtime::DirectKernel;

namespace {

constexpr int most_inputs = 3;
/// Longer calls pin: a hold takes a record that other threads might want.
constexpr uint64_t held_length = uint64_t{1} << 16;

constexpr uint32_t id_of(ir::Op op) { return static_cast<uint32_t>(op); }

/// Why a call cannot go on; throws.
[[noreturn, gnu::cold, gnu::noinline]] void explain(hologram_handle executor,
                                                    const hologram_handle* handles,
                                                    const Pin<BufferObject>* pins, int count,
                                                    DType operand, DType result, uint64_t length) {
  const hologram_handle owner = Place(executor).executor().handle;
  for (int i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const std::string name = last ? "output" : fmt::format("input {}", i);
    if (!pins[i]) report_handle(buffers, handles[i], name);
    const BufferObject& b = *pins[i];
    require(b.executor_handle() == owner, "{}: the buffer belongs to another executor", name);
    const DType wanted = last ? result : operand;
    require(b.dtype == wanted, "{}: the buffer's dtype must be {}, is {}", name, name_of(wanted),
            name_of(b.dtype));
    require(b.length >= length, "{}: the buffer has {} elements, {} are needed", name, b.length,
            length);
  }
  for (int i = 0; i + 1 < count; ++i)
    require(pins[i]->data == pins[count - 1]->data ||
                pins[i]->data + pins[i]->bytes() <= pins[count - 1]->data ||
                pins[count - 1]->data + pins[count - 1]->bytes() <= pins[i]->data,
            "input {} overlaps the output in part; they must be the same or apart", i);
  fail(ErrorCode::internal, "internal error in elementwise; please report it");
}

/// Whether [a, a + n) and [b, b + m) meet without being the same.
bool overlap(const std::byte* a, uint64_t n, const std::byte* b, uint64_t m) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  if (first == second) return n != m && n != 0 && m != 0;
  return first < second ? second - first < n : first - second < m;
}

/// Whether the operands fit: float32, of this executor, long enough, the same as the output or
/// apart from it. Comparisons alone, for lengths below 2^60.
template <int inputs>
[[gnu::always_inline]] inline bool fits(hologram_handle executor, BufferObject* const* operands,
                                        uint64_t length) {
  const BufferObject& output = *operands[inputs];
  const uint64_t bytes = length * sizeof(float);
  bool good = output.executor_handle() == executor;
#pragma GCC unroll 4
  for (int i = 0; i <= inputs; ++i) {
    const BufferObject& b = *operands[i];
    good &= (b.executor == output.executor) & (b.dtype == DType::f32) & (b.length >= length);
    if (i == inputs) break;
    const auto distance =
        reinterpret_cast<uintptr_t>(b.data) - reinterpret_cast<uintptr_t>(output.data);
    good &= (distance == 0) | (bytes == 0) | (distance - bytes <= 0 - 2 * bytes);
  }
  return good;
}

template <int inputs>
[[gnu::always_inline]] inline void launch(uint32_t id, BufferObject* const* operands,
                                          uint64_t length, const float* scalars, int num_scalars) {
  void* arguments[DirectKernel::max_arguments];
#pragma GCC unroll 4
  for (int i = 0; i < inputs; ++i) arguments[i] = operands[i]->data;
  for (int i = 0; i < num_scalars; ++i) arguments[inputs + i] = const_cast<float*>(scalars + i);
  arguments[inputs + num_scalars] = operands[inputs]->data;
  runtime::Operations& operations = *operands[inputs]->executor->operations;
  operations.run(operations.elementwise(id, DType::f32), arguments, static_cast<int64_t>(length));
}

/// The same put on a stream.
template <int inputs>
void put_on(const Place& place, uint32_t id, BufferObject* const* operands, uint64_t length,
            const float* scalars, int num_scalars) {
  void* arguments[DirectKernel::max_arguments];
  Place::Uses uses;
  for (int i = 0; i <= inputs; ++i) uses.push_back(operands[i]->storage);
  for (int i = 0; i < inputs; ++i) arguments[i] = operands[i]->data;
  for (int i = 0; i < num_scalars; ++i) {
    arguments[inputs + i] = const_cast<float*>(scalars + i);
    if (runtime::StorageRef there = place.number(scalars + i, sizeof(float))) {
      arguments[inputs + i] = there->data();
      uses.push_back(std::move(there));
    }
  }
  arguments[inputs + num_scalars] = operands[inputs]->data;
  place.run(place.executor().operations->elementwise(id, DType::f32), arguments, length,
            std::move(uses));
}

/// float32: held if that is enough, else pinned, which also finds out what is wrong.
template <int inputs>
hologram_status run_f32(const char* function, uint32_t id, hologram_handle executor,
                        const hologram_handle* handles, uint64_t length,
                        const float* scalars = nullptr, int num_scalars = 0) noexcept {
  constexpr int count = inputs + 1;
  BufferObject* operands[count];
  try {
    if (length <= held_length) {
      struct Holding : HandleTable::Hold {
        ~Holding() { buffers.release(*this); }
      } const held{buffers.hold<count>(handles)};
      if (held.record >= 0) [[likely]] {
        for (int i = 0; i < count; ++i) operands[i] = static_cast<BufferObject*>(held.objects[i]);
        if (fits<inputs>(executor, operands, length)) [[likely]] {
          if (length == 0) return HOLOGRAM_OK;
          launch<inputs>(id, operands, length, scalars, num_scalars);
          operands[inputs]->executor->kernel_calls.add_holding(held.record, 1);
          return HOLOGRAM_OK;
        }
      }
    }
    Pin<BufferObject> pins[count];
    for (int i = 0; i < count; ++i) {
      pins[i] = Pin<BufferObject>(buffers, handles[i]);
      if (!pins[i]) explain(executor, handles, pins, count, DType::f32, DType::f32, length);
      operands[i] = pins[i].get();
    }
    const bool on_stream = HandleTable::kind_of(executor) == Kind::stream;
    const hologram_handle owner = on_stream ? need_stream(executor)->executor->handle : executor;
    if (!fits<inputs>(owner, operands, length))
      explain(executor, handles, pins, count, DType::f32, DType::f32, length);
    if (length == 0) return HOLOGRAM_OK;
    if (on_stream) {
      put_on<inputs>(Place(executor), id, operands, length, scalars, num_scalars);
      return HOLOGRAM_OK;
    }
    launch<inputs>(id, operands, length, scalars, num_scalars);
    operands[inputs]->executor->kernel_calls.add(1);
    return HOLOGRAM_OK;
  } catch (...) {
    return fail_with_current(function);
  }
}

hologram_status unary(const char* function, uint32_t id, hologram_handle executor,
                      hologram_handle a, hologram_handle c, uint64_t length) noexcept {
  const hologram_handle handles[] = {a, c};
  return run_f32<1>(function, id, executor, handles, length);
}

hologram_status binary(const char* function, uint32_t id, hologram_handle executor,
                       hologram_handle a, hologram_handle b, hologram_handle c,
                       uint64_t length) noexcept {
  const hologram_handle handles[] = {a, b, c};
  return run_f32<2>(function, id, executor, handles, length);
}

hologram_status with_scalars(const char* function, uint32_t id, hologram_handle executor,
                             hologram_handle a, hologram_handle c, uint64_t length,
                             std::initializer_list<float> scalars) noexcept {
  const hologram_handle handles[] = {a, c};
  return run_f32<1>(function, id, executor, handles, length, scalars.begin(),
                    static_cast<int>(scalars.size()));
}

hologram_status clip(const char* function, hologram_handle executor, hologram_handle a,
                     hologram_handle c, uint64_t length, float low, float high) noexcept {
  if (!(low <= high)) {
    try {
      fail(ErrorCode::invalid_argument, "low must not exceed high, got {} and {}", low, high);
    } catch (...) {
      return fail_with_current(function);
    }
  }
  return with_scalars(function, builtin::clip, executor, a, c, length, {low, high});
}

/// Any dtype, any number of operands.
void elementwise(uint32_t id, hologram_handle executor, const hologram_handle* inputs,
                 size_t num_inputs, hologram_handle output, uint64_t length) {
  const auto what = builtin::elementwise(id);
  require(what.has_value(), "there is no element-wise operation number {}", id);
  require(what->scalars == 0, "{} takes numbers besides buffers; it has a function of its own",
          what->name);
  require(num_inputs == static_cast<size_t>(what->arity), "{} takes {} operands, got {}",
          what->name, what->arity, num_inputs);
  require(inputs != nullptr, "inputs must not be NULL");
  const Place place(executor);
  const int count = what->arity + 1;
  hologram_handle handles[most_inputs + 1];
  Pin<BufferObject> pins[most_inputs + 1];
  void* arguments[DirectKernel::max_arguments];
  for (int i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    handles[i] = last ? output : inputs[i];
    pins[i] = place.buffer(handles[i], last ? "output" : "inputs");
    arguments[i] = pins[i]->data;
  }
  const bool selects = id == id_of(ir::Op::select);
  const bool compares = id < static_cast<uint32_t>(ir::num_ops) &&
                        ir::info(static_cast<ir::Op>(id)).kind == ir::OpKind::compare;
  const DType operand = pins[count - 2]->dtype, result = compares ? DType::b8 : operand;
  for (int i = 0; i < count; ++i) {
    const BufferObject& b = *pins[i];
    const DType wanted = i + 1 == count ? result : selects && i == 0 ? DType::b8 : operand;
    require(b.dtype == wanted, "{}: buffer {} must be {}, is {}", what->name, i, name_of(wanted),
            name_of(b.dtype));
    require(b.length >= length, "{}: buffer {} has {} elements, {} are needed", what->name, i,
            b.length, length);
    require(i + 1 == count ||
                !overlap(b.data, length * static_cast<uint64_t>(size_of(wanted)),
                         pins[count - 1]->data, length * static_cast<uint64_t>(size_of(result))),
            "{}: operand {} overlaps the output in part; they must be the same or apart",
            what->name, i);
  }
  if (length == 0) return;
  ExecutorState& state = place.executor();
  const DirectKernel& kernel = state.operations->elementwise(id, operand);
  if (place.stream()) {
    Place::Uses uses;
    for (int i = 0; i < count; ++i) uses.push_back(pins[i]->storage);
    return place.run(kernel, arguments, length, std::move(uses));
  }
  const int32_t sticky = state.operations->run(kernel, arguments, static_cast<int64_t>(length));
  state.kernel_calls.add(1);
  if (sticky & atlas::integer_division_by_zero)
    fail(ErrorCode::division_by_zero, "{}: integer division by zero", what->name);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): pairs of functions that differ in the type of length
#define HOLOGRAM_BINARY(name, id)                                                                 \
  hologram_status hologram_##name(hologram_handle executor, hologram_handle a, hologram_handle b, \
                                  hologram_handle c, uint32_t length) {                           \
    return binary(__func__, id, executor, a, b, c, length);                                       \
  }                                                                                               \
  hologram_status hologram_##name##_u64(hologram_handle executor, hologram_handle a,              \
                                        hologram_handle b, hologram_handle c, uint64_t length) {  \
    return binary(__func__, id, executor, a, b, c, length);                                       \
  }

#define HOLOGRAM_UNARY(name, id)                                                      \
  hologram_status hologram_##name(hologram_handle executor, hologram_handle in,       \
                                  hologram_handle out, uint32_t length) {             \
    return unary(__func__, id, executor, in, out, length);                            \
  }                                                                                   \
  hologram_status hologram_##name##_u64(hologram_handle executor, hologram_handle in, \
                                        hologram_handle out, uint64_t length) {       \
    return unary(__func__, id, executor, in, out, length);                            \
  }

#define HOLOGRAM_SCALAR(name, id)                                                                 \
  hologram_status hologram_##name(hologram_handle executor, hologram_handle a, hologram_handle c, \
                                  uint32_t length, float scalar) {                                \
    return with_scalars(__func__, id, executor, a, c, length, {scalar});                          \
  }                                                                                               \
  hologram_status hologram_##name##_u64(hologram_handle executor, hologram_handle a,              \
                                        hologram_handle c, uint64_t length, float scalar) {       \
    return with_scalars(__func__, id, executor, a, c, length, {scalar});                          \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

HOLOGRAM_BINARY(vector_add_f32, id_of(ir::Op::add))
HOLOGRAM_BINARY(vector_sub_f32, id_of(ir::Op::sub))
HOLOGRAM_BINARY(vector_mul_f32, id_of(ir::Op::mul))
HOLOGRAM_BINARY(vector_div_f32, id_of(ir::Op::div))
HOLOGRAM_BINARY(vector_min_f32, id_of(ir::Op::min))
HOLOGRAM_BINARY(vector_max_f32, id_of(ir::Op::max))
HOLOGRAM_UNARY(vector_abs_f32, id_of(ir::Op::abs))
HOLOGRAM_UNARY(vector_neg_f32, id_of(ir::Op::neg))
HOLOGRAM_UNARY(vector_relu_f32, builtin::relu)
HOLOGRAM_UNARY(sigmoid_f32, id_of(ir::Op::sigmoid))
HOLOGRAM_UNARY(tanh_f32, id_of(ir::Op::tanh))
HOLOGRAM_UNARY(gelu_f32, id_of(ir::Op::gelu))
HOLOGRAM_UNARY(gelu_tanh_f32, builtin::gelu_tanh)
HOLOGRAM_SCALAR(scalar_add_f32, builtin::scalar_add)
HOLOGRAM_SCALAR(scalar_mul_f32, builtin::scalar_mul)

hologram_status hologram_vector_clip_f32(hologram_handle executor, hologram_handle a,
                                         hologram_handle c, uint32_t length, float low,
                                         float high) {
  return clip(__func__, executor, a, c, length, low, high);
}
hologram_status hologram_vector_clip_f32_u64(hologram_handle executor, hologram_handle a,
                                             hologram_handle c, uint64_t length, float low,
                                             float high) {
  return clip(__func__, executor, a, c, length, low, high);
}

hologram_status hologram_operation_id(const char* operation, uint32_t* id) {
  return guarded(__func__, [&] {
    require_out(id, "id");
    require(operation != nullptr, "operation must not be NULL");
    const auto found = builtin::find_elementwise(operation);
    require(found.has_value(), "there is no element-wise operation \"{:.40}\"", operation);
    *id = found->id;
  });
}

hologram_status hologram_elementwise_by_id(hologram_handle executor, uint32_t id,
                                           const hologram_handle* inputs, size_t num_inputs,
                                           hologram_handle output, uint64_t length) {
  return guarded(__func__, [&] { elementwise(id, executor, inputs, num_inputs, output, length); });
}

hologram_status hologram_elementwise(hologram_handle executor, const char* operation,
                                     const hologram_handle* inputs, size_t num_inputs,
                                     hologram_handle output, uint64_t length) {
  return guarded(__func__, [&] {
    require(operation != nullptr, "operation must not be NULL");
    const auto found = builtin::find_elementwise(operation);
    require(found.has_value(), "there is no element-wise operation \"{:.40}\"", operation);
    elementwise(found->id, executor, inputs, num_inputs, output, length);
  });
}

hologram_status hologram_convert(hologram_handle executor, hologram_handle input,
                                 hologram_handle output, uint64_t length) {
  return guarded(__func__, [&] {
    const Place place(executor);
    auto from = place.buffer(input, "input");
    auto to = place.buffer(output, "output");
    require(from->length >= length && to->length >= length,
            "length {} exceeds the input's {} or the output's {} elements", length, from->length,
            to->length);
    require(!overlap(from->data, length * static_cast<uint64_t>(size_of(from->dtype)), to->data,
                     length * static_cast<uint64_t>(size_of(to->dtype))),
            "input and output overlap; they must be the same or apart");
    if (length == 0) return;
    void* const arguments[] = {from->data, to->data};
    place.run(place.executor().operations->convert(from->dtype, to->dtype), arguments, length,
              {from->storage, to->storage});
  });
}

}  // extern "C"
