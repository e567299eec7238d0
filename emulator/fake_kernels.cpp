// emulator/fake_kernels.cpp: modules, launches and tensor maps of the fake libcuda.
#include "emulator/fake_kernels.h"

#include <cstring>

#include "emulator/fake_cubin.h"
#include "emulator/tensor_map.h"
#include "emulator/values.h"

namespace fakecuda {

Queues::Work work_of(Device* d, KernelWork work) {
  ++d->launches;
  const bool fails = common().strikes("kernel");
  return [=, work = std::move(work)] {
    if (fails) return d->breaks(launch_failed, "unspecified launch failure");
    if (work.kernel.owner->unloaded) return d->breaks(launch_failed, "an unloaded module's kernel");
    return d->run(work.kernel, work.grid, work.block, work.parameters, work.shared_bytes);
  };
}

KernelWork kernel_work(const Function& f, ptx::Dim3 grid, ptx::Dim3 block, void** parameters,
                       unsigned shared_bytes) {
  KernelWork work{f, grid, block, {}, shared_bytes};
  work.parameters.resize(static_cast<size_t>(f.kernel->parameter_bytes));
  for (size_t k = 0; k < f.kernel->parameters.size(); ++k)
    std::memcpy(work.parameters.data() + f.kernel->places[k], parameters[k],
                static_cast<size_t>(f.kernel->parameters[k]));
  return work;
}

}  // namespace fakecuda

using namespace fakecuda;

namespace fakecuda {

int misfit(const Function& f, ptx::Dim3 grid, ptx::Dim3 block, int64_t shared) {
  if (!grid.count() || !block.count() || block.count() > 1024 || shared > f.most_dynamic)
    return invalid_value;
  if (block.count() <= static_cast<uint64_t>(f.kernel->max_threads)) return success;
  common().set_report("too many resources requested for launch");
  return out_of_resources;
}

}  // namespace fakecuda

