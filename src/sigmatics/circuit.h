// sigmatics/circuit.h: circuits: operations with explicit destinations on class memory.
//
//   phrase = [ prefix "@" ] par       prefix = [R [sign] n] [T [sign] n] [~]
//   par    = seq { "||" seq }         seq = term { "." term }        term = op | "(" par ")"
//   op     = gen "@" target
//   target = one | range                    mark, quote, evaluate
//          | one "->" one                   copy
//          | one "<->" one                  swap
//          | one "[" one "," one "]"        merge and split: source [ context , destination ]
//          | range                          merge: each class with itself
//   one    = "c" n [ "^" [sign] n ] [ "~" ] [ "@" page ]
//   range  = "c[" n ".." n "]" [ "^" [sign] n ] [ "~" ]             0 <= first < last <= 95
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sigmatics/classes.h"
#include "sigmatics/lexer.h"

namespace hologram::sigmatics {

/// A class, or one page of it. Where some operands of a call have a page, the others mean the page
/// of the first that has one.
struct Operand {
  int cls = 0;
  int page = -1;  ///< -1: the whole class

  bool operator==(const Operand&) const = default;
};

/// What merge and split compute: merge the first eleven (add to max of source and context, the
/// others of the source alone), split the last two.
enum class Variant : uint8_t {
  add,
  mul,
  min,
  max,
  abs,
  exp,
  log,
  sqrt,
  sigmoid,
  tanh,
  gelu,
  sub,
  div,
};
inline constexpr int num_variants = 13;
/// "Add", "Sub", …
std::string_view name_of(Variant v);
std::optional<Variant> variant_from_name(std::string_view name);

/// One operation on class memory with its final classes.
struct Call {
  Generator generator = Generator::mark;
  Operand a{};                     ///< mark, quote, evaluate: the class; copy, merge, split: source
  Operand b{};                     ///< merge, split: context; swap: the other class
  Operand to{};                    ///< copy, merge, split: destination
  Variant variant = Variant::add;  ///< merge (add by default) and split (sub)
  std::vector<uint8_t> range{};    ///< the classes of a range in order; empty: no range

  bool is_range() const { return !range.empty(); }
  bool operator==(const Call&) const = default;
};

/// Throws Error(invalid_argument) when the generator does not take this form, variant or page.
void check_call(const Call& call);
/// "mark@c21", "copy@c05->c06", "merge@c00[c01,c02]", "mark@c[0..9]"; a range whose classes do not
/// ascend one by one as its parts.
std::string print(const Call& call);

/// A circuit in normal form: transforms at the leaves, groups only where branches need them.
struct Circuit {
  struct Item;
  using Branch = std::vector<Item>;
  std::vector<Branch> branches;

  bool operator==(const Circuit&) const;
};
/// An operation, or a group of at least two branches inside a sequence.
struct Circuit::Item {
  Call call;
  std::vector<Branch> group;

  bool is_group() const { return !group.empty(); }
  bool operator==(const Item&) const = default;
};

/// Throws SyntaxError. Its messages begin with what is wrong: UnexpectedToken, UnexpectedEof,
/// InvalidGenerator, InvalidClassIndex, InvalidPage, InvalidRange, InvalidTarget, InvalidNumber.
Circuit parse_circuit(std::string_view text);
/// Text that parses to an equal circuit (ranges apart, see print(Call)).
std::string print(const Circuit& circuit);
size_t count_operations(const Circuit& circuit);
/// The calls from left to right, branches one after the other.
std::vector<Call> calls_of(const Circuit& circuit);

/// The most operations that canonicalize takes.
inline constexpr size_t max_operations = 4096;

enum class Rules : uint8_t {
  /// Words of gates: X = mark c21, Z = mark c42, S = mark c7, I = mark c0, H = copy c5 -> c6 then
  /// mark c21. Exact on the 2 x 2 matrices of the gates; class 6 is the gates' own.
  gates,
  /// Keeps what a circuit does to class memory, byte for byte.
  memory,
};

struct Canonical {
  Circuit circuit;
  size_t original_ops = 0;
  size_t canonical_ops = 0;
  double reduction_pct = 0;                ///< 100 (1 - canonical / original), to 4 digits
  std::vector<std::string> applied_rules;  ///< in the order in which they fired
};

/// Rewrites every run of operations: the first rule that applies anywhere, at its left-most place,
/// until none does. Never more operations than before. Throws Error(invalid_argument) above
/// max_operations.
Canonical canonicalize(const Circuit& circuit, Rules rules = Rules::gates);

struct RuleText {
  std::string name;
  std::string from, to;  ///< words of gates
};
/// The rules on gates, in order.
std::vector<RuleText> gate_rules();

}  // namespace hologram::sigmatics
