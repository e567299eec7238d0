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

// Fields of a line, one after the other.
class Fields {
 public:
  Fields(std::string_view text, int num_symbols) : rest_(text), num_symbols_(num_symbols) {}
  std::string_view word() {
    if (ended_) corrupt("its launch has other parts");
    const size_t end = rest_.find('|');
    const std::string_view out = rest_.substr(0, end);
    ended_ = end == rest_.npos;
    rest_.remove_prefix(ended_ ? rest_.size() : end + 1);
    return out;
  }
  int number(int least, int most) { return read_number(word(), least, most); }
  Expr expr() { return read_expr(word(), num_symbols_); }
  void end() const {
    if (!ended_) corrupt("its launch has other parts");
  }

 private:
  std::string_view rest_;
  int num_symbols_;
  bool ended_ = false;
};

constexpr std::array mapped_types{DType::bf16, DType::f16, DType::f32, DType::i8, DType::u8};
constexpr int most_buffers = 4096, most_rank = 5, most_box = 256;

std::string to_text(const MappedMatrix& m) {
  std::string out =
      fmt::format("|{}|{}|{}|{}", m.buffer, hologram::name_of(m.type), m.first.str(), m.sizes.size());
  for (const Expr& e : m.sizes) out += "|" + e.str();
  for (const Expr& e : m.strides) out += "|" + e.str();
  for (const int n : m.box) out += fmt::format("|{}", n);
  return out;
}

MappedMatrix read_matrix(Fields& from) {
  MappedMatrix m;
  m.buffer = from.number(in_workspace, most_buffers);
  const std::string_view type = from.word();
  const auto known = std::ranges::find(mapped_types, type, hologram::name_of);
  if (known == mapped_types.end()) corrupt("the type of a matrix");
  m.type = *known;
  m.first = from.expr();
  const int rank = from.number(2, most_rank);
  for (int d = 0; d < rank; ++d) m.sizes.push_back(from.expr());
  for (int d = 1; d < rank; ++d) m.strides.push_back(from.expr());
  for (int d = 0; d < rank; ++d) m.box.push_back(from.number(1, most_box));
  return m;
}

std::string to_text(const std::optional<WideFacts>& wide) {
  if (!wide) return "";
  std::string out = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(wide->work),
                                wide->marks ? 1 : 0, wide->registers ? 1 : 0, wide->threads,
                                wide->shared_bytes, wide->merges, wide->part_bytes,
                                wide->tiles.str(), wide->depth.str(), wide->matrices.size());
  for (const MappedMatrix& m : wide->matrices) out += to_text(m);
  return out;
}

std::optional<WideFacts> read_wide(std::string_view text, int num_symbols) {
  if (text.empty()) return std::nullopt;
  Fields from(text, num_symbols);
  WideFacts wide;
  wide.work = static_cast<WideFacts::Work>(from.number(0, 2));
  wide.marks = from.number(0, 1) != 0;
  wide.registers = from.number(0, 1) != 0;
  wide.threads = from.number(1, 1024);
  wide.shared_bytes = from.number(0, 227 << 10);
  wide.merges = from.number(0, 1024);
  wide.part_bytes = from.number(0, 1 << 20);
  wide.tiles = from.expr();
  wide.depth = from.expr();
  const int wanted = wide.work == WideFacts::Work::product ? 2 : 3;
  const int count = from.number(wanted, wanted);
  for (int n = 0; n < count; ++n) wide.matrices.push_back(read_matrix(from));
  from.end();
  return wide;
}

std::string to_text(const std::optional<ThinFacts>& thin) {
  if (!thin) return "";
  return fmt::format("{}|{}|{}|{}|{}|{}", thin->threads, thin->merges, thin->rows.str(),
                     thin->total.str(), thin->team_bytes.str(), thin->parts.str());
}

std::optional<ThinFacts> read_thin(std::string_view text, int num_symbols) {
  if (text.empty()) return std::nullopt;
  Fields from(text, num_symbols);
  ThinFacts thin;
  thin.threads = from.number(1, 1024);
  thin.merges = from.number(0, 1024);
  for (Expr* e : {&thin.rows, &thin.total, &thin.team_bytes, &thin.parts}) *e = from.expr();
  from.end();
  return thin;
}

}  // namespace

bool WideFacts::computed() const {
  return std::ranges::any_of(matrices,
                             [](const MappedMatrix& m) { return m.buffer == in_workspace; });
}

std::string to_text(const Stored& s) {
  const Facts& f = s.facts;
  return fmt::format("{};{};{};{};{};{};{};{};{};{};{};{};{}\n{}{}", s.on_host ? 1 : 0,
                     static_cast<int>(s.verdict), f.threads, f.points, f.flags ? 1 : 0, f.merges,
                     f.all_parts ? 1 : 0, s.cubin.size(), f.total.str(), f.team_bytes.str(),
                     f.parts.str(), to_text(f.wide), to_text(f.thin), s.code, s.cubin);
}

Stored from_text(std::string_view text, int num_symbols) {
  const size_t line = text.find('\n');
  if (line == text.npos) corrupt("it has no launch");
  std::string_view head = text.substr(0, line);
  std::array<std::string_view, 13> parts;
  for (size_t k = 0; k < parts.size(); ++k) {
    const size_t end = head.find(';');
    if ((end == head.npos) != (k + 1 == parts.size())) corrupt("its launch has other parts");
    parts[k] = head.substr(0, end);
    head.remove_prefix(end == head.npos ? head.size() : end + 1);
  }
  Stored s;
  s.on_host = read_number(parts[0], 0, 1) != 0;
  s.verdict = static_cast<Verdict>(read_number(parts[1], 0, 3));
  s.facts.threads = read_number(parts[2], 1, 1024);
  s.facts.points = read_number(parts[3], 1, 1024);
  s.facts.flags = read_number(parts[4], 0, 1) != 0;
  s.facts.merges = read_number(parts[5], 0, 1024);
  s.facts.all_parts = read_number(parts[6], 0, 1) != 0;
  const std::string_view code = text.substr(line + 1);
  const int most = static_cast<int>(std::min<size_t>(code.size(), INT_MAX));
  const auto cubin_bytes = static_cast<size_t>(read_number(parts[7], 0, most));
  s.facts.total = read_expr(parts[8], num_symbols);
  s.facts.team_bytes = read_expr(parts[9], num_symbols);
  s.facts.parts = read_expr(parts[10], num_symbols);
  s.facts.wide = read_wide(parts[11], num_symbols);
  s.facts.thin = read_thin(parts[12], num_symbols);
  s.code = code.substr(0, code.size() - cubin_bytes);
  s.cubin = code.substr(code.size() - cubin_bytes);
  return s;
}

}  // namespace hologram::cuda
