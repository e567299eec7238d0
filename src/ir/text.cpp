// ir/text.cpp: text form of graphs, both ways.
//
//   graph(symbols=1, parameters=1)
//   %0: f32[s0, 4] = parameter index=0 strides=[4, 1]
//   %1: f32[s0, 4] = constant value=0.5
//   %2: f32[s0, 4] = mul %0, %1
//   %3: f32[s0] = reduce_sum %2 axes=[1]
//   return %3 strides=[1]
//   return %2 parameter=0
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "ir/graph.h"
#include "ir/scalar.h"

namespace hologram::ir {
namespace {

struct Attribute {
  std::string_view kind, names;
};

// The entries of a row's attribute text "ints:axis exprs:starts".
std::vector<Attribute> attributes_of(Op op) {
  std::vector<Attribute> out;
  std::string_view rest = info(op).attributes;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    size_t colon = entry.find(':');
    out.push_back({entry.substr(0, colon), entry.substr(colon + 1)});
  }
  return out;
}

// Integer attributes that hold one number per axis; the others are named numbers.
bool is_list(std::string_view name) { return name == "axes" || name == "steps"; }

DType dtype_of_bits(Op op, DType result) {
  OpKind kind = info(op).kind;
  return kind == OpKind::attention || kind == OpKind::attention_grad ? DType::f64 : result;
}

// --- printing

std::string scalar_text(DType t, uint64_t bits) {
  std::string hex = fmt::format("{:#x}", bits);
  if (!is_float(t))
    return t == DType::u64 ? fmt::format("{}", bits) : fmt::format("{}", as_integer(t, bits));
  double x = as_double(t, bits);
  if (!std::isfinite(x)) return hex;
  std::string shortest =
      t == DType::f64 ? fmt::format("{}", x) : fmt::format("{}", static_cast<float>(x));
  double back = 0;
  std::from_chars(shortest.data(), shortest.data() + shortest.size(), back);
  return bits_of(t, back) == bits ? shortest : hex;
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

std::string ints_text(const Attribute& a, const std::vector<int64_t>& ints) {
  if (is_list(a.names)) return fmt::format(" {}=[{}]", a.names, fmt::join(ints, ", "));
  std::string out;
  std::string_view rest = a.names;
  for (int64_t i : ints) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    out += fmt::format(" {}={}", name, i);
  }
  return out;
}

std::string node_text(const Node& n) {
  std::string out =
      fmt::format("%{}: {}{} = {}", n.id, name_of(n.dtype), str(n.shape), name_of(n.op));
  for (size_t i = 0; i < n.inputs.size(); ++i)
    out += fmt::format("{} %{}", i ? "," : "", n.inputs[i]->id);
  for (const Attribute& a : attributes_of(n.op)) {
    if (a.kind == "ints") out += ints_text(a, n.attrs.ints);
    if (a.kind == "exprs") out += fmt::format(" {}={}", a.names, str(n.attrs.exprs));
    if (a.kind == "bits")
      out +=
          fmt::format(" {}={}", a.names, scalar_text(dtype_of_bits(n.op, n.dtype), n.attrs.bits));
    if (a.kind == "text") out += fmt::format(" {}={}", a.names, quoted(n.attrs.text));
  }
  return out + "\n";
}

std::string output_text(const Output& o) {
  std::string out = fmt::format("return %{}", o.value->id);
  if (o.parameter >= 0) return out + fmt::format(" parameter={}\n", o.parameter);
  return out +
         (o.value->dtype == DType::host ? "\n" : fmt::format(" strides={}\n", str(o.strides)));
}

// --- parsing

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  Parser(std::string_view text, Graph& into) : text_(text), graph_(into) {}

