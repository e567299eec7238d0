// base/recent.h: as many values as were used last.
#pragma once

#include <list>
#include <unordered_map>
#include <utility>

namespace hologram {

/// Values by key, at most `limit` (at least 1) of them: beyond that the one whose last use is
/// longest ago is forgotten. Not thread-safe.
template <class Key, class Value>
class Recent {
 public:
  explicit Recent(size_t limit) : limit_(limit) {}

  /// The value of a key, which is then the one used last; null: there is none.
  Value* find(const Key& key) {
    const auto it = places_.find(key);
    if (it == places_.end()) return nullptr;
    values_.splice(values_.begin(), values_, it->second);
    return &it->second->second;
  }

  /// The key's value if it has one, else this one.
  Value& insert(const Key& key, Value value) {
    if (Value* found = find(key)) return *found;
    values_.emplace_front(key, std::move(value));
    places_.emplace(key, values_.begin());
    if (values_.size() > limit_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    return values_.front().second;
  }

  size_t size() const { return values_.size(); }

 private:
  using Values = std::list<std::pair<Key, Value>>;  // the one used last first
  size_t limit_;
  Values values_;
  std::unordered_map<Key, typename Values::iterator> places_;
};

}  // namespace hologram
