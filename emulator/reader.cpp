// emulator/reader.cpp: reads the subset of PTX that LLVM writes for our kernels.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <set>

#include "emulator/module.h"

namespace ptx {
namespace {

constexpr const char* special_names[] = {
    "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
    "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid"};

bool type_of(std::string_view m, Scalar& out) {
  if (m == "pred") return out = {Type::pred, 1}, true;
  size_t letters = 0;
  while (letters < m.size() && std::isalpha(static_cast<unsigned char>(m[letters]))) ++letters;
  const std::string_view kind = m.substr(0, letters), digits = m.substr(letters);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return false;
  const int bits = std::atoi(std::string(digits).c_str());
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return false;
  out.bits = bits;
  if (kind == "b")
    out.type = Type::b;
  else if (kind == "u")
    out.type = Type::u;
  else if (kind == "s")
    out.type = Type::s;
  else if (kind == "f")
    out.type = Type::f;
  else if (kind == "bf")
    out.type = Type::bf;
  else
    return false;
  return true;
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(by);
    parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

class Reader {
 public:
  Reader(std::string_view text, uint64_t globals) : text_(text), base_(globals) {}

  Module run() {
    while (skip(), at_ < text_.size()) directive();
    return std::move(module_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Fault("PTX line " + std::to_string(line_) + ": " + what);
  }

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.compare(at_, 2, "//") == 0) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  static bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
           c == '.';
  }
  std::string word() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size()) {
      if (in_word(text_[at_]))
        ++at_;
      else if (text_.compare(at_, 2, "::") == 0)
        at_ += 2;
      else
        break;
    }
    if (at_ == from) fail("a word was expected at \"" + std::string(text_.substr(at_, 12)) + "\"");
    return std::string(text_.substr(from, at_ - from));
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(std::string("'") + c + "' was expected");
  }
  int64_t number() {
    const bool minus = take('-');
    const std::string w = word();
    const uint64_t n = std::strtoull(w.c_str(), nullptr, 0);
    return static_cast<int64_t>(minus ? 0 - n : n);
  }

  void directive() {
    std::string w = word();
    if (w == ".version") {
      const auto parts = split(word(), '.');
      module_.version = std::atoi(parts[0].c_str()) * 10 + std::atoi(parts.at(1).c_str());
    } else if (w == ".target") {
      module_.target = word();
    } else if (w == ".address_size") {
      if (word() != "64") fail("addresses of 64 bits were expected");
    } else if (w == ".extern") {
      if (word() != ".shared") fail("only shared memory comes from elsewhere");
      dynamic();
    } else if (w == ".visible" || w == ".weak") {
    } else if (w == ".entry") {
      entry();
    } else if (w == ".global" || w == ".const" || w == ".shared") {
      variable(w, nullptr);
    } else {
      fail("directive " + w);
    }
  }

  // .space .align n .type name[count] = {…};
  void variable(const std::string& space, Kernel* kernel) {
    Variable v;
    std::string w = word();
    while (true) {
      Scalar type;
      if (w == ".align") {
        v.align = number();
      } else if (type_of(std::string_view(w).substr(1), type)) {
        v.bytes = type.bits / 8;
        break;
      } else {
        fail("in a variable: " + w);
      }
      w = word();
    }
    const int64_t element = v.bytes;
    v.align = std::max(v.align, element);
    const std::string name = word();
    if (take('[')) {
      v.bytes *= number();
      need(']');
    }
    if (take('=')) {
      const bool list = take('{');
      do {
        const auto n = static_cast<uint64_t>(number());
        for (int64_t k = 0; k < element; ++k) v.init.push_back(static_cast<uint8_t>(n >> (8 * k)));
      } while (list && take(','));
      if (list) need('}');
    }
    need(';');
    int64_t& used = space == ".shared"  ? module_shared_
                    : space == ".local" ? kernel->local_bytes
                                        : module_.global_bytes;
    used = (used + v.align - 1) / v.align * v.align;
    v.offset = used;
    used += v.bytes;
    if (kernel && space == ".shared") kernel->own_shared_bytes += v.bytes;
    v.space = space == ".shared"  ? Space::shared
              : space == ".local" ? Space::local
              : space == ".const" ? Space::constant
                                  : Space::global;
    (kernel ? locals_ : module_.globals)[name] = v;
  }

