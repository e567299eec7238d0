// backend/webgpu/wgsl/read.cpp: how a stored text is launched, by its first line.
#include <algorithm>
#include <charconv>

#include "backend/webgpu/wgsl/module.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {
namespace {

constexpr int most_threads = 1024, most_buffers = 1 << 10, most_symbols = 1 << 16;

[[noreturn]] void refuse(std::string_view what) {
  fail(ErrorCode::corrupt, "stored WGSL: {}", what);
}

// Reads the line as Unit::finish() writes it, which is one way of many to write that JSON.
class Line {
 public:
  explicit Line(std::string_view text) : left_(text) {}

  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) refuse(fmt::format("expected {} at \"{}\"", word, left_.substr(0, 24)));
  }
  int number(int least, int most) {
    int n = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), n);
    if (error != std::errc{} || n < least || n > most) refuse("a number out of range");
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    return n;
  }
  bool truth() {
    if (take("true")) return true;
    expect("false");
    return false;
  }
  std::string_view quoted() {
    expect("\"");
    const std::string_view word = left_.substr(0, left_.find('"'));
    left_.remove_prefix(word.size());
    expect("\"");
    return word;
  }
  Expr expression(int symbols) {
    const std::string_view text = quoted();
    Expr e;
    try {
      e = parse_expr(text);
    } catch (const Error&) {
      refuse("an expression that cannot be read");
    }
    if (e.any_atom([&](const Atom& a) {
          if (a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value) return true;
          return a.kind == Atom::Kind::symbol && (a.id < 0 || a.id >= symbols);
        }))
      refuse("an expression of an unknown size");
    return e;
  }
  template <class Each>
  void list(const Each& each) {
    expect("[");
    if (take("]")) return;
    do each();
    while (take(","));
    expect("]");
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

atlas::Access access_named(std::string_view word) {
  if (word == "read") return atlas::Access::read;
  if (word == "write") return atlas::Access::write;
  if (word == "read_write") return atlas::Access::read_write;
  if (word != "scratch") refuse("an unknown access");
  return atlas::Access::scratch;
}

void read_buffer(Line& in, Stored& out) {
  in.expect("{\"type\":");
  const auto type = dtype_from_name(in.quoted());
  if (!type) refuse("an unknown type");
  in.expect(",\"access\":");
  const atlas::Access access = access_named(in.quoted());
  in.expect(",\"elements\":");
  const Expr elements = in.expression(out.num_symbols);
  in.expect("}");
  out.buffers.push_back({*type, access, elements});
  out.module.scratch.push_back(access == atlas::Access::scratch ? elements : Expr(0));
}

void read_dispatch(Line& in, Stored& out) {
  Dispatch d;
  in.expect("{\"entry\":");
  d.entry = in.quoted();
  if (out.module.text.find(fmt::format("fn {}(", d.entry)) == std::string::npos)
    refuse(fmt::format("no entry point \"{}\"", d.entry));
  in.expect(",\"units\":");
  d.units = in.expression(out.num_symbols);
  in.expect(",\"threads\":");
  d.threads = in.number(1, most_threads);
  in.expect(",\"teams\":");
  d.teams = in.truth();
  in.expect(",\"buffers\":");
  in.list([&] { d.buffers.push_back(in.number(0, static_cast<int>(out.buffers.size()) - 1)); });
  in.expect(",\"faults\":");
  d.faults = in.truth();
  in.expect(",\"rounds\":");
  d.rounds = in.expression(out.num_symbols);
  in.expect("}");
  out.module.dispatches.push_back(std::move(d));
}

}  // namespace

Stored read(std::string_view text) {
  // Compilers quote what they refuse, and wgpu-native's ends the process over some characters.
  if (!std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
    refuse("characters that are not printed");
  Stored out;
  out.module.text = text;
  Line in(text.substr(0, text.find('\n')));
  in.expect("//!{\"wgsl\":1,\"symbols\":");
  out.num_symbols = in.number(0, most_symbols);
  in.expect(",\"faults\":");
  out.module.faults = in.truth();
  in.expect(",\"buffers\":");
  in.list([&] {
    if (out.buffers.size() == most_buffers) refuse("too many buffers");
    read_buffer(in, out);
  });
  in.expect(",\"has_fma\":");
  const bool asks = in.truth();
  in.expect(",\"dispatches\":");
  in.list([&] { read_dispatch(in, out); });
  in.expect("}");
  if (!in.at_end() || out.module.dispatches.empty()) refuse("a line that says more, or no dispatch");
  for (Dispatch& d : out.module.dispatches) d.asks_for_fma = asks;
  return out;
}

}  // namespace hologram::webgpu::wgsl
