// ir/fingerprint.cpp: content fingerprint of graphs.
#include "ir/graph.h"

namespace hologram::ir {
namespace {

// Length-prefixed bytes, so that different fields never run together.
class Writer {
 public:
  void number(uint64_t x) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(x >> (8 * i));
    out_.append(bytes, 8);
  }
  void text(std::string_view s) {
    number(s.size());
    out_.append(s);
  }
  void exprs(const std::vector<Expr>& es) {
    number(es.size());
    for (const Expr& e : es)
      e.is_const() ? text(fmt::format_int(e.constant_value()).c_str()) : text(e.str());
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

constexpr uint64_t unnumbered = ~uint64_t{0};

void write_node(Writer& w, const Node& n, const std::vector<uint64_t>& number) {
  w.text(name_of(n.op));
  w.text(name_of(n.dtype));
  w.exprs(n.shape);
  w.number(n.inputs.size());
  for (Value v : n.inputs) w.number(number[v->id]);
  w.number(n.attrs.ints.size());
  for (int64_t i : n.attrs.ints) w.number(static_cast<uint64_t>(i));
  w.exprs(n.attrs.exprs);
  w.number(n.attrs.bits);
  w.text(n.attrs.text);
}

// Numbers and writes what `root` needs, operands first, in an order that only the content decides.
void write_below(Writer& w, Value root, std::vector<uint64_t>& number, uint64_t& next) {
  std::vector<std::pair<Value, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [v, i] = stack.back();
    if (number[v->id] != unnumbered) {
      stack.pop_back();
    } else if (i < v->inputs.size()) {
      Value operand = v->inputs[i++];
      if (number[operand->id] == unnumbered) stack.emplace_back(operand, 0);
    } else {
      number[v->id] = next++;
      write_node(w, *v, number);
      stack.pop_back();
    }
  }
}

}  // namespace

Fingerprint fingerprint(const Graph& graph) {
  Writer w;
  std::vector<uint64_t> number(graph.nodes().size(), unnumbered);
  uint64_t next = 0;
  for (const Output& o : graph.outputs) {
    write_below(w, o.value, number, next);
    Value target = o.parameter < 0 ? nullptr : find_parameter(graph, o.parameter);
    if (target) write_below(w, target, number, next);
  }
  w.number(graph.outputs.size());
  for (const Output& o : graph.outputs) {
    w.number(number[o.value->id]);
    w.exprs(o.strides);
    w.number(static_cast<uint64_t>(o.parameter));
  }
  return hologram::fingerprint(w.bytes());
}

}  // namespace hologram::ir
