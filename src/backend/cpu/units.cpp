// backend/cpu/units.cpp: launches as text, for code that is stored.
#include "backend/cpu/units.h"

#include <array>

#include "base/error.h"

namespace hologram::cpu {
namespace {

bool needs_more_than(const Expr& e, int num_symbols) {
  return e.any_atom(
      [&](const Atom& a) { return a.kind == Atom::Kind::symbol && a.id >= num_symbols; });
}

}  // namespace

std::string str(const Launch& launch) {
  return fmt::format("{};{};{}", launch.total.str(), launch.grain.str(), launch.unit_work.str());
}

Launch parse_launch(std::string_view text, int num_symbols) {
  std::array<Expr, 3> parts;
  for (size_t k = 0; k < parts.size(); ++k) {
    const size_t end = text.find(';');
    if ((end == text.npos) != (k + 1 == parts.size()))
      fail(ErrorCode::corrupt, "stored kernel: its launch is not three expressions");
    try {
      parts[k] = parse_expr(text.substr(0, end));
    } catch (const Error& e) {
      fail(ErrorCode::corrupt, "stored kernel: {}", e.what());
    }
    if (needs_more_than(parts[k], num_symbols))
      fail(ErrorCode::corrupt, "stored kernel: its launch needs more than {} symbols", num_symbols);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return {parts[0], parts[1], parts[2]};
}

std::string to_stored(const Object& object) { return object.code + '\n' + str(object.launch); }

StoredObject from_stored(std::string_view bytes, int num_symbols) {
  const size_t end = bytes.rfind('\n');
  if (end == bytes.npos) fail(ErrorCode::corrupt, "stored kernel: it has no launch");
  return {bytes.substr(0, end), parse_launch(bytes.substr(end + 1), num_symbols)};
}

}  // namespace hologram::cpu
