// schedule/binary.cpp: plans as bytes.
#include "schedule/binary.h"

#include <set>

#include "base/error.h"

namespace hologram::schedule {
namespace {

constexpr size_t most = size_t{1} << 20;  // entries of a list
constexpr int64_t most_bytes = int64_t{1} << 48;
constexpr size_t expression_bytes = 1 << 16;
constexpr size_t most_rank = 64;

void encode(ByteWriter& out, const Slot& s) {
  out.byte(static_cast<uint8_t>(s.kind));
  out.byte(static_cast<uint8_t>(s.dtype));
  out.sint(s.index);
  out.string(s.bytes.str());
  out.string(s.offset.str());
  out.byte(s.boundary);
}

void encode(ByteWriter& out, const Shape& shape) {
  out.uint(shape.size());
  for (const Expr& e : shape) out.string(e.str());
}

// A host call has the number behind the last program's. Its integer arguments are not written:
// what runs stored plans knows its calls by number.
void encode_call(ByteWriter& out, const Step& s, size_t programs) {
  out.uint(programs);
  out.uint(static_cast<uint64_t>(s.callee));
  out.string(s.name);
  out.uint(s.arguments.size());
  for (const int slot : s.arguments) out.uint(static_cast<uint64_t>(slot));
  out.uint(s.results.size());
  for (const int slot : s.results) out.sint(slot);
}

void encode(ByteWriter& out, const Step& s, size_t programs) {
  if (s.kind != StepKind::kernel) return encode_call(out, s, programs);
  out.uint(static_cast<uint64_t>(s.program));
  out.uint(s.buffers.size());
  for (const int slot : s.buffers) out.uint(static_cast<uint64_t>(slot));
  out.uint(s.symbols.size());
  for (const Expr& e : s.symbols) out.string(e.str());
  out.sint(s.cached);
}

// What host calls read and write. Of other slots only the bytes are needed.
std::set<int> slots_of_calls(const Plan& plan) {
  std::set<int> out;
  for (const Step& s : plan.steps) {
    if (s.kind != StepKind::host_call) continue;
    out.insert(s.arguments.begin(), s.arguments.end());
    for (const int slot : s.results)
      if (slot >= 0) out.insert(slot);
  }
  return out;
}

class Reader {
 public:
  explicit Reader(ByteReader& in) : in_(in) {}

  Plan read() {
    plan_.num_symbols = number(most);
    plan_.num_parameters = number(most);
    for (size_t n = in_.count(most); n > 0; --n) {
      Fingerprint f;
      for (uint8_t& b : f.bytes) b = in_.byte();
      plan_.fingerprints.push_back(f);
    }
    for (size_t n = in_.count(most); n > 0; --n) plan_.slots.push_back(slot());
    for (size_t n = in_.count(most); n > 0; --n) plan_.cache.push_back(cache_entry());
    for (size_t n = in_.count(most); n > 0; --n) plan_.steps.push_back(step());
    for (const int number : slots_of_calls(plan_)) {
      Slot& s = plan_.slots[static_cast<size_t>(number)];
      s.shape = shape();
      s.strides = shape();
      if (s.shape.size() != s.strides.size())
        in_.error("a slot with other strides than dimensions");
    }
    for (size_t n = in_.count(most); n > 0; --n) {
      const bool mutation = flag();
      plan_.outputs.push_back({static_cast<int>(in_.sint()), mutation});
    }
    plan_.arena_bytes = decode_expr(in_, plan_.num_symbols);
    plan_.boundary_bytes = static_cast<int64_t>(in_.uint(most_bytes));
    plan_.canonical_ops = number(most);
    check();
    return std::move(plan_);
  }

 private:
  int number(size_t limit) { return static_cast<int>(in_.uint(limit)); }
  bool flag() {
    const uint8_t b = in_.byte();
    if (b > 1) in_.error("a truth value that is neither 0 nor 1");
    return b != 0;
  }
  int slot_number() {
    if (plan_.slots.empty()) in_.error("a slot that is not there");
    return number(plan_.slots.size() - 1);
  }
  // -1, or a number below `count`.
  int optional(int64_t n, size_t count, const char* what) const {
    if (n < -1 || n >= static_cast<int64_t>(count)) in_.error(what);
    return static_cast<int>(n);
  }

  Slot slot() {
    const uint8_t kind = in_.byte(), dtype = in_.byte();
    if (kind > static_cast<uint8_t>(SlotKind::cached) || dtype >= num_dtypes)
      in_.error("an unknown kind of slot");
    Slot s{static_cast<SlotKind>(kind), static_cast<DType>(dtype), {}, {}};
    s.index = optional(in_.sint(), most, "a slot's number");
    s.bytes = decode_expr(in_, plan_.num_symbols);
    s.offset = decode_expr(in_, plan_.num_symbols);
    s.boundary = flag();
    return s;
  }