EXPORT cuModuleLoadData(std::shared_ptr<LoadedModule>** module, const void* image) {
  if (const int no = refused(current())) return no;
  if (const int no = forbidden_in_captures()) return no;
  auto m = std::make_shared<LoadedModule>();
  m->device = current();
  const auto* contents = static_cast<const char*>(image);
  if (contents[0] == '\x7f') {
    if (const int64_t no = common().injected("load", success)) return static_cast<int>(no);
    auto text = ptx::from_fake_cubin(contents, current()->gpu());
    if (!text) return invalid_image;
    m->text = std::move(*text);
    ++common().cubins;
  } else {
    m->text = contents;
  }
  try {
    m->module = ptx::read(m->text, 0);
    if (!current()->runs(m->module.target)) return no_binary;
    if (const int64_t bytes = m->module.global_bytes) {
      m->globals = current()->allocate(static_cast<size_t>(bytes));
      m->module = ptx::read(m->text, m->globals);
      for (auto& [name, v] : m->module.globals) {
        if (v.space == ptx::Space::shared) continue;
        uint8_t* at = current()->find(m->globals + static_cast<uint64_t>(v.offset),
                                      static_cast<size_t>(v.bytes));
        std::fill_n(at, v.bytes, uint8_t{0});
        std::copy(v.init.begin(), v.init.end(), at);
      }
    }
    for (auto& [name, kernel] : m->module.kernels) {
      constexpr int64_t most = 48 << 10;
      if (kernel.own_shared_bytes > most)
        throw ptx::Fault("ptxas error   : Entry function '" + name +
                         "' uses too much shared data (" + std::to_string(kernel.own_shared_bytes) +
                         " bytes, " + std::to_string(most) + " max)");
      for (ptx::Instr& i : kernel.code) i.code = ptx::code_of(i);
    }
  } catch (const ptx::Fault& fault) {
    common().set_report(std::string("a PTX JIT compilation failed: ") + fault.what());
    return invalid_ptx;
  }
  ++common().modules;
  *module = new std::shared_ptr<LoadedModule>(std::move(m));
  return success;
}
EXPORT cuModuleUnload(std::shared_ptr<LoadedModule>* module) {
  if (current() != (*module)->device) return invalid_context;
  if (const int no = forbidden_in_captures()) return no;
  (*module)->unloaded = true;
  --common().modules;
  if ((*module)->globals) current()->release((*module)->globals);
  delete module;
  return success;
}
EXPORT cuModuleGetFunction(Function** function, std::shared_ptr<LoadedModule>* module,
                           const char* name) {
  auto it = (*module)->module.kernels.find(name);
  if (it == (*module)->module.kernels.end()) return not_found;
  // Lives as long as the process: a few bytes.
  *function = new Function{*module, &it->second, (int64_t{48} << 10) - it->second.own_shared_bytes};
  return success;
}
EXPORT cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, Stream* stream, void** parameters, void**) {
  if (const int no = refused(current())) return no;
  if (common().strikes("launch")) {
    common().set_report("too many resources requested for launch");
    return out_of_resources;
  }
  if (const int no = misfit(*f, {gx, gy, gz}, {bx, by, bz}, shared)) return no;
  Device* d = f->owner->device;
  if (current() != d || device_of(stream) != d) return invalid_handle;
  return push(stream, work_of(d, kernel_work(*f, {gx, gy, gz}, {bx, by, bz}, parameters, shared)));
}
EXPORT cuFuncSetAttribute(Function* f, int attribute, int value) {
  constexpr int max_dynamic_shared = 8;
  if (attribute != max_dynamic_shared || value < 0) return invalid_value;
  if (value + f->kernel->own_shared_bytes > f->owner->device->most_shared()) return invalid_value;
  f->most_dynamic = value;
  return success;
}
EXPORT cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const unsigned* box,
                              const unsigned* steps, int interleave, int swizzle, int, int fill) {
  static constexpr uint8_t bytes_of[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  static constexpr uint8_t patterns[] = {0, 32, 64, 128};
  if (!current()) return invalid_context;
  if (current()->capability() < 90) return not_supported;
  if (common().injected("map", 0)) return invalid_value;
  if (type < 0 || type > 9 || rank < 1 || rank > 5 || interleave != 0 || swizzle < 0 ||
      swizzle > 3 || fill != 0 || reinterpret_cast<uint64_t>(map) % 128 != 0)
    return invalid_value;
  ptx::TensorMap m;
  m.address = reinterpret_cast<uint64_t>(address);
  m.rank = static_cast<uint8_t>(rank), m.element = bytes_of[type], m.swizzle = patterns[swizzle];
  bool legal = m.address % 16 == 0;
  for (unsigned d = 0; d < rank; ++d) {
    legal = legal && sizes[d] >= 1 && sizes[d] <= uint64_t{1} << 32 && box[d] >= 1 &&
            box[d] <= 256 && steps[d] == 1;
    m.last[d] = static_cast<uint32_t>(sizes[d] - 1);
    m.box[d] = static_cast<uint16_t>(box[d]);
    if (d == 0) continue;
    const uint64_t stride = strides[d - 1];
    legal = legal && stride % 16 == 0 && stride > 0 && stride < uint64_t{1} << 40;
    m.low[d - 1] = static_cast<uint32_t>(stride / 16);
    m.high[d - 1] = static_cast<uint16_t>(stride / 16 >> 32);
  }
  const unsigned row = box[0] * m.element;
  if (!legal || row % 16 != 0 || (m.swizzle && row > m.swizzle)) return invalid_value;
  std::memset(map, 0, 128);
  std::memcpy(map, &m, sizeof m);
  ++common().maps;
  return success;
}
EXPORT cuTensorMapReplaceAddress(void* map, void* address) {
  const auto p = reinterpret_cast<uint64_t>(address);
  if (p % 16 != 0) return invalid_value;
  std::memcpy(map, &p, sizeof p);
  return success;
}
