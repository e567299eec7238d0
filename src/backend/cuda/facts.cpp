// backend/cuda/facts.cpp: launches as text, for code that is stored.
#include "backend/cuda/facts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>

#include "base/error.h"

namespace hologram::cuda {
namespace {

[[noreturn]] void corrupt(std::string_view what) {
  fail(ErrorCode::corrupt, "stored CUDA kernel: {}", what);
}

Expr read_expr(std::string_view text, int num_symbols) {
  Expr e;
  try {
    e = parse_expr(text);
  } catch (const Error& error) {
    corrupt(error.what());
  }
  const bool foreign = e.any_atom(
      [&](const Atom& a) { return a.kind == Atom::Kind::symbol && a.id >= num_symbols; });
  if (foreign) corrupt("its launch needs symbols that the program lacks");
  return e;
}

int read_number(std::string_view text, int least, int most) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < least || n > most)
    corrupt("a number of its launch");
  return n;
}

}  // namespace

std::string to_text(const Stored& s) {
  const Facts& f = s.facts;
  return fmt::format("{};{};{};{};{};{};{};{};{}\n{}{}", s.on_host ? 1 : 0, f.threads, f.points,
                     f.flags ? 1 : 0, f.merges, s.cubin.size(), f.total.str(), f.team_bytes.str(),
                     f.parts.str(), s.code, s.cubin);
}

Stored from_text(std::string_view text, int num_symbols) {
  const size_t line = text.find('\n');
  if (line == text.npos) corrupt("it has no launch");
  std::string_view head = text.substr(0, line);
  std::array<std::string_view, 9> parts;
  for (size_t k = 0; k < parts.size(); ++k) {
    const size_t end = head.find(';');
    if ((end == head.npos) != (k + 1 == parts.size())) corrupt("its launch has other parts");
    parts[k] = head.substr(0, end);
    head.remove_prefix(end == head.npos ? head.size() : end + 1);
  }
  Stored s;
  s.on_host = read_number(parts[0], 0, 1) != 0;
  s.facts.threads = read_number(parts[1], 1, 1024);
  s.facts.points = read_number(parts[2], 1, 1024);
  s.facts.flags = read_number(parts[3], 0, 1) != 0;
  s.facts.merges = read_number(parts[4], 0, 1024);
  const std::string_view code = text.substr(line + 1);
  const int most = static_cast<int>(std::min<size_t>(code.size(), INT_MAX));
  const auto cubin_bytes = static_cast<size_t>(read_number(parts[5], 0, most));
  s.facts.total = read_expr(parts[6], num_symbols);
  s.facts.team_bytes = read_expr(parts[7], num_symbols);
  s.facts.parts = read_expr(parts[8], num_symbols);
  s.code = code.substr(0, code.size() - cubin_bytes);
  s.cubin = code.substr(code.size() - cubin_bytes);
  return s;
}

}  // namespace hologram::cuda
