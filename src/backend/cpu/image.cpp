// backend/cpu/image.cpp: a plan's kernels in one run of bytes.
#include "backend/cpu/image.h"

#include "backend/cpu/compiler.h"
#include "backend/cpu/link.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> stored,
                  std::span<const atlas::EntryStep> steps, const Target& target) {
  if (target.isa == Isa::wasm) return compiler().lay_out_module(programs, stored, steps, target);
  CodeImage image;
  for (size_t i = 0; i < programs.size(); ++i) {
    StoredObject object = from_stored(stored[i], programs[i].num_symbols);
    image.kernels.push_back({link(image.bytes, object.code), std::move(object.launch.total),
                             std::move(object.launch.grain), std::move(object.launch.unit_work)});
  }
  image.run_all = link(image.bytes, compiler().compile_entry(steps, target));
  return image;
}

}  // namespace hologram::cpu
