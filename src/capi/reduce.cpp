// capi/reduce.cpp: reductions, losses, softmax, matrix products on buffers.
#include <cmath>
#include <cstring>

#include "capi/place.h"

using namespace hologram;
using namespace hologram::capi;
using builtin::Flat;

namespace {

Pin<BufferObject> need_f32(const Place& place, hologram_handle handle, std::string_view name,
                           uint64_t length) {
  auto b = place.buffer(handle, name);
  require(b->dtype == DType::f32, "{}: the buffer's dtype must be f32, is {}", name,
          name_of(b->dtype));
  require(b->length >= length, "{}: the buffer has {} elements, {} are needed", name, b->length,
          length);
  return b;
}

uint64_t product(std::initializer_list<uint64_t> factors, std::string_view what) {
  uint64_t n = 1;
  for (uint64_t f : factors)
    require(!__builtin_mul_overflow(n, f, &n) && n <= static_cast<uint64_t>(INT64_MAX) / 4,
            "{} is too large", what);
  return n;
}

std::shared_ptr<runtime::Executable> flat_executable(ExecutorState& state, Flat what) {
  return state.operations->executable(fmt::format("flat {}", static_cast<int>(what)),
                                      [&](ir::Graph& g) { builtin::build_flat(g, what); });
}

/// A number of one or two whole vectors in `out`, on a stream or a device; `count`: what a mean
/// divides by, with its sign. The last step alone stores it, when all was read: it may lie in them.
void put_flat(const Place& place, Flat what, const BufferObject& a, const BufferObject* b,
              const BufferObject& out, uint64_t length, const double* count) {
  constexpr float nothing = 0;
  if (length == 0) return place.put(out.storage, out.data, &nothing, sizeof nothing);
  ExecutorState& state = place.executor();
  void* const inputs[] = {a.data, b ? b->data : nullptr};
  void* const outputs[] = {out.data};
  const auto n = static_cast<int64_t>(length);
  Place::Uses uses{a.storage, out.storage};
  if (b) uses.push_back(b->storage);
  place.run(flat_executable(state, what), inputs, &n, outputs, uses);
  if (!count) return;
  const runtime::StorageRef divisor = place.number(count, sizeof *count);
  double here = *count;
  void* by = &here;
  if (divisor) by = divisor->data();
  void* const mean[] = {out.data, by};
  place.run(state.operations->executable("mean", builtin::build_mean), mean, nullptr, outputs,
            {out.storage, divisor ? divisor : out.storage});
}

void require_no_result(const float* result) {
  require(result == nullptr,
          "result must be NULL on a stream: the number is in out once the stream was waited for");
}

/// Whether a number is made where it belongs; if so and nothing waits, the host gets its copy.
bool put(const Place& place, Flat what, const BufferObject& a, const BufferObject* b,
         const BufferObject& out, uint64_t length, const double* count, float* result) {
  if (place.stream()) require_no_result(result);
  if (!place.stream() && !place.executor().device()) return false;
  put_flat(place, what, a, b, out, length, count);
  if (result) place.executor().copy(result, out.data, sizeof *result);
  return true;
}

/// A number from one or two whole vectors.
float flat(ExecutorState& state, Flat what, const BufferObject& a, const BufferObject* b,
           uint64_t length) {
  float value = 0;
  if (length != 0) {
    void* const inputs[] = {a.data, b ? b->data : nullptr};
    void* const outputs[] = {&value};
    const auto n = static_cast<int64_t>(length);
    const auto e = flat_executable(state, what);
    state.operations->run(*e, inputs, &n, outputs);
    state.kernel_calls.add(e->plan().steps.size());
  }
  return value;
}

void reduce(Flat what, hologram_handle executor, hologram_handle in, hologram_handle out,
            uint64_t length, float* result) {
  const Place place(executor);
  auto input = need_f32(place, in, "in", length);
  auto output = need_f32(place, out, "out", 1);
  require(length != 0 || what == Flat::sum, "nothing has no smallest or largest element");
  if (put(place, what, *input, nullptr, *output, length, nullptr, result)) return;
  const float value = flat(*output->executor, what, *input, nullptr, length);
  output->executor->copy(output->data, &value, sizeof value);
  if (result) *result = value;
}

void loss(Flat what, hologram_handle executor, hologram_handle prediction, hologram_handle target,
          hologram_handle out, uint64_t length, float* result) {
  const Place place(executor);
  auto p = need_f32(place, prediction, "prediction", length);
  auto t = need_f32(place, target, "target", length);
  auto output = need_f32(place, out, "out", 1);
  require(length != 0, "the mean of nothing is not defined; length is 0");
  const double sign = what == Flat::mse ? 1 : -1;
  const double count = sign * static_cast<double>(length);
  if (put(place, what, *p, &*t, *output, length, &count, result)) return;
  const float sum = flat(*output->executor, what, *p, &*t, length);
  const auto value = static_cast<float>(static_cast<double>(sum) / count);
  output->executor->copy(output->data, &value, sizeof value);
  if (result) *result = value;
}

void softmax(hologram_handle executor, hologram_handle in, hologram_handle out, uint64_t length) {
  const Place place(executor);
  auto input = need_f32(place, in, "in", length);
  auto output = need_f32(place, out, "out", length);
  const uint64_t bytes = length * sizeof(float);
  require(input->data == output->data || !meet(input->data, bytes, output->data, bytes),
          "in and out overlap in part; they must be the same or apart");
  if (length == 0) return;
  ExecutorState& state = place.executor();
  // The kernel reads its input again after it has begun to write.
  runtime::StorageRef aside;
  void* target = output->data;
  Place::Uses uses{input->storage, output->storage};
  if (input->data == output->data) {
    aside = state.memory->allocate(bytes);
    target = aside->data();
    uses.push_back(aside);
  }
  void* const inputs[] = {input->data};
  void* const outputs[] = {target};
  const auto n = static_cast<int64_t>(length);
  place.run(flat_executable(state, Flat::softmax), inputs, &n, outputs, uses);
  if (aside) place.move(output->data, target, bytes, uses);
}

void along_axis(hologram_handle executor, const char* operation, hologram_handle in,
                hologram_handle out, uint64_t outer, uint64_t length, uint64_t inner) {
  require(operation != nullptr, "operation must not be NULL");
  const std::string_view name = operation;
  const auto reduction = ir::op_from_name(name);
  const bool is_softmax = name == "softmax";
  require(is_softmax || (reduction && ir::info(*reduction).kind == ir::OpKind::reduce),
          "operation \"{:.40}\" is neither softmax nor reduce_sum, reduce_min, reduce_max or "
          "reduce_prod",
          operation);
  const ir::Op op = is_softmax ? ir::Op::exp : *reduction;
  const uint64_t results = product({outer, inner}, "outer x inner");
  const uint64_t elements = product({results, length}, "outer x length x inner");
  const Place place(executor);
  auto input = need_f32(place, in, "in", elements);
  auto output = need_f32(place, out, "out", is_softmax ? elements : results);
  require(!meet(input->data, elements * 4, output->data, (is_softmax ? elements : results) * 4),
          "in and out overlap");
  require(length != 0 || results == 0 || op == ir::Op::reduce_sum || op == ir::Op::reduce_prod ||
              is_softmax,
          "nothing has no smallest or largest element");
  if (results == 0 || (is_softmax && length == 0)) return;
  ExecutorState& state = place.executor();
  if (length == 0) {
    const std::vector<float> none(results, op == ir::Op::reduce_sum ? 0.0f : 1.0f);
    return place.put(output->storage, output->data, none.data(), results * sizeof(float));
  }
  const bool last = inner == 1;
  const auto e =
      state.operations->executable(fmt::format("along {} {}", ir::name_of(op), last),
                                   [&](ir::Graph& g) { builtin::build_along_axis(g, op, last); });
  void* const inputs[] = {input->data};
  void* const outputs[] = {output->data};
  const int64_t sizes[] = {static_cast<int64_t>(outer), static_cast<int64_t>(length),
                           static_cast<int64_t>(inner)};
  place.run(e, inputs, sizes, outputs, {input->storage, output->storage});
}

void gemm(hologram_handle executor, hologram_handle a, hologram_handle b, hologram_handle c,
          uint64_t m, uint64_t n, uint64_t k) {
  require(m != 0 && n != 0 && k != 0, "no dimension may be 0, got m = {}, n = {}, k = {}", m, n, k);
  const Place place(executor);
  auto left = need_f32(place, a, "a", product({m, k}, "m x k"));
  auto right = need_f32(place, b, "b", product({k, n}, "k x n"));
  auto result = need_f32(place, c, "c", product({m, n}, "m x n"));
  for (const auto* operand : {&left, &right})
    require(!meet((*operand)->data, (operand == &left ? m : n) * k * 4, result->data, m * n * 4),
            "c overlaps an operand");
  const auto e = place.executor().operations->executable(
      "gemm", [](ir::Graph& g) { builtin::build_gemm(g, DType::f32); });
  void* const inputs[] = {left->data, right->data};
  void* const outputs[] = {result->data};
  const int64_t sizes[] = {static_cast<int64_t>(m), static_cast<int64_t>(n),
                           static_cast<int64_t>(k)};
  place.run(e, inputs, sizes, outputs, {left->storage, right->storage, result->storage});
}

void matvec(hologram_handle executor, hologram_handle a, hologram_handle x, hologram_handle y,
            uint64_t m, uint64_t n) {
  require(m != 0 && n != 0, "no dimension may be 0, got m = {}, n = {}", m, n);
  const Place place(executor);
  auto matrix = need_f32(place, a, "a", product({m, n}, "m x n"));
  auto vector = need_f32(place, x, "x", n);
  auto result = need_f32(place, y, "y", m);
  require(!meet(matrix->data, m * n * 4, result->data, m * 4) &&
              !meet(vector->data, n * 4, result->data, m * 4),
          "y overlaps an operand");
  const bool long_rows = n >= 32;
  const auto e = place.executor().operations->executable(
      long_rows ? "matvec true" : "matvec false",
      [=](ir::Graph& g) { builtin::build_matvec(g, DType::f32, long_rows); });
  void* const inputs[] = {matrix->data, vector->data};
  void* const outputs[] = {result->data};
  const int64_t sizes[] = {static_cast<int64_t>(m), static_cast<int64_t>(n)};
  place.run(e, inputs, sizes, outputs, {matrix->storage, vector->storage, result->storage});
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): pairs of functions that differ in the type of length
#define HOLOGRAM_REDUCE(name, what)                                                            \
  hologram_status hologram_##name(hologram_handle executor, hologram_handle in,                \
                                  hologram_handle out, uint32_t length, float* result) {       \
    return guarded(__func__, [&] { reduce(what, executor, in, out, length, result); });        \
  }                                                                                            \
  hologram_status hologram_##name##_u64(hologram_handle executor, hologram_handle in,          \
                                        hologram_handle out, uint64_t length, float* result) { \
    return guarded(__func__, [&] { reduce(what, executor, in, out, length, result); });        \
  }