  // .extern .shared .align n .type name[];: as large as the launch says.
  void dynamic() {
    std::string w = word();
    for (Scalar type; !type_of(std::string_view(w).substr(1), type); w = word()) {
      if (w != ".align") fail("in a variable: " + w);
      dynamic_align_ = std::max(dynamic_align_, number());
    }
    dynamic_.insert(word());
    need('[');
    need(']');
    need(';');
  }

  void entry() {
    Kernel k;
    k.name = word();
    locals_.clear();
    used_.clear();
    parameters_.clear();
    labels_.clear();
    branches_.clear();
    for (int s = 0; s < specials; ++s) {
      k.registers[special_names[s]] = s;
      k.widths.push_back(32);
    }
    if (take('('))
      while (!take(')')) {
        if (word() != ".param") fail("a parameter was expected");
        Scalar type;
        std::string w = word();
        int64_t align = 1;
        for (; !type_of(std::string_view(w).substr(1), type); w = word()) {
          if (w != ".align") fail("a parameter of type " + w);
          align = number();
        }
        for (w = word(); w[0] == '.'; w = word())
          if (w == ".align") align = number();
        int bytes = type.bits / 8;
        align = std::max<int64_t>(align, bytes);
        if (take('[')) {
          bytes *= static_cast<int>(number());
          need(']');
        }
        k.parameter_bytes = (k.parameter_bytes + align - 1) / align * align;
        parameters_[w] = k.parameter_bytes;
        k.places.push_back(k.parameter_bytes);
        k.parameters.push_back(bytes);
        k.parameter_bytes += bytes;
        take(',');
      }
    while (!take('{')) {
      const std::string w = word();
      if (w != ".maxntid" && w != ".reqntid" && w != ".minnctapersm" && w != ".maxnreg")
        fail("directive " + w);
      int64_t n = number();
      while (take(',')) n *= number();
      if (w == ".maxntid" || w == ".reqntid") k.max_threads = static_cast<int>(n);
    }
    int depth = 1;
    while (depth > 0) {
      if (take('{'))
        ++depth;
      else if (take('}'))
        --depth;
      else
        statement(k);
    }
    for (auto& [instr, label] : branches_) {
      auto it = labels_.find(label);
      if (it == labels_.end()) fail("no label " + label);
      k.code[static_cast<size_t>(instr)].target = it->second;
    }
    k.shared_bytes = k.dynamic_shared ? dynamic_place() : module_shared_;
    for (const std::string& name : used_) {
      const Variable& v = module_.globals.at(name);
      k.own_shared_bytes += v.bytes;
    }
    module_.kernels[k.name] = std::move(k);
  }

  void registers(Kernel& k) {
    const std::string w = word();
    Scalar type;
    if (!type_of(std::string_view(w).substr(1), type)) fail("registers of type " + w);
    do {
      const std::string name = word();
      int64_t count = -1;
      if (take('<')) {
        count = number();
        need('>');
      }
      for (int64_t n = count < 0 ? -1 : 0; n < std::max<int64_t>(count, 0); ++n) {
        k.registers[n < 0 ? name : name + std::to_string(n)] = static_cast<int>(k.widths.size());
        k.widths.push_back(type.bits);
      }
    } while (take(','));
    need(';');
  }

  void statement(Kernel& k) {
    Instr i;
    skip();
    i.line = line_;
    if (take('@')) {
      i.guard_not = take('!');
      i.guard = reg(k, word());
    }
    std::string w = word();
    if (take(':')) {
      labels_[w] = static_cast<int>(k.code.size());
      return;
    }
    if (w == ".reg") return registers(k);
    if (w == ".local" || w == ".shared") return variable(w, &k);
    if (w == ".pragma" || w == ".loc") {
      while (!take(';')) ++at_;
      return;
    }
    if (w[0] == '.') fail("directive " + w);
    i.mods = split(w, '.');
    i.op = i.mods[0];
    i.mods.erase(i.mods.begin());
    modifiers(i);
    if (i.op == "bra") {
      branches_.emplace_back(static_cast<int>(k.code.size()), word());
      need(';');
    } else {
      while (!take(';')) {
        const size_t before = i.operands.size();
        operands(k, i);
        i.groups.push_back(static_cast<int>(i.operands.size() - before));
        take(',');
      }
    }
    k.code.push_back(std::move(i));
  }

