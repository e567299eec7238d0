// archive/describe.cpp: what an archive holds, as JSON.
#include "archive/describe.h"

#include <fmt/format.h>

#include <set>

#include "base/json_string.h"

namespace hologram::archive {
namespace {

std::string array_text(const Signature& s, const Method& m) {
  std::string shape, comma;
  for (const Expr& e : s.shape) {
    shape +=
        comma + (e.is_const() ? fmt::format("{}", e.constant_value()) : json_string(named(e, m)));
    comma = ", ";
  }
  return fmt::format(R"({{"name": {}, "dtype": "{}", "shape": [{}]}})", json_string(s.name),
                     name_of(s.dtype), shape);
}

template <class List, class F>
std::string joined(const List& items, const F& text) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

}  // namespace

std::string describe(const Archive& a) {
  const Index& index = a.index();
  const auto method = [](const Method& m) {
    const auto array = [&](const Signature& s) { return array_text(s, m); };
    const auto size = [](const Symbol& s) {
      return fmt::format("{}: [{}, {}]", json_string(s.name), s.least, s.most);
    };
    return fmt::format(R"({}: {{"inputs": [{}], "results": [{}], "sizes": {{{}}}}})",
                       json_string(m.name), joined(m.inputs, array), joined(m.results, array),
                       joined(m.symbols, size));
  };
  const auto tensor = [](const Tensor& t) {
    return fmt::format(R"({}: {{"dtype": "{}", "shape": [{}], "bytes": {}, "state": {}}})",
                       json_string(t.name), name_of(t.dtype), fmt::join(t.shape, ", "), t.bytes,
                       t.state);
  };
  std::set<std::string> targets;
  for (const Precompiled& p : index.precompiled) targets.insert(json_string(p.target));
  return fmt::format(
      R"({{"producer": {}, "fingerprint": "{}", "bytes": {}, "targets": [{}], "methods": {{{}}}, "tensors": {{{}}}}})",
      json_string(index.producer), a.fingerprint().hex(), a.size(), fmt::join(targets, ", "),
      joined(index.methods, method), joined(index.tensors, tensor));
}

}  // namespace hologram::archive
