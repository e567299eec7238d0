// tests/unit/plan_run.cpp: what every plan must keep to, and a slow runner of plans.
#include "unit/plan_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "interp/interp.h"

namespace hologram::test {
namespace {

using atlas::Access;
using schedule::Plan;
using schedule::Slot;
using schedule::SlotKind;
using schedule::Step;
using schedule::StepKind;

constexpr std::byte pattern{0xa5};

// What a step reads and writes of slots.
struct Uses {
  std::vector<int> reads, writes;
};

Uses uses_of(const Plan& plan, const Step& step) {
  Uses out;
  if (step.kind == StepKind::host_call) {
    out.reads = step.arguments;
    for (int slot : step.results)
      if (slot >= 0) out.writes.push_back(slot);
    return out;
  }
  size_t k = 0;
  for (const atlas::Buffer& b : plan.programs[static_cast<size_t>(step.program)].buffers) {
    if (b.access == Access::scratch) continue;
    int slot = step.buffers[k++];
    if (b.access != Access::write) out.reads.push_back(slot);
    if (b.access != Access::read) out.writes.push_back(slot);
  }
  return out;
}

class Checker {
 public:
  Checker(const Plan& plan, const std::vector<int64_t>& symbols) : plan_(plan), symbols_(symbols) {}

  std::string run() {
    for (const atlas::Program& p : plan_.programs) try {
        atlas::verify(p);
      } catch (const Error& e) {
        bad("a program is not valid: {}", e.what());
      }
    lives();
    order();
    places();
    outputs();
    return faults_;
  }

 private:
  template <class... Args>
  void bad(fmt::format_string<Args...> format, Args&&... args) {
    faults_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  const Slot& slot(int i) const { return plan_.slots[static_cast<size_t>(i)]; }
  bool empty(const Slot& s) const { return s.bytes.eval(symbols_) <= 0; }

  void lives() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      Uses u = uses_of(plan_, plan_.steps[s]);
      for (const auto* list : {&u.reads, &u.writes})
        for (int i : *list) {
          auto [it, first] = life_.emplace(i, std::pair(s, s));
          if (!first) it->second.second = s;
        }
    }
  }

  void order() {
    std::map<int, int> writer;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const Step& step = plan_.steps[s];
      Uses u = uses_of(plan_, step);
      for (int i : u.reads) {
        auto it = writer.find(i);
        bool given = slot(i).kind == SlotKind::input;
        if (it == writer.end()) {
          if (!given && !empty(slot(i))) bad("step {} reads slot {} before it is written", s, i);
        } else if (!std::count(step.after.begin(), step.after.end(), it->second)) {
          bad("step {} reads slot {} of step {} and does not come after it", s, i, it->second);
        }
        bool cached = slot(i).kind == SlotKind::cached || given;
        if (step.cached >= 0 && !cached) bad("cached step {} reads slot {}", s, i);
      }
      for (int i : u.writes) {
        writer[i] = static_cast<int>(s);
        bool kept = slot(i).kind == SlotKind::cached;
        if (kept != (step.cached >= 0)) bad("step {} writes slot {} of another kind", s, i);
      }
    }
    for (const auto& [i, s] : writer) written_.insert(i);
  }

  void places() {
    int64_t arena = plan_.arena_bytes.eval(symbols_);
    struct Place {
      int slot;
      int64_t begin, end;
      std::pair<size_t, size_t> life;
    };
    std::vector<Place> placed;
    for (const auto& [i, life] : life_) {
      const Slot& s = slot(i);
      if (s.kind != SlotKind::arena || empty(s)) continue;
      int64_t begin = s.offset.eval(symbols_), end = begin + s.bytes.eval(symbols_);
      if (begin < 0 || end > arena) bad("slot {} ends at {}, the arena at {}", i, end, arena);
      if (begin % 64 != 0) bad("slot {} lies at {}", i, begin);
      if (s.boundary && end > plan_.boundary_bytes) bad("slot {} leaves the boundary pool", i);
      if (!s.boundary && begin < plan_.boundary_bytes) bad("slot {} lies in the boundary pool", i);
      for (const Place& p : placed)
        if (life.first <= p.life.second && p.life.first <= life.second && begin < p.end && p.begin < end)
          bad("slots {} and {} overlap", p.slot, i);
      placed.push_back({i, begin, end, life});
    }
  }