#define HOLOGRAM_LOSS(name, what)                                                               \
  hologram_status hologram_##name(hologram_handle executor, hologram_handle prediction,         \
                                  hologram_handle target, hologram_handle out, uint32_t length, \
                                  float* result) {                                              \
    return guarded(__func__,                                                                    \
                   [&] { loss(what, executor, prediction, target, out, length, result); });     \
  }                                                                                             \
  hologram_status hologram_##name##_u64(hologram_handle executor, hologram_handle prediction,   \
                                        hologram_handle target, hologram_handle out,            \
                                        uint64_t length, float* result) {                       \
    return guarded(__func__,                                                                    \
                   [&] { loss(what, executor, prediction, target, out, length, result); });     \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

HOLOGRAM_REDUCE(reduce_sum_f32, Flat::sum)
HOLOGRAM_REDUCE(reduce_min_f32, Flat::min)
HOLOGRAM_REDUCE(reduce_max_f32, Flat::max)
HOLOGRAM_LOSS(mse_loss_f32, Flat::mse)
HOLOGRAM_LOSS(cross_entropy_loss_f32, Flat::cross_entropy)
HOLOGRAM_LOSS(binary_cross_entropy_loss_f32, Flat::binary_cross_entropy)

hologram_status hologram_softmax_f32(hologram_handle executor, hologram_handle in,
                                     hologram_handle out, uint32_t length) {
  return guarded(__func__, [&] { softmax(executor, in, out, length); });
}
hologram_status hologram_softmax_f32_u64(hologram_handle executor, hologram_handle in,
                                         hologram_handle out, uint64_t length) {
  return guarded(__func__, [&] { softmax(executor, in, out, length); });
}
hologram_status hologram_along_axis_f32(hologram_handle executor, const char* operation,
                                        hologram_handle in, hologram_handle out, uint64_t outer,
                                        uint64_t length, uint64_t inner) {
  return guarded(__func__, [&] { along_axis(executor, operation, in, out, outer, length, inner); });
}
hologram_status hologram_gemm_f32(hologram_handle executor, hologram_handle a, hologram_handle b,
                                  hologram_handle c, uint32_t m, uint32_t n, uint32_t k) {
  return guarded(__func__, [&] { gemm(executor, a, b, c, m, n, k); });
}
hologram_status hologram_gemm_f32_u64(hologram_handle executor, hologram_handle a,
                                      hologram_handle b, hologram_handle c, uint64_t m, uint64_t n,
                                      uint64_t k) {
  return guarded(__func__, [&] { gemm(executor, a, b, c, m, n, k); });
}
hologram_status hologram_matvec_f32(hologram_handle executor, hologram_handle a, hologram_handle x,
                                    hologram_handle y, uint32_t m, uint32_t n) {
  return guarded(__func__, [&] { matvec(executor, a, x, y, m, n); });
}
hologram_status hologram_matvec_f32_u64(hologram_handle executor, hologram_handle a,
                                        hologram_handle x, hologram_handle y, uint64_t m,
                                        uint64_t n) {
  return guarded(__func__, [&] { matvec(executor, a, x, y, m, n); });
}

}  // extern "C"
