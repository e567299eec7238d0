// runtime/kernel_cache.cpp: compiled kernels by content.
#include "runtime/kernel_cache.h"

#include "base/error.h"

namespace hologram::runtime {
namespace {

// Kernels that nothing uses are forgotten when so many more have been made: those of programs that
// keep compiling for new sizes. The disk still has them.
constexpr size_t unused_kernels = 1024;

bool is_unused(const auto& kernel) { return kernel.use_count() == 1; }
size_t code_bytes_of(const Kernel& kernel) { return kernel.code_bytes; }
size_t code_bytes_of(const LaneKernel& kernel) { return kernel.code_bytes(); }

template <class Made>
void forget_unused(Made& made) {
  std::erase_if(made, [](const auto& entry) { return is_unused(entry.second); });
}

}  // namespace

// What was made before, or by another thread meanwhile, counts as a memory hit.
template <class K, class Make>
std::shared_ptr<const K> KernelCache::get_from(Table<K>& table, const Fingerprint& key,
                                               KernelSource* source, const Make& make) {
  auto find = [&] {
    std::lock_guard lock(mutex_);
    auto it = table.made.find(key);
    return it == table.made.end() ? nullptr : it->second;
  };
  KernelSource from = KernelSource::memory;
  std::shared_ptr<const K> kernel = find();
  if (!kernel)
    kernel = table.in_progress.call(key, [&] {
      std::shared_ptr<const K> mine = find();  // made between the look and the claim?
      if (mine) return mine;
      mine = make(from);
      std::lock_guard lock(mutex_);
      if (table.made.size() % unused_kernels == unused_kernels - 1) forget_unused(table.made);
      table.made.emplace(key, mine);
      return mine;
    });
  if (from == KernelSource::memory) {
    ++memory_hits_;
    disk_.note(key);
  }
  if (source) *source = from;
  return kernel;
}

bool KernelCache::is_made(const Fingerprint& key) const {
  std::lock_guard lock(mutex_);
  return kernels_.made.contains(key);
}

// From the library or from disk, or made quickly, or compiled well and then put on disk.
std::shared_ptr<const Kernel> KernelCache::make(const atlas::Program& program,
                                                const Fingerprint& content, const Fingerprint& key,
                                                bool quickly, KernelSource& source) {
  if (auto kernel = backend_.builtin(program, content)) {
    source = KernelSource::builtin;
    ++builtin_;
    return std::make_shared<Kernel>(std::move(*kernel));
  }
  if (auto code = disk_.get(key)) try {
      auto kernel = std::make_shared<Kernel>(backend_.load(program, *code));
      source = KernelSource::disk;
      ++disk_hits_;
      return kernel;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;  // else it is compiled anew
    }
  if (auto quick = quickly ? backend_.quick_kernel(program) : std::nullopt) {
    source = quick->routine ? KernelSource::builtin : KernelSource::compiled;
    ++(quick->routine ? builtin_ : misses_);
    quick->quick = true;
    return std::make_shared<Kernel>(std::move(*quick));
  }
  const std::string code = backend_.compile(program);
  auto kernel = std::make_shared<Kernel>(backend_.load(program, code));
  source = KernelSource::compiled;
  ++misses_;
  disk_.put(key, code);
  return kernel;
}

std::shared_ptr<const Kernel> KernelCache::get(const atlas::Program& program,
                                               const Fingerprint& content, KernelSource* source,
                                               Quality quality) {
  const Fingerprint key = fingerprint(content.hex() + backend_.code_key());
  const bool quickly = quality == Quality::any && !is_made(key);
  return get_from(kernels_, quickly ? fingerprint("quickly " + key.hex()) : key, source,
                  [&](KernelSource& from) { return make(program, content, key, quickly, from); });
}

std::shared_ptr<const LaneKernel> KernelCache::make_lanes(const atlas::LaneProgram& program,
                                                          const Fingerprint& key,
                                                          KernelSource& source) {
  if (auto code = disk_.get(key)) try {
      std::shared_ptr<const LaneKernel> kernel = backend_.load_lanes(program, *code);
      source = KernelSource::disk;
      ++disk_hits_;
      return kernel;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;  // else it is compiled anew
    }
  source = KernelSource::compiled;
  ++misses_;
  auto code = backend_.lane_code(program);
  if (!code) return backend_.compile_lanes(program);
  std::shared_ptr<const LaneKernel> kernel = backend_.load_lanes(program, *code);
  disk_.put(key, *code);
  return kernel;
}

std::shared_ptr<const LaneKernel> KernelCache::get_lanes(const atlas::LaneProgram& program,
                                                         KernelSource* source) {
  const Fingerprint key =
      fingerprint("lanes " + atlas::fingerprint(program).hex() + backend_.code_key());
  return get_from(lanes_, key, source,
                  [&](KernelSource& from) { return make_lanes(program, key, from); });
}

KernelCache::Stats KernelCache::stats() const {
  std::lock_guard lock(mutex_);
  Stats s{memory_hits_, disk_hits_, misses_, builtin_, kernels_.made.size()};
  auto add = [&](const auto& made) {
    for (const auto& [key, kernel] : made)
      (is_unused(kernel) ? s.code_cached : s.code_in_use) += code_bytes_of(*kernel);
  };
  add(kernels_.made);
  add(lanes_.made);
  return s;
}

void KernelCache::clear() {
  std::lock_guard lock(mutex_);
  forget_unused(kernels_.made);
  forget_unused(lanes_.made);
}

}  // namespace hologram::runtime