  void parse() {
    for (;;) {
      blank();
      if (at_ == text_.size()) return;
      if (text_[at_] == '%')
        node();
      else
        statement();
      spaces();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '#')
        error("the end of the line");
    }
  }

 private:
  [[noreturn]] void error_at(size_t where, std::string_view message) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < where && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    fail(ErrorCode::invalid_argument, "line {}, column {}: {}", line, column, message);
  }
  [[noreturn]] void error(std::string_view expected) const {
    error_at(at_, fmt::format("expected {}", expected));
  }

  // Runs `f`; its errors are reported at `where`.
  template <class F>
  auto located(size_t where, F f) const {
    try {
      return f();
    } catch (const Error& e) {
      error_at(where, e.what());
    }
  }

  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  // Spaces, line ends and comments.
  void blank() {
    for (spaces(); at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '#'); spaces()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        ++at_;
    }
  }
  bool take(std::string_view token) {
    spaces();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void need(std::string_view token) {
    if (!take(token)) error(fmt::format("'{}'", token));
  }
  std::string_view word(std::string_view what) {
    spaces();
    size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == from) error(what);
    return text_.substr(from, at_ - from);
  }

  template <class T>
  T number(std::string_view what) {
    spaces();
    T n{};
    auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (status != std::errc{}) error(what);
    at_ = static_cast<size_t>(end - text_.data());
    return n;
  }
  int small(std::string_view what) {
    size_t where = at_;
    int n = number<int>(what);
    if (n < 0 || n > 0xffffff) error_at(where, fmt::format("expected {} below 2^24", what));
    return n;
  }

  DType dtype() {
    spaces();
    size_t where = at_;
    auto t = dtype_from_name(word("a dtype"));
    if (!t) error_at(where, "expected a dtype");
    return *t;
  }

  // One expression, up to a ',' or ']' outside its parentheses.
  Expr expr() {
    spaces();
    size_t from = at_;
    int depth = 0;
    for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      char c = text_[at_];
      if (depth == 0 && (c == ',' || c == ']')) break;
      depth += (c == '(') - (c == ')');
    }
    return located(from, [&] { return parse_expr(text_.substr(from, at_ - from)); });
  }

  template <class F>
  void list(F item) {
    need("[");
    if (take("]")) return;
    do item();
    while (take(","));
    need("]");
  }
  Shape exprs() {
    Shape out;
    list([&] { out.push_back(expr()); });
    return out;
  }

  uint64_t scalar(DType t) {
    spaces();
    size_t where = at_;
    if (take("0x")) {
      uint64_t bits = 0;
      auto [end, status] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits, 16);
      if (status != std::errc{}) error("a hexadecimal number of at most 64 bits");
      at_ = static_cast<size_t>(end - text_.data());
      return bits;
    }
    if (t == DType::u64) return number<uint64_t>("a number");
    if (is_float(t)) return bits_of(t, number<double>("a number"));
    int64_t n = number<int64_t>("a number");
    if (as_integer(t, bits_of_integer(t, n)) != n)
      error_at(where, fmt::format("{} does not fit {}", n, name_of(t)));
    return bits_of_integer(t, n);
  }

  std::string quoted_text() {
    need("\"");
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') error("'\"'");
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      unsigned value = 0;
      const char* digits = text_.data() + at_ + 2;
      bool fits = at_ + 4 <= text_.size() && text_[at_ + 1] == 'x';
      if (!fits || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
        error("\\x and two digits");
      out += static_cast<char>(value);
      at_ += 3;
    }
    need("\"");
    return out;
  }

  Value operand() {
    spaces();
    size_t where = at_;
    need("%");
    auto it = values_.find(number<uint32_t>("a value's number"));
    if (it == values_.end()) error_at(where, "this value is not defined above");
    return it->second;
  }

  void ints(const Attribute& a, std::vector<int64_t>& out) {
    if (is_list(a.names)) {
      need(a.names);
      need("=");
      return list([&] { out.push_back(number<int64_t>("an integer")); });
    }
    for (std::string_view rest = a.names; !rest.empty();) {
      std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      // The last ones may be left out where the operation has a usual value.
      spaces();
      if (out.empty())
        need(name);
      else if (!take(name))
        return;
      need("=");
      out.push_back(number<int64_t>("an integer"));
    }
  }

  Attrs attributes(Op op, DType result) {
    Attrs attrs;
    for (const Attribute& a : attributes_of(op)) {
      if (a.kind == "ints") {
        ints(a, attrs.ints);
        continue;
      }
      need(a.names);
      need("=");
      if (a.kind == "exprs") attrs.exprs = exprs();
      if (a.kind == "bits") attrs.bits = scalar(dtype_of_bits(op, result));
      if (a.kind == "text") attrs.text = quoted_text();
    }
    return attrs;
  }

  void node() {
    size_t where = at_;
    need("%");
    uint32_t id = number<uint32_t>("a value's number");
    if (values_.contains(id)) error_at(where, "this value is defined already");
    need(":");
    DType type = dtype();
    Shape shape = exprs();
    need("=");
    spaces();
    size_t name_at = at_;
    auto op = op_from_name(word("an operation"));
    if (!op) error_at(name_at, "expected an operation");
    std::vector<Value> inputs;
    spaces();
    if (at_ < text_.size() && text_[at_] == '%') {
      do inputs.push_back(operand());
      while (take(","));
    }
    if (type == DType::host && *op != Op::parameter && *op != Op::host_call &&
        *op != Op::host_result)
      error_at(where, fmt::format("{} does not make values of the host", name_of(*op)));
    Attrs attrs = attributes(*op, type);
    values_[id] = located(where, [&] {
      return graph_.make(*op, std::move(inputs), std::move(attrs), type, std::move(shape));
    });
  }

  void header() {
    need("(");
    need("symbols");
    need("=");
    graph_.num_symbols = std::max(graph_.num_symbols, small("a number of symbols"));
    need(",");
    need("parameters");
    need("=");
    graph_.num_parameters = std::max(graph_.num_parameters, small("a number of parameters"));
    need(")");
  }

  void output() {
    Output o{operand(), {}, -1};
    if (take("parameter")) {
      need("=");
      o.parameter = small("a parameter's number");
    } else if (take("strides")) {
      need("=");
      o.strides = exprs();
    }
    graph_.outputs.push_back(std::move(o));
  }

  void statement() {
    size_t where = at_;
    std::string_view keyword = word("'%', 'return' or 'graph'");
    if (keyword == "return") return output();
    if (keyword == "graph") return header();
    error_at(where, "expected '%', 'return' or 'graph'");
  }

  std::string_view text_;
  Graph& graph_;
  size_t at_ = 0;
  std::unordered_map<uint32_t, Value> values_;
};

}  // namespace

std::string print(const Graph& graph) {
  std::string out =
      fmt::format("graph(symbols={}, parameters={})\n", graph.num_symbols, graph.num_parameters);
  for (Value v : live_nodes(graph)) out += node_text(*v);
  for (const Output& o : graph.outputs) out += output_text(o);
  return out;
}

void parse(std::string_view text, Graph& into) {
  Parser(text, into).parse();
  verify(into);
}

}  // namespace hologram::ir
