// python/_core/device_batch.cpp: what a queue of calls holds, for those who compile and run it.
#include <algorithm>
#include <cstring>

#include "device_queue.h"
#include "host/memory_pool.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

nb::tuple tuple_of(const std::vector<int64_t>& numbers) {
  nb::list out;
  for (int64_t n : numbers) out.append(n);
  return nb::tuple(out);
}

}  // namespace

Layout Layout::of(const dlpack::Tensor& t) {
  return {t.dtype, {t.shape, t.shape + t.ndim}, {t.strides, t.strides + t.ndim}};
}

bool Layout::operator==(const dlpack::Tensor& t) const {
  return std::memcmp(&dtype, &t.dtype, sizeof dtype) == 0 &&
         sizes.size() == static_cast<size_t>(t.ndim) &&
         std::equal(sizes.begin(), sizes.end(), t.shape) &&
         std::equal(strides.begin(), strides.end(), t.strides);
}

int64_t Layout::bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return (last + 1) * ((dtype.bits * dtype.lanes + 7) / 8);
}

bool Layout::is_contiguous() const {
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

PyObject* device_tensor(const std::shared_ptr<DeviceMemory>& memory, void* data,
                        const Layout& layout) {
  const size_t rank = layout.sizes.size();
  Exported* e = new_exported(rank, nullptr);
  if (!e) return nullptr;
  e->memory = memory;
  std::ranges::copy(layout.sizes, e->shape_and_strides);
  std::ranges::copy(layout.strides, e->shape_and_strides + rank);
  return export_tensor(*DeviceTypes::of_process().exchange, e, layout.dtype, rank, data,
                       {dlpack::external, 0});
}

nb::object Batch::call() const {
  auto found = end_->calls.find(writes_);
  return found == end_->calls.end() ? nb::none() : found->second;
}

nb::list Batch::arguments() const {
  nb::list out;
  auto add = [&](const std::shared_ptr<DeviceMemory>& memory, void* data, const Layout& layout) {
    PyObject* tensor = device_tensor(memory, data, layout);
    if (!tensor) nb::raise_python_error();
    out.append(nb::steal(tensor));
  };
  for (const Value& v : values_) {
    if (v.kind == Value::Kind::given) add(v.memory, v.data, v.layout);
    if (v.kind != Value::Kind::number) continue;
    auto memory = DeviceMemory::of_block(runtime_->memory().allocate(sizeof v.number));
    std::memcpy(memory->begin(), &v.number, sizeof v.number);
    add(memory, memory->begin(), {.dtype = {dlpack::code_float, 64, 1}});
  }
  for (const Value& v : values_)
    if (v.kind == Value::Kind::made && v.memory) add(v.memory, v.data, v.layout);
  return out;
}

nb::list Batch::steps() const {
  nb::list out;
  for (const Sequence* s = end_; s->before; s = s->before) {
    nb::list slots;
    for (uint16_t slot : s->slots) slots.append(static_cast<int>(slot));
    if (s->served)
      out.append(nb::make_tuple(s->served->call, slots));
    else
      out.append(nb::make_tuple(nb::none(), slots, tuple_of(s->view.sizes),
                                tuple_of(s->view.strides), s->offset));
  }
  out.attr("reverse")();
  return out;
}

nb::list Batch::values() const {
  static const char* const names[] = {"given", "number", "made", "view"};
  nb::list out;
  for (size_t i = 0; i < values_.size(); ++i)
    out.append(nb::make_tuple(names[static_cast<size_t>(values_[i].kind)], writes_[i] == '\1'));
  return out;
}

}  // namespace hologram::python