  void modifiers(Instr& i) {
    Scalar t;
    for (const std::string& m : i.mods) {
      if (type_of(m, t)) {
        if (i.type.type == Type::none)
          i.type = t;
        else
          i.from = t;
      } else if (m == "v2" || m == "v4") {
        i.vector = m[1] - '0';
      } else if (m == "global" || m == "shared" || m == "shared::cta" || m == "local" ||
                 m == "const" || m == "param") {
        i.space = m == "global"  ? Space::global
                  : m == "local" ? Space::local
                  : m == "const" ? Space::constant
                  : m == "param" ? Space::parameter
                                 : Space::shared;
      }
    }
    if (i.from.type == Type::none) i.from = i.type;
  }

  int reg(const Kernel& k, const std::string& name) const {
    auto it = k.registers.find(name);
    if (it == k.registers.end()) fail("no register " + name);
    return it->second;
  }

  void operands(Kernel& k, Instr& i) {
    if (take('{')) {  // a vector
      do i.operands.push_back(operand(k));
      while (take(','));
      return need('}');
    }
    if (take('[')) {
      i.operands.push_back(operand(k));
      if (take('+')) {
        if (i.offset != 0) fail("two addresses with offsets");
        i.offset = number();
      }
      if (take(',')) operands(k, i);  // coordinates
      return need(']');
    }
    i.operands.push_back(operand(k));
    if (take('|')) i.operands.push_back(operand(k));
  }

  Operand operand(Kernel& k) {
    skip();
    const bool minus = take('-');
    const bool negated = take('!');
    if (minus || negated) {
      if (negated) fail("a negated operand");
      return {-1, 0 - std::strtoull(word().c_str(), nullptr, 0)};
    }
    const std::string w = word();
    if (w == "_") return {nowhere, 0};
    if (auto r = k.registers.find(w); r != k.registers.end()) return {r->second, 0};
    if (w[0] == '%') fail("no register " + w);
    if (w.size() == 10 && (w.starts_with("0f") || w.starts_with("0F")))
      return {-1, std::strtoull(w.c_str() + 2, nullptr, 16)};
    if (w.size() == 18 && (w.starts_with("0d") || w.starts_with("0D")))
      return {-1, std::strtoull(w.c_str() + 2, nullptr, 16)};
    if (std::isdigit(static_cast<unsigned char>(w[0])))
      return {-1, std::strtoull(w.c_str(), nullptr, 0)};
    if (auto p = parameters_.find(w); p != parameters_.end())
      return {-1, static_cast<uint64_t>(p->second)};
    if (dynamic_.contains(w)) {
      k.dynamic_shared = true;
      return {-1, static_cast<uint64_t>(dynamic_place())};
    }
    auto it = locals_.find(w);
    if (it == locals_.end() && (it = module_.globals.find(w)) == module_.globals.end())
      fail("no name " + w);
    if (it->second.space == Space::shared && module_.globals.contains(w)) used_.insert(w);
    const bool far = it->second.space == Space::global || it->second.space == Space::constant;
    return {-1, static_cast<uint64_t>(it->second.offset) + (far ? base_ : 0)};
  }

  // Behind all shared memory that the module names.
  int64_t dynamic_place() const {
    return (module_shared_ + dynamic_align_ - 1) / dynamic_align_ * dynamic_align_;
  }

  std::string_view text_;
  uint64_t base_;
  size_t at_ = 0;
  int line_ = 1;
  Module module_;
  int64_t module_shared_ = 0, dynamic_align_ = 16;
  std::set<std::string, std::less<>> dynamic_, used_;  // shared memory: the launch's, a kernel's
  std::map<std::string, Variable, std::less<>> locals_;
  std::map<std::string, int64_t, std::less<>> parameters_;
  std::map<std::string, int, std::less<>> labels_;
  std::vector<std::pair<int, std::string>> branches_;
};

}  // namespace

bool Instr::has(std::string_view mod) const {
  return std::find(mods.begin(), mods.end(), mod) != mods.end();
}

Module read(std::string_view text, uint64_t globals) { return Reader(text, globals).run(); }

}  // namespace ptx
