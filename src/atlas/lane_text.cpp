// atlas/lane_text.cpp: text form of lane programs, both ways.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "atlas/class_graph.h"
#include "atlas/cursor.h"
#include "atlas/lane.h"
#include "atlas/limits.h"
#include "ir/scalar.h"

namespace hologram::atlas {
namespace {

using Role = LaneOperand::Role;
using Of = LaneOperand::Of;

std::string address_text(const LaneAddress& a) {
  auto displacement = static_cast<int64_t>(a.offset);
  switch (a.kind) {
    case LaneAddress::Kind::buffer:
      return fmt::format("[buf{} + {}]", a.handle, a.offset);
    case LaneAddress::Kind::phi:
      return fmt::format("[Φ({}, {}, {})]", a.a, a.b, a.c);
    case LaneAddress::Kind::indirect:
      return displacement < 0 ? fmt::format("[r{} - {}]", a.a, 0 - a.offset)
                              : fmt::format("[r{} + {}]", a.a, a.offset);
    case LaneAddress::Kind::computed:
      return fmt::format("[r{} + r{}]", a.a, a.b);
    case LaneAddress::Kind::none:
      break;
  }
  return "[]";
}

std::string mnemonic_of(const LaneInstr& i) {
  std::string out(info(i.op).mnemonic);
  if (i.op == LaneOp::set) out += name_of(static_cast<Compare>(i.variant));
  if (i.op == LaneOp::memfence)
    out += fmt::format(".{}", name_of(static_cast<FenceScope>(i.variant)));
  if (i.op == LaneOp::bra && i.variant) out += fmt::format(".p{}", i.regs[0]);
  if (i.type != DType::host) out += fmt::format(".{}", hologram::name_of(i.type));
  if (i.from != DType::host) out += fmt::format(".{}", hologram::name_of(i.from));
  return out;
}

/// Mnemonics without suffixes.
const std::map<std::string_view, LaneOp>& mnemonics() {
  static const std::map<std::string_view, LaneOp> table = [] {
    std::map<std::string_view, LaneOp> t;
    for (int k = 0; k < num_lane_ops; ++k)
      t.emplace(info(static_cast<LaneOp>(k)).mnemonic, static_cast<LaneOp>(k));
    return t;
  }();
  return table;
}

class LaneAssembler {
 public:
  explicit LaneAssembler(std::string_view text) : in_(text, true) {}

  LaneProgram assemble() {
    in_.at_end();
    in_.expect_word("atlas");
    in_.expect_word("lane");
    if (in_.number() != 1) in_.error("expected version 1");
    in_.end_line();
    while (!in_.at_end()) {
      token_at_ = in_.here();
      std::string_view token = in_.dotted();
      if (token.empty()) in_.error("expected an instruction or a label");
      if (in_.take(':')) {
        place(token);
        if (!in_.line_ends()) continue;
      } else {
        if (p_.instrs.size() == limits::lane_instructions)
          in_.error("more than {} instructions", limits::lane_instructions);
        p_.instrs.push_back(instruction(token));
      }
      in_.end_line();
    }
    return std::move(p_);
  }

 private:
  // An error in the mnemonic, at its beginning.
  template <class... Args>
  [[noreturn]] void token_error(fmt::format_string<Args...> format, Args&&... args) {
    in_.back(token_at_);
    in_.error(format, std::forward<Args>(args)...);
  }

  uint32_t label(std::string_view name) {
    if (name.empty() || name.size() > limits::label_length)
      in_.error("expected a label of 1 to {} characters", limits::label_length);
    auto [it, fresh] =
        labels_.try_emplace(std::string(name), static_cast<uint32_t>(p_.labels.size()));
    if (fresh) {
      if (p_.labels.size() == limits::labels) in_.error("more than {} labels", limits::labels);
      p_.labels.push_back({it->first, undefined_target});
    }
    return it->second;
  }

