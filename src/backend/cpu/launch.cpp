// backend/cpu/launch.cpp: the native function that runs all steps of a plan, made or found.
#include "backend/cpu/launch.h"

#include "backend/cpu/compiler.h"
#include "backend/native_launcher.h"

namespace hologram::cpu {
namespace {

std::shared_ptr<LoadedKernel> load_or_compile(std::span<const atlas::EntryStep> steps,
                                              const Target& target, const Fingerprint& key,
                                              CodeStore& store) {
  if (auto code = store.get(key)) try {
      return cpu::load(*code);
    } catch (const Error&) {  // not code of ours: compile it anew
    }
  const std::string code = compiler().compile_entry(steps, target);
  auto loaded = cpu::load(code);
  store.put(key, code);
  return loaded;
}

Fingerprint key_of(std::span<const atlas::EntryStep> steps, std::string_view code_key) {
  std::string text = "entry";
  for (const atlas::EntryStep& s : steps)
    text += fmt::format(" {},{},{},{}", s.kernel, s.first_buffer, s.first_argument, s.cached);
  return fingerprint(fmt::format("{} {}", text, code_key));
}

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        const Target& target, std::string_view code_key,
                                        CodeStore& store, EntriesInProgress& in_progress) {
  const Fingerprint key = key_of(steps, code_key);
  auto entry = in_progress.call(key, [&] { return load_or_compile(steps, target, key, store); });
  auto run_all = reinterpret_cast<atlas::EntryFn>(reinterpret_cast<void*>(entry->function));
  const size_t bytes = entry->bytes;
  return std::make_unique<NativeLauncher>(steps, kernels, run_all, std::move(entry), bytes);
}

}  // namespace hologram::cpu
