// archive/precompile.cpp: machine code in archives: making it, and making it again to compare.
#include "archive/precompile.h"

#include <algorithm>

#include "archive/method_graph.h"
#include "archive/planner_sources.h"
#include "backend/registry.h"
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

std::string generator_of(const Backend& backend) {
  return fmt::format("{} {}", sources_hash, backend.code_key());
}

// The build that made it, in words, and what is left of the name without it.
std::pair<std::string, std::string> split_generator(const std::string& generator) {
  constexpr std::string_view between = " made by ";
  const size_t at = generator.rfind(between);
  if (at == generator.npos) return {{}, generator};
  return {generator.substr(at + between.size()), generator.substr(0, at)};
}

using Family = std::vector<std::unique_ptr<Backend>>;

// Backends for these instruction sets. WGSL, which is none of `backend`'s, needs no device.
Family family_of(const Backend& backend, std::span<const std::string> isas) {
  const std::string_view text = "wgsl";
  std::vector<std::string> own;
  std::ranges::copy_if(isas, std::back_inserter(own), [&](const auto& i) { return i != text; });
  Family family;
  try {
    if (!own.empty() || isas.empty()) family = backend.family(own);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) throw;
    fail(e.code(), "{}, or {} for WebGPU", e.what(), text);
  }
  if (own.size() == isas.size()) return family;
  const RegisteredBackend* found = find_backend("webgpu");
  if (!found) fail(ErrorCode::unsupported, "{}: this build lacks the backend \"webgpu\"", text);
  family.push_back(found->make(without_device));
  return family;
}

// Why no backend of the family makes the code of `p` again.
[[noreturn]] void refuse_other_generator(const Precompiled& p, const std::string& own,
                                         const std::string& where) {
  const auto [theirs, version] = split_generator(p.generator);
  const auto [ours, here] = split_generator(own);
  if (p.abi != runtime::stored_abi || version != here)
    fail(ErrorCode::unsupported, "{}: its code is by another version of the generator", where);
  fail(ErrorCode::unsupported,
       "{}: its code is by a build of {}, and this one, of {}, puts some instructions in another "
       "order: compile it again with one of the former",
       where, theirs, ours);
}

// What is left to PyTorch has no machine code.
void refuse_other_calls(const ir::Graph& graph, const Index& index, uint32_t method) {
  for (ir::Value v : ir::live_nodes(graph))
    if (v->is(ir::Op::host_call) && std::ranges::none_of(index.loops, [&](const Loop& l) {
          return l.method == method && l.callee == v->attrs.ints[0];
        }))
      fail(ErrorCode::unsupported, "operation {} needs a host framework", v->attrs.text);
}

using Targets = std::vector<const Backend*>;

// Adds to `list` by `add` what graph number `number` lacks.
template <class Add>
void compile_for_each(const Targets& targets, const ir::Graph& graph, uint32_t number,
                      const runtime::CompileOptions& options, CodeStore* cache,
                      const std::vector<Precompiled>& list, const Add& add) {
  for (const Backend* target : targets) {
    const std::string name = target->target();
    if (std::ranges::any_of(
            list, [&](const Precompiled& p) { return p.method == number && p.target == name; }))
      continue;
    const runtime::StoredPlan made = runtime::compile_for(graph, options, *target, cache);
    add({number, name, runtime::stored_abi, generator_of(*target)}, made);
  }
}

void verify(const Archive& archive, const Backend& backend, const Precompiled& p, uint32_t graph,
            const runtime::CompileOptions& options, const std::string& what) {
  const std::string where = fmt::format("{}: {} for {}", archive.name(), what, p.target);
  const std::string isas[] = {isa_of(p.target)};
  const Family family = family_of(backend, isas);
  const auto found =
      std::ranges::find_if(family, [&](const auto& b) { return b->target() == p.target; });
  if (found == family.end())
    fail(ErrorCode::unsupported, "{}: this version has no such target", where);
  const std::string own = generator_of(**found);
  if (own != p.generator || p.abi != runtime::stored_abi) refuse_other_generator(p, own, where);
  runtime::StoredPlan made;
  try {
    made = runtime::compile_for(*parsed(archive.checked_section(graph)), options, **found, nullptr);
  } catch (const Error& e) {
    fail(e.code() == ErrorCode::invalid_argument ? ErrorCode::corrupt : e.code(), "{}: {}", where,
         e.what());
  }
  if (made.plan != archive.section(p.plan) || made.code != archive.section(p.code))
    fail(ErrorCode::corrupt, "{}: its code is not what its graph compiles to", where);
}

void compile_all(Writer& writer, const Targets& targets, CodeStore* cache) {
  const Index& index = writer.index();
  for (uint32_t m = 0; m < index.methods.size(); ++m) {
    const auto graph = parsed(writer.graph(m));
    refuse_other_calls(*graph, index, m);
    compile_for_each(targets, *graph, m, options_of(index, index.methods[m]), cache,
                     index.precompiled, [&](Precompiled p, const runtime::StoredPlan& made) {
                       writer.add_precompiled(std::move(p), made.plan, made.code);
                     });
  }
  for (uint32_t l = 0; l < index.loops.size(); ++l)
    compile_for_each(targets, *parsed(writer.loop_graph(l)), l, options_of(index, index.loops[l]),
                     cache, index.precompiled_loops,
                     [&](Precompiled p, const runtime::StoredPlan& made) {
                       writer.add_precompiled_loop(std::move(p), made.plan, made.code);
                     });
}

}  // namespace

void precompile(Writer& writer, const Backend& backend, std::span<const std::string> isas,
                CodeStore* cache) {
  const Family family = family_of(backend, isas);
  Targets targets;
  for (const auto& target : family) targets.push_back(target.get());
  compile_all(writer, targets, cache);
}

void precompile_here(Writer& writer, const Backend& backend, CodeStore* cache) {
  if (!backend.target().empty()) compile_all(writer, {&backend}, cache);
}

Fingerprint with_targets(const Archive& archive, const std::filesystem::path& path,
                         const Backend& backend, std::span<const std::string> isas,
                         CodeStore* cache) {
  const Index& index = archive.index();
  Writer writer(path, index.producer);
  for (const Tensor& t : index.tensors) writer.add_tensor(t, {archive.data(t), t.bytes});
  for (const Method& m : index.methods) writer.add_method(m, archive.checked_section(m.graph));
  for (const Loop& l : index.loops) writer.add_loop(l, archive.checked_section(l.graph));
  for (const Precompiled& p : index.precompiled)
    writer.add_precompiled(p, archive.checked_section(p.plan), archive.checked_section(p.code));
  for (const Precompiled& p : index.precompiled_loops)
    writer.add_precompiled_loop(p, archive.checked_section(p.plan),
                                archive.checked_section(p.code));
  precompile(writer, backend, isas, cache);
  return writer.finish();
}

void verify_code(const Archive& archive, const Backend& backend) {
  const Index& index = archive.index();
  for (const Precompiled& p : index.precompiled) {
    const Method& m = index.methods[p.method];
    verify(archive, backend, p, m.graph, options_of(index, m),
           fmt::format("method \"{}\"", m.name));
  }
  for (const Precompiled& p : index.precompiled_loops) {
    const Loop& l = index.loops[p.method];
    verify(archive, backend, p, l.graph, options_of(index, l),
           fmt::format("a loop of method \"{}\"", index.methods[l.method].name));
  }
}

}  // namespace hologram::archive
