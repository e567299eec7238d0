// runtime/packed_files.cpp: packed weights that executables share, and in files, processes.
#include "runtime/packed_files.h"

#include <algorithm>

namespace hologram::runtime {
namespace {

using schedule::Plan;
using schedule::SlotKind;

constexpr int64_t least_bytes = int64_t{64} << 10;

/// Names cache entries of a plan by the programs that compute them and what those read.
class Namer {
 public:
  Namer(const Plan& plan, std::span<const std::optional<Fingerprint>> contents)
      : plan_(plan), contents_(contents), names_(plan.cache.size()), known_(plan.cache.size()) {}

  /// Nothing where it is computed from something without a name.
  std::optional<std::string> name(size_t entry) {
    if (!known_[entry]) {
      known_[entry] = true;  // entries that read each other have no name
      names_[entry] = compose(entry);
    }
    return names_[entry];
  }

 private:
  std::optional<std::string> compose(size_t entry) {
    std::string out;
    for (const schedule::Step& step : plan_.steps) {
      if (step.cached != static_cast<int>(entry)) continue;
      if (step.kind != schedule::StepKind::kernel) return std::nullopt;
      out += plan_.fingerprints[static_cast<size_t>(step.program)].hex();
      for (const Expr& e : step.symbols) {
        if (!e.is_const()) return std::nullopt;
        out += " " + e.str();
      }
      for (const int slot : step.buffers) {
        auto source = operand(entry, slot);
        if (!source) return std::nullopt;
        out += " " + *source;
      }
      out += ';';
    }
    return out;
  }

  std::optional<std::string> operand(size_t entry, int number) {
    const schedule::Slot& slot = plan_.slots[static_cast<size_t>(number)];
    const auto index = static_cast<size_t>(slot.index);
    if (slot.kind == SlotKind::input && index < contents_.size() && contents_[index])
      return contents_[index]->hex();
    if (slot.kind != SlotKind::cached) return std::nullopt;
    if (index == entry) return "result";
    auto other = name(index);
    if (!other) return std::nullopt;
    return fingerprint(*other).hex();
  }

  const Plan& plan_;
  std::span<const std::optional<Fingerprint>> contents_;
  std::vector<std::optional<std::string>> names_;  // by cache entry
  std::vector<bool> known_;
};

}  // namespace

std::shared_ptr<void> PackedTable::find(const Runtime& runtime, const Fingerprint& name) {
  std::lock_guard lock(mutex_);
  const auto found = values_.find({&runtime, name});
  return found == values_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<void> PackedTable::unite(const Runtime& runtime, const Fingerprint& name,
                                         std::shared_ptr<void> value) {
  std::lock_guard lock(mutex_);
  if (values_.size() >= most_) {
    std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
    most_ = 2 * values_.size() + 1024;
  }
  std::weak_ptr<void>& place = values_[{&runtime, name}];
  if (auto there = place.lock()) return there;
  place = value;
  return value;
}

PackedValues::PackedValues(const Executable& executable,
                           std::span<const std::optional<Fingerprint>> contents, PackedTable& table)
    : runtime_(executable.runtime()), table_(table), values_(executable.plan().cache.size()) {
  if (executable.runtime().device()) return;
  const Plan& plan = executable.plan();
  const std::string target = executable.runtime().backend().code_key();
  Namer namer(plan, contents);
  for (size_t c = 0; c < values_.size(); ++c) {
    const Expr& bytes = plan.slots[static_cast<size_t>(plan.cache[c].slot)].bytes;
    if (!bytes.is_const() || bytes.constant_value() < least_bytes) continue;
    if (auto name = namer.name(c))
      values_[c] = {fingerprint(fmt::format("packed {} {}", target, *name)),
                    static_cast<uint64_t>(bytes.constant_value())};
  }
}

void PackedValues::take(Kept& kept) const {
  kept.resize(values_.size());
  for (size_t c = 0; c < values_.size(); ++c)
    if (!kept[c] && values_[c].bytes > 0)
      if (auto found = table_.find(runtime_, values_[c].key)) kept.set(c, std::move(found));
}

void PackedValues::unite(Kept& kept) const {
  for (size_t c = 0; c < values_.size(); ++c)
    if (kept[c] && values_[c].bytes > 0)
      kept.set(c, table_.unite(runtime_, values_[c].key, kept[c]));
}

PackedFiles::PackedFiles(const Executable& executable,
                         std::span<const std::optional<Fingerprint>> contents, PackedTable& table)
    : PackedValues(executable, contents, table), cache_(executable.runtime().kernels().disk()) {}

void PackedFiles::take(Kept& kept) const {
  PackedValues::take(kept);
  for (size_t c = 0; c < kept.size(); ++c)
    if (!kept[c] && values()[c].bytes > 0)
      if (auto mapped = cache_.map(values()[c].key, values()[c].bytes))
        kept.set(c, std::move(mapped));
  unite(kept);
}

std::vector<size_t> PackedFiles::unshared(const Kept& kept) const {
  std::vector<size_t> out;
  uint64_t total = 0;
  for (size_t c = 0; c < values().size(); ++c) {
    total += values()[c].bytes;
    if (values()[c].bytes > 0 && in_pool(kept[c])) out.push_back(c);
  }
  if (total > cache_.limit() / 2) out.clear();
  return out;
}

void PackedFiles::share(Kept& kept, std::span<const size_t> which) const {
  for (const size_t c : which) {
    const auto& [key, bytes] = values()[c];
    cache_.put_mapped(key,
                      {static_cast<const std::byte*>(kept[c].get()), static_cast<size_t>(bytes)});
    if (auto mapped = cache_.map(key, bytes)) kept.set(c, std::move(mapped));
  }
}

}  // namespace hologram::runtime
