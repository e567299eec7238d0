// schedule/print.cpp: plans as text.
#include "schedule/plan.h"

namespace hologram::schedule {

std::string print(const Plan& plan) {
  static constexpr const char* kinds[] = {"input", "output", "arena", "host", "cached"};
  std::string out;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& s = plan.slots[i];
    out += fmt::format("slot {} {} {}{} {} strides {}", i, kinds[static_cast<int>(s.kind)],
                       s.index < 0 ? "" : fmt::format("{} ", s.index), name_of(s.dtype),
                       str(s.shape), str(s.strides));
    if (s.kind == SlotKind::arena)
      out += fmt::format(" at {}{}", s.offset.str(), s.boundary ? " boundary" : "");
    out += "\n";
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& s = plan.steps[i];
    if (s.kind == StepKind::host_call)
      out += fmt::format("step {} host {} ({}) -> ({})\n", i, s.name, fmt::join(s.arguments, ", "),
                         fmt::join(s.results, ", "));
    else
      out +=
          fmt::format("step {} kernel {} ({}) # {}{}\n", i, s.program, fmt::join(s.buffers, ", "),
                      s.name, s.cached >= 0 ? fmt::format(" cached {}", s.cached) : "");
  }
  out += fmt::format("arena {} bytes, {} of them in the boundary pool\n", plan.arena_bytes.str(),
                     plan.boundary_bytes);
  for (size_t i = 0; i < plan.programs.size(); ++i)
    out += fmt::format("\nprogram {}\n{}", i, atlas::disassemble(plan.programs[i]));
  return out;
}

}  // namespace hologram::schedule
