// schedule/check.cpp: planned programs against the rules of Atlas.
#include "schedule/check.h"

#include "base/error.h"

namespace hologram::schedule {

void check_planned(const atlas::Program& program) {
  std::string fault;
  try {
    return atlas::verify(program);
  } catch (const Error& e) {
    fault = e.what();
  }
  fail(ErrorCode::internal, "internal error in schedule: {}\n{}", fault,
       atlas::disassemble(program));
}

}  // namespace hologram::schedule