  void place(std::string_view name) {
    LaneLabel& l = p_.labels[label(name)];
    if (l.target != undefined_target)
      in_.error("DuplicateLabel: \"{}\" stands at {} already", l.name, l.target);
    l.target = static_cast<uint32_t>(p_.instrs.size());
  }

  DType dtype(std::string_view name) {
    auto t = dtype_from_name(name);
    if (!t || *t == DType::host) token_error("unknown type \"{}\"", name);
    return *t;
  }

  // Takes the next suffix from "a.b.c".
  std::string_view suffix(std::string_view& rest, std::string_view what) {
    if (rest.empty()) token_error("expected {}", what);
    size_t end = std::min(rest.find('.'), rest.size());
    std::string_view s = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return s;
  }

  template <class E>
  uint8_t variant(std::string_view name, int count, std::string_view what) {
    for (int k = 0; k < count; ++k)
      if (name_of(static_cast<E>(k)) == name) return static_cast<uint8_t>(k);
    token_error("unknown {} \"{}\"", what, name);
  }

  LaneInstr instruction(std::string_view token) {
    LaneInstr i{};
    std::string_view rest;
    if (token.starts_with("set")) {
      i.op = LaneOp::set;
      rest = token.substr(3);
      i.variant = variant<Compare>(suffix(rest, "a comparison"), num_compares, "comparison");
    } else {
      i.op = operation(token, rest);
    }
    const LaneOpInfo& row = info(i.op);
    if (i.op == LaneOp::memfence)
      i.variant = variant<FenceScope>(suffix(rest, "a scope"), num_fence_scopes, "scope");
    if (i.op == LaneOp::bra && !rest.empty()) {
      i.variant = 1;
      i.regs[0] = predicate(suffix(rest, "a predicate"));
    }
    if (row.types != LaneTypes::none) i.type = dtype(suffix(rest, "a type"));
    if (i.op == LaneOp::cvt) i.from = dtype(suffix(rest, "a source type"));
    if (!rest.empty()) token_error("unexpected suffix \"{}\"", rest);
    operands(i, row);
    return i;
  }

  LaneOp operation(std::string_view token, std::string_view& rest) {
    for (size_t end = token.size();; end = token.rfind('.', end - 1)) {
      if (auto it = mnemonics().find(token.substr(0, end));
          it != mnemonics().end() && it->second != LaneOp::set) {
        rest = token.substr(std::min(end + 1, token.size()));
        return it->second;
      }
      if (end == 0 || token.rfind('.', end - 1) == std::string_view::npos)
        token_error("unknown instruction \"{}\"", token);
    }
  }

  uint8_t predicate(std::string_view text) {
    if (text.size() < 2 || text.size() > 3 || text[0] != 'p' ||
        !std::isdigit(static_cast<unsigned char>(text[1])) ||
        (text.size() == 3 && !std::isdigit(static_cast<unsigned char>(text[2]))))
      token_error("expected a predicate, not \"{}\"", text);
    int n = text[1] - '0';
    if (text.size() == 3) n = n * 10 + text[2] - '0';
    if (n >= lane_predicates) token_error("expected p0 to p15");
    return static_cast<uint8_t>(n);
  }

  uint8_t reg() { return static_cast<uint8_t>(in_.prefixed('r', lane_registers - 1)); }

  void operands(LaneInstr& i, const LaneOpInfo& row) {
    size_t count = 0;
    bool first = true;
    for (const LaneOperand& o : row.operands) {
      if (!first) in_.expect(',');
      first = false;
      switch (o.role) {
        case Role::address:
          i.address = address();
          break;
        case Role::immediate:
          i.immediate = immediate(row.immediate_limit);
          break;
        case Role::label: {
          in_.expect('@');
          i.label = label(in_.dotted());
          break;
        }
        case Role::range:
          i.regs[count++] = reg();
          in_.expect(',');
          i.immediate = in_.number(row.immediate_limit);
          break;
        default:
          i.regs[count++] = o.of == Of::predicate
                                ? static_cast<uint8_t>(in_.prefixed('p', lane_predicates - 1))
                                : reg();
      }
    }
  }

