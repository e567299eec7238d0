// sigmatics/effects.cpp: ranges and quotes.
#include "sigmatics/effects.h"

#include <bitset>

namespace hologram::sigmatics {
namespace {

using Classes = std::bitset<num_classes>;

Classes classes_of(const Call& c) {
  Classes out;
  for (const Operand* o : {&c.a, &c.b, &c.to}) {
    bool is_to = o == &c.to, is_b = o == &c.b;
    if (is_to && c.generator == Generator::swap) continue;
    if (is_b && c.generator == Generator::copy) continue;
    out.set(static_cast<size_t>(o->cls));
  }
  return out;
}

// Operands without a page mean the page of the first that has one.
Call with_pages(Call c) {
  int page = c.a.page;
  if (c.generator != Generator::copy && page < 0) page = c.b.page;
  if (c.generator != Generator::swap && page < 0) page = c.to.page;
  for (Operand* o : {&c.a, &c.b, &c.to})
    if (o->page < 0) o->page = page;
  return c;
}

class Recorder {
 public:
  void take(const Call& c) {
    check_call(c);
    if (!c.is_range()) return one(c);
    for (uint8_t k : c.range) {
      Call single = c;
      single.range.clear();
      single.a = single.b = single.to = {k};
      one(single);
    }
  }

  Effects finish() {
    for (size_t k = 0; k < quoted_.size(); ++k)
      if (quoted_[k]) out_.unevaluated.push_back(static_cast<int>(k));
    out_.recorded = std::move(waiting_);
    return std::move(out_);
  }

 private:
  void one(const Call& c) {
    auto cls = static_cast<size_t>(c.a.cls);
    switch (c.generator) {
      case Generator::mark:
        return;
      case Generator::quote:
        quoted_.set(cls);
        return;
      case Generator::evaluate:
        if (quoted_[cls]) evaluate(cls);
        return;
      default:
        if ((classes_of(c) & quoted_).any())
          waiting_.push_back(with_pages(c));
        else
          out_.steps.push_back(with_pages(c));
    }
  }

  // From the last recorded call to the first: what touches the class, or a class of a later call
  // that runs.
  void evaluate(size_t cls) {
    quoted_.reset(cls);
    Classes wanted;
    wanted.set(cls);
    std::vector<bool> runs(waiting_.size());
    for (size_t k = waiting_.size(); k-- > 0;) {
      Classes own = classes_of(waiting_[k]);
      runs[k] = (own & wanted).any();
      if (runs[k]) wanted |= own;
    }
    std::vector<Call> rest;
    for (size_t k = 0; k < waiting_.size(); ++k)
      (runs[k] ? out_.steps : rest).push_back(std::move(waiting_[k]));
    waiting_ = std::move(rest);
  }

  Effects out_;
  Classes quoted_;
  std::vector<Call> waiting_;
};

}  // namespace

Effects effects_of(std::span<const Call> calls) {
  Recorder r;
  for (const Call& c : calls) r.take(c);
  return r.finish();
}

}  // namespace hologram::sigmatics
