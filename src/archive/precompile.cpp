// archive/precompile.cpp: machine code in archives: making it, and making it again to compare.
#include "archive/precompile.h"

#include <algorithm>

#include "archive/method_graph.h"
#include "base/error.h"
#include "runtime/stored_plan.h"

namespace hologram::archive {
namespace {

// The instruction set among the words of a target: "cpu avx2 …".
std::string isa_of(const std::string& target) {
  const size_t first = target.find(' ') + 1;
  std::string isa = target.substr(first, target.find(' ', first) - first);
  return target.find("+amx") == target.npos ? isa : "amx";
}

}  // namespace

void precompile(Writer& writer, const Backend& backend, std::span<const std::string> isas,
                CodeStore* cache) {
  const auto targets = backend.family(isas);
  for (uint32_t m = 0; m < writer.index().methods.size(); ++m) {
    const Method method = writer.index().methods[m];
    const auto graph = parsed(writer.graph(m));
    for (const auto& target : targets) {
      const std::string name = target->target();
      if (std::ranges::any_of(writer.index().precompiled, [&](const Precompiled& p) {
            return p.method == m && p.target == name;
          }))
        continue;
      const runtime::StoredPlan made =
          runtime::compile_for(*graph, options_of(writer.index(), method), *target, cache);
      writer.add_precompiled({m, name, runtime::stored_abi, target->code_key()}, made.plan,
                             made.code);
    }
  }
}

Fingerprint with_targets(const Archive& archive, const std::filesystem::path& path,
                         const Backend& backend, std::span<const std::string> isas,
                         CodeStore* cache) {
  const Index& index = archive.index();
  Writer writer(path, index.producer);
  for (const Tensor& t : index.tensors) writer.add_tensor(t, {archive.data(t), t.bytes});
  for (const Method& m : index.methods) writer.add_method(m, archive.section(m.graph));
  for (const Precompiled& p : index.precompiled)
    writer.add_precompiled(p, archive.checked_section(p.plan), archive.checked_section(p.code));
  precompile(writer, backend, isas, cache);
  return writer.finish();
}

void verify_code(const Archive& archive, const Backend& backend) {
  const Index& index = archive.index();
  for (const Precompiled& p : index.precompiled) {
    const Method& m = index.methods[p.method];
    const std::string where =
        fmt::format("{}: method \"{}\" for {}", archive.name(), m.name, p.target);
    const std::string isas[] = {isa_of(p.target)};
    const auto family = backend.family(isas);
    const auto made_by =
        std::ranges::find_if(family, [&](const auto& b) { return b->code_key() == p.generator; });
    if (made_by == family.end() || p.abi != runtime::stored_abi)
      fail(ErrorCode::unsupported, "{}: its code is by another version of the generator", where);
    const runtime::StoredPlan made = runtime::compile_for(*parsed(archive.section(m.graph)),
                                                          options_of(index, m), **made_by, nullptr);
    if (made.plan != archive.section(p.plan) || made.code != archive.section(p.code))
      fail(ErrorCode::corrupt, "{}: its code is not what its graph compiles to", where);
  }
}

}  // namespace hologram::archive
