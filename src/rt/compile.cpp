// rt/compile.cpp: what libhologram_rt has in place of runtime/compile.cpp, and with it of canonical
// forms, planning and code generation.
#include "base/error.h"
#include "runtime/planning.h"

namespace hologram::runtime {

bool can_compile() { return false; }

std::shared_ptr<Executable> Executable::compile(const ir::Graph&, const CompileOptions&,
                                                std::shared_ptr<Runtime>) {
  fail(ErrorCode::unsupported,
       "libhologram_rt runs machine code of archives and compiles nothing: use libhologram");
}

}  // namespace hologram::runtime
