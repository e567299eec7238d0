// archive/writer.cpp: making a .holo archive.
#include "archive/writer.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::archive {
namespace {

template <class T>
void require_new(const std::vector<T>& items, const std::string& name, std::string_view what) {
  require(std::ranges::none_of(items, [&](const T& x) { return x.name == name; }),
          "archive: there is a {} \"{}\" already", what, name);
  require(is_plain_text(name), "archive: the name of a {} is no plain text", what);
}

}  // namespace

Writer::Writer(std::filesystem::path path, std::string producer) : file_(std::move(path)) {
  require(is_plain_text(producer), "archive: the name of a producer is no plain text");
  index_.producer = std::move(producer);
  file_.append(std::string(header_bytes, '\0'));
}

uint32_t Writer::add_tensor(Tensor t, std::span<const std::byte> content) {
  require_new(index_.tensors, t.name, "tensor");
  require(t.shape.size() == t.strides.size(), "archive: tensor \"{}\" has {} sizes and {} strides",
          t.name, t.shape.size(), t.strides.size());
  t.bytes = span_of(t.shape, t.strides) * static_cast<uint64_t>(size_of(t.dtype));
  require(t.dtype != DType::host && t.bytes == content.size(),
          "archive: tensor \"{}\" has {} bytes, its shape says {}", t.name, content.size(),
          t.bytes);
  t.pieces.clear();
  for (size_t at = 0; at < content.size(); at += piece_bytes)
    t.pieces.push_back(
        fingerprint(content.subspan(at, std::min<size_t>(piece_bytes, content.size() - at))));
  std::string whole = fmt::format("{}:", content.size());
  for (const Fingerprint& f : t.pieces)
    whole.append(reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size());
  auto [place, fresh] = places_.try_emplace(fingerprint(whole), 0);
  if (fresh) {
    file_.align(alignment);
    place->second = file_.size();
    file_.append(content);
  }
  t.offset = place->second;
  index_.tensors.push_back(std::move(t));
  return static_cast<uint32_t>(index_.tensors.size() - 1);
}

uint32_t Writer::add_section(SectionKind kind, std::string_view content) {
  file_.align(alignment);
  index_.sections.push_back(
      {static_cast<uint32_t>(kind), file_.size(), content.size(), fingerprint(content)});
  file_.append(content);
  return static_cast<uint32_t>(index_.sections.size() - 1);
}

// Variants of an instruction set often have the same code.
uint32_t Writer::shared_section(SectionKind kind, std::string_view content) {
  const Fingerprint hash = fingerprint(content);
  const auto same = std::ranges::find_if(index_.sections, [&](const Section& s) {
    return s.kind == static_cast<uint32_t>(kind) && s.hash == hash && s.bytes == content.size();
  });
  if (same == index_.sections.end()) return add_section(kind, content);
  return static_cast<uint32_t>(same - index_.sections.begin());
}

uint32_t Writer::add_method(Method method, std::string_view graph) {
  require_new(index_.methods, method.name, "method");
  method.graph = add_section(SectionKind::graph, graph);
  index_.methods.push_back(std::move(method));
  graphs_.emplace_back(graph);
  return static_cast<uint32_t>(index_.methods.size() - 1);
}

void Writer::add_loop(Loop loop, std::string_view graph) {
  loop.graph = shared_section(SectionKind::graph, graph);
  index_.loops.push_back(std::move(loop));
  loop_graphs_.emplace_back(graph);
}

void Writer::add_precompiled(Precompiled p, std::string_view plan, std::string_view code) {
  add_code(std::move(p), plan, code, index_.precompiled);
}

void Writer::add_precompiled_loop(Precompiled p, std::string_view plan, std::string_view code) {
  add_code(std::move(p), plan, code, index_.precompiled_loops);
}

void Writer::add_code(Precompiled p, std::string_view plan, std::string_view code,
                      std::vector<Precompiled>& list) {
  require(is_plain_text(p.target) && is_plain_text(p.generator),
          "archive: the name of a target is no plain text");
  p.plan = shared_section(SectionKind::plan, plan);
  p.code = shared_section(SectionKind::code, code);
  list.push_back(std::move(p));
}

Fingerprint Writer::finish() {
  file_.align(alignment);
  Header header;
  header.index_offset = file_.size();
  const std::string index = encode(index_);
  file_.append(index);
  header.index_bytes = index.size();
  header.index_hash = fingerprint(index);
  header.file_bytes = file_.size();
  decode(index, header.file_bytes);  // what no reader takes is not written
  const std::string head = encode(header);
  file_.overwrite(0, head);
  file_.finish();
  return fingerprint(head);
}

}  // namespace hologram::archive