  CacheEntry cache_entry() {
    CacheEntry entry{slot_number(), {}};
    for (size_t n = in_.count(most); n > 0; --n)
      entry.parameters.push_back(number(static_cast<size_t>(plan_.num_parameters)));
    return entry;
  }

  Step step() {
    Step s{StepKind::kernel};
    s.program = number(plan_.fingerprints.size());
    if (static_cast<size_t>(s.program) == plan_.fingerprints.size()) return call();
    for (size_t n = in_.count(most); n > 0; --n) s.buffers.push_back(slot_number());
    for (size_t n = in_.count(most); n > 0; --n)
      s.symbols.push_back(decode_expr(in_, plan_.num_symbols));
    s.cached = optional(in_.sint(), plan_.cache.size(), "a cache entry that is not there");
    return s;
  }

  Step call() {
    Step s{StepKind::host_call};
    s.callee = number(most);
    s.name = std::string(in_.string(expression_bytes));
    for (size_t n = in_.count(most); n > 0; --n) s.arguments.push_back(slot_number());
    for (size_t n = in_.count(most); n > 0; --n) {
      const int slot = optional(in_.sint(), plan_.slots.size(), "a result that is not there");
      if (slot >= 0 && plan_.slots[static_cast<size_t>(slot)].kind != SlotKind::host)
        in_.error("a host call that writes no slot of the host");
      s.results.push_back(slot);
    }
    return s;
  }

  Shape shape() {
    Shape dims;
    for (size_t n = in_.count(most_rank); n > 0; --n)
      dims.push_back(decode_expr(in_, plan_.num_symbols));
    return dims;
  }

  // What one list says about another.
  void check() const {
    for (const Slot& s : plan_.slots) {
      const size_t count = s.kind == SlotKind::input    ? static_cast<size_t>(plan_.num_parameters)
                           : s.kind == SlotKind::output ? plan_.outputs.size()
                           : s.kind == SlotKind::cached ? plan_.cache.size()
                                                        : most;
      if (s.kind != SlotKind::arena && s.kind != SlotKind::host &&
          (s.index < 0 || static_cast<size_t>(s.index) >= count))
        in_.error("a slot of something that is not there");
    }
    for (const CacheEntry& c : plan_.cache) {
      if (plan_.slots[static_cast<size_t>(c.slot)].kind != SlotKind::cached)
        in_.error("a cache entry of another slot");
      for (const int p : c.parameters)
        if (p >= plan_.num_parameters) in_.error("a parameter that is not there");
    }
    for (const PlanOutput& o : plan_.outputs)
      optional(o.slot, plan_.slots.size(), "an output of a slot that is not there");
  }

  ByteReader& in_;
  Plan plan_;
};

}  // namespace

void encode(ByteWriter& out, const Plan& plan) {
  out.uint(static_cast<uint64_t>(plan.num_symbols));
  out.uint(static_cast<uint64_t>(plan.num_parameters));
  out.uint(plan.fingerprints.size());
  for (const Fingerprint& f : plan.fingerprints)
    for (const uint8_t b : f.bytes) out.byte(b);
  out.uint(plan.slots.size());
  for (const Slot& s : plan.slots) encode(out, s);
  out.uint(plan.cache.size());
  for (const CacheEntry& c : plan.cache) {
    out.uint(static_cast<uint64_t>(c.slot));
    out.uint(c.parameters.size());
    for (const int p : c.parameters) out.uint(static_cast<uint64_t>(p));
  }
  out.uint(plan.steps.size());
  for (const Step& s : plan.steps) encode(out, s, plan.fingerprints.size());
  for (const int number : slots_of_calls(plan)) {
    const Slot& s = plan.slots[static_cast<size_t>(number)];
    encode(out, s.shape);
    encode(out, s.strides);
  }
  out.uint(plan.outputs.size());
  for (const PlanOutput& o : plan.outputs) {
    out.byte(o.mutation);
    out.sint(o.slot);
  }
  out.string(plan.arena_bytes.str());
  out.uint(static_cast<uint64_t>(plan.boundary_bytes));
  out.uint(static_cast<uint64_t>(plan.canonical_ops));
}

Plan decode_plan(ByteReader& in) { return Reader(in).read(); }

Expr decode_expr(ByteReader& in, int symbols) {
  Expr e;
  try {
    e = parse_expr(in.string(expression_bytes));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::corrupt) throw;
    in.error("an expression that cannot be read");
  }
  if (e.any_atom([&](const Atom& a) {
        if (a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value) return true;
        return a.kind == Atom::Kind::symbol && (a.id < 0 || a.id >= symbols);
      }))
    in.error("an expression of an unknown size");
  return e;
}

}  // namespace hologram::schedule
