// runtime/staging.cpp: which bytes go where, and when.
#include "runtime/staging.h"

namespace hologram::runtime {

using schedule::SlotKind;

Staging::Staging(const Executable& executable, Memory& device,
                 const Executable::Arguments& arguments, Outputs& outputs, Host* host, Frame& frame)
    : executable_(executable),
      device_(device),
      given_(arguments),
      outputs_(outputs),
      host_(host),
      frame_(frame),
      stream_(frame.stream) {
  const schedule::Plan& plan = executable.plan();
  const std::span<const int64_t> symbols(arguments.symbols, static_cast<size_t>(plan.num_symbols));
  written_.resize(static_cast<size_t>(plan.num_parameters));
  for (const schedule::PlanOutput& o : plan.outputs) {
    const schedule::Slot& s = plan.slots[static_cast<size_t>(o.slot)];
    if (o.mutation && s.kind == SlotKind::input) written_[static_cast<size_t>(s.index)] = true;
  }
  parameters_.assign(arguments.parameters, arguments.parameters + plan.num_parameters);
  try {
    for (const schedule::Slot& s : plan.slots) {
      if (s.kind != SlotKind::input || s.dtype == DType::host) continue;
      const auto p = static_cast<size_t>(s.index);
      void* given = parameters_[p];
      const auto bytes = static_cast<size_t>(s.bytes.eval(symbols));
      if (!given || bytes == 0 || device.contains(given)) continue;
      if (arguments.kept && take_copy(p, bytes, *arguments.kept)) continue;
      parameters_[p] = to_device(given, bytes);
      if (written_[p]) back_.push_back({given, parameters_[p], bytes});
    }
  } catch (...) {
    for (void* block : blocks_) device_.deallocate(block, stream_);
    throw;
  }
}

Staging::~Staging() {
  for (void* block : blocks_) device_.deallocate(block, stream_);
  for (void* block : pooled_) host::MemoryPool::deallocate(block);
}

Executable::Arguments Staging::arguments() const {
  return {parameters_.data(), given_.symbols, given_.kept, given_.observer};
}

// A static parameter as it is kept on the device, if it is, or nothing, if nothing reads it.
bool Staging::take_copy(size_t parameter, size_t bytes, Kept& kept) {
  if (!executable_.reads(parameter, kept)) return true;
  const int entry = executable_.copy_of(parameter);
  if (entry < 0) return false;
  kept.resize(executable_.plan().cache.size());
  const auto c = static_cast<size_t>(entry);
  if (!kept[c]) kept.set(c, executable_.keep_copy(parameters_[parameter], bytes, outputs_, frame_));
  parameters_[parameter] = kept[c].get();
  return true;
}

void* Staging::to_device(void* host, size_t bytes) {
  void* block = device_.allocate(bytes, stream_);
  blocks_.push_back(block);
  device_.copy(block, host, bytes, stream_);
  return block;
}

size_t Staging::bytes_of(int slot) const {
  const schedule::Slot& s = executable_.plan().slots[static_cast<size_t>(slot)];
  return static_cast<size_t>(s.bytes.eval(frame_.symbols));
}

void* Staging::allocate(int index, size_t bytes, Frame& frame) {
  void* result = outputs_.allocate(index, bytes, frame);
  if (bytes == 0 || device_.contains(result)) return result;
  void* block = device_.allocate(bytes, stream_);
  blocks_.push_back(block);
  back_.push_back({result, block, bytes});
  results_[index] = result;
  return block;
}

// Where calls to the host see a slot: the caller's own memory of a parameter or a result, else a
// copy that lives as long as the call.
void* Staging::host_side(int slot) {
  auto [it, fresh] = visible_.try_emplace(slot, nullptr);
  if (!fresh) return it->second;
  const schedule::Slot& s = executable_.plan().slots[static_cast<size_t>(slot)];
  if (s.kind == SlotKind::input && !device_.contains(given_.parameters[s.index]))
    return it->second = given_.parameters[s.index];
  if (s.kind == SlotKind::output)
    if (auto result = results_.find(s.index); result != results_.end())
      return it->second = result->second;
  pooled_.push_back(executable_.runtime().memory().allocate(bytes_of(slot)));
  return it->second = pooled_.back();
}

int32_t Staging::call(const schedule::Step& step, Frame& frame) {
  const auto& slots = executable_.plan().slots;
  auto is_memory = [&](int slot) {
    return slot >= 0 && slots[static_cast<size_t>(slot)].dtype != DType::host;
  };
  std::map<int, void*> on_device;
  for (int slot : step.arguments) {
    void*& address = frame.slots[static_cast<size_t>(slot)];
    if (!is_memory(slot) || on_device.contains(slot) || !device_.contains(address)) continue;
    on_device[slot] = address;
    void* visible = host_side(slot);
    const schedule::Slot& s = slots[static_cast<size_t>(slot)];
    const bool same = s.kind == SlotKind::input && visible == given_.parameters[s.index] &&
                      !written_[static_cast<size_t>(s.index)];
    if (!same) device_.copy(visible, address, bytes_of(slot), stream_);
    address = visible;
  }
  const int32_t status = host_->call(step, frame);
  // The host may have written its operands.
  for (auto [slot, address] : on_device) {
    void*& visible = frame.slots[static_cast<size_t>(slot)];
    device_.copy(address, visible, bytes_of(slot), stream_);
    visible = address;
  }
  if (status != 0) return status;
  for (int slot : step.results) {
    if (!is_memory(slot)) continue;
    void*& address = frame.slots[static_cast<size_t>(slot)];
    if (bytes_of(slot) == 0 || device_.contains(address)) continue;
    visible_[slot] = address;
    address = to_device(address, bytes_of(slot));
  }
  return 0;
}

void Staging::copy_back() {
  for (const Copy& c : back_) device_.copy(c.host, c.device, c.bytes, stream_);
}

}  // namespace hologram::runtime