  void outputs() {
    for (size_t k = 0; k < plan_.outputs.size(); ++k) {
      int i = plan_.outputs[k].slot;
      bool given = plan_.outputs[k].mutation || slot(i).kind == SlotKind::input;
      if (!given && !empty(slot(i)) && !written_.count(i)) bad("output {} is not written", k);
    }
  }

  const Plan& plan_;
  const std::vector<int64_t>& symbols_;
  std::map<int, std::pair<size_t, size_t>> life_;
  std::set<int> written_;
  std::string faults_;
};

size_t width(DType t) { return static_cast<size_t>(size_of(t)); }

void write(const Tensor& t, std::byte* to) {
  for (size_t i = 0; i < t.size(); ++i) std::memcpy(to + i * width(t.dtype), &t.bits[i], width(t.dtype));
}

Tensor read(const Slot& s, const std::byte* from, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> shape;
  for (const Expr& d : s.shape) shape.push_back(d.eval(symbols));
  Tensor t = filled(s.dtype, shape, 0);
  for (size_t i = 0; i < t.size(); ++i) std::memcpy(&t.bits[i], from + i * width(s.dtype), width(s.dtype));
  return t;
}

}  // namespace

std::string faults_of(const Plan& plan, const std::vector<int64_t>& symbols) { return Checker(plan, symbols).run(); }

PlanRunner::Bytes& PlanRunner::own(int slot, size_t size) {
  Bytes& bytes = memory_[slot];
  bytes.assign(std::max<size_t>(size, 1), pattern);
  address_[static_cast<size_t>(slot)] = bytes.data();
  return bytes;
}

void PlanRunner::call_host(const Step& step, const std::vector<int64_t>& symbols) {
  for (size_t r = 0; r < step.results.size(); ++r) {
    int to = step.results[r], from = step.arguments.at(r);
    if (to < 0) continue;
    auto i = static_cast<size_t>(to);
    auto bytes = static_cast<size_t>(std::max<int64_t>(plan_.slots[i].bytes.eval(symbols), 0));
    own(to, bytes);
    std::memcpy(address_[i], address_[static_cast<size_t>(from)], bytes);
  }
}

void PlanRunner::launch(const Step& step, const std::vector<int64_t>& symbols) {
  atlas::Program program = plan_.programs[static_cast<size_t>(step.program)];
  atlas::expand_math(program);
  std::vector<int64_t> sizes;
  for (const Expr& e : step.symbols) sizes.push_back(e.eval(symbols));
  std::vector<void*> buffers;
  for (int slot : step.buffers) buffers.push_back(address_[static_cast<size_t>(slot)]);
  interp::run(program, buffers.data(), sizes.data(), nullptr);
}

std::vector<Tensor> PlanRunner::run(const std::map<int, Tensor>& parameters, const std::vector<int64_t>& symbols) {
  arena_.assign(static_cast<size_t>(std::max<int64_t>(plan_.arena_bytes.eval(symbols), 1)), pattern);
  address_.resize(plan_.slots.size());
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& s = plan_.slots[i];
    auto bytes = static_cast<size_t>(std::max<int64_t>(s.bytes.eval(symbols), 0));
    if (s.kind == SlotKind::arena) address_[i] = arena_.data() + s.offset.eval(symbols);
    if (s.kind == SlotKind::output || (s.kind == SlotKind::cached && !warm_) || s.kind == SlotKind::input) own(static_cast<int>(i), bytes);
    if (s.kind == SlotKind::input) write(parameters.at(s.index), address_[i]);
  }
  for (const Step& step : plan_.steps) {
    if (step.kind == StepKind::host_call)
      call_host(step, symbols);
    else if (step.cached < 0 || !warm_)
      launch(step, symbols);
  }
  warm_ = true;
  std::vector<Tensor> out;
  for (const auto& o : plan_.outputs)
    out.push_back(read(plan_.slots[static_cast<size_t>(o.slot)], address_[static_cast<size_t>(o.slot)], symbols));
  return out;
}

}  // namespace hologram::test