  uint64_t immediate(uint64_t limit) {
    if (limit == ~uint64_t{0} && in_.take('-')) return 0 - in_.number(uint64_t{1} << 63);
    return in_.number(limit);
  }

  LaneAddress address() {
    LaneAddress a;
    in_.expect('[');
    if (in_.take_text("buf")) {
      a.kind = LaneAddress::Kind::buffer;
      a.handle = in_.number();
      if (in_.take('+')) a.offset = in_.number();
    } else if (in_.take_text("Φ") || in_.take_text("phi")) {
      a.kind = LaneAddress::Kind::phi;
      in_.expect('(');
      a.a = static_cast<uint8_t>(in_.number(255));
      in_.expect(',');
      a.b = static_cast<uint8_t>(in_.number(255));
      in_.expect(',');
      a.c = static_cast<uint8_t>(in_.number(255));
      in_.expect(')');
    } else {
      a.a = reg();
      a.kind = LaneAddress::Kind::indirect;
      if (in_.take('-')) {
        a.offset = 0 - in_.number(uint64_t{1} << 31);
      } else if (in_.take('+')) {
        if (in_.peek() == 'r') {
          a.kind = LaneAddress::Kind::computed;
          a.b = reg();
        } else {
          a.offset = in_.number(INT32_MAX);
        }
      }
    }
    in_.expect(']');
    return a;
  }

  Cursor in_;
  size_t token_at_ = 0;
  LaneProgram p_;
  std::unordered_map<std::string, uint32_t> labels_;
};

}  // namespace

std::string disassemble(const LaneInstr& i, const LaneProgram& program) {
  std::string out = mnemonic_of(i), note;
  size_t reg = 0;
  bool first = true;
  for (const LaneOperand& o : info(i.op).operands) {
    out += first ? " " : ", ";
    first = false;
    switch (o.role) {
      case Role::address:
        out += address_text(i.address);
        break;
      case Role::immediate:
        if (is_float(i.type)) {
          out += fmt::format("{:#x}", i.immediate);
          note = fmt::format(" ; {}", ir::as_double(i.type, i.immediate));
        } else {
          out += fmt::format("{}", i.immediate);
        }
        break;
      case Role::label:
        out += fmt::format("@{}",
                           i.label < program.labels.size() ? program.labels[i.label].name : "?");
        break;
      case Role::range:
        out += fmt::format("r{}, {}", i.regs[reg++], i.immediate);
        break;
      default:
        out += fmt::format("{}{}", o.of == Of::predicate ? 'p' : 'r', i.regs[reg++]);
    }
  }
  return out + note;
}

std::string disassemble(const LaneProgram& program) {
  check_structure(program);
  std::vector<std::vector<uint32_t>> at(program.instrs.size() + 1);
  for (uint32_t k = 0; k < program.labels.size(); ++k)
    if (program.labels[k].target != undefined_target) at[program.labels[k].target].push_back(k);
  // Labels at one place by name: their numbers follow from where the text first mentions them.
  for (auto& here : at)
    std::sort(here.begin(), here.end(), [&](uint32_t a, uint32_t b) {
      return program.labels[a].name < program.labels[b].name;
    });
  std::string out = "atlas lane 1\n";
  for (size_t k = 0; k <= program.instrs.size(); ++k) {
    for (uint32_t l : at[k]) out += program.labels[l].name + ":\n";
    if (k < program.instrs.size()) out += "  " + disassemble(program.instrs[k], program) + "\n";
  }
  return out;
}

LaneProgram assemble_lane(std::string_view text) {
  require(text.size() <= limits::text_bytes, "assemble: {} bytes of text; expected at most {}",
          text.size(), limits::text_bytes);
  return LaneAssembler(text).assemble();
}

AnyProgram assemble_any(std::string_view text) {
  Cursor in(text, true);
  in.at_end();
  in.expect_word("atlas");
  if (in.take_word("lane")) return assemble_lane(text);
  in.expect_word("block");
  return assemble(text);
}

}  // namespace hologram::atlas
