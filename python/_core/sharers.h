// python/_core/sharers.h: the tensors that hold the storages of weights, where all are known.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace hologram::python {

/// A storage that several tensors hold may be written through any of them, and each may have a
/// version counter of its own. What is computed from it holds while the content is the same; as
/// long as all holders are known and none has been written, that need not be compared. The holders
/// are searched for among Python's objects, which takes 10 to 100 ms, once comparing has taken as
/// long. Used under the GIL.
class Sharers {
 public:
  static Sharers& of_process();

  /// Seconds of comparing before a search; twice as many as before, up to longest_wait, where the
  /// last one has not found all.
  double patience() const { return std::max(first_search, took_); }

  /// A number above 0 that stays the same while all of the storage's holders are known tensors,
  /// none of which has been written; 0: compare. `check`: as begin() gave it.
  int64_t quiet(const void* storage, uint32_t holders, int64_t check);
  int64_t begin() { return ++checks_; }
  /// Tells that a call compared the contents of `storages`, `bytes` in all, in `seconds`. Searches
  /// for holders once that is worth it, and says once in the process what stays to be compared.
  void compared(const std::vector<const void*>& storages, int64_t bytes, double seconds);
  /// How many contents calls have compared.
  int64_t comparisons() const { return comparisons_; }
  /// Drops the weak reference to a tensor.
  void drop(PyObject* tensor);
  /// tell(weights, bytes): what stays to be compared at each call.
  void set_teller(nanobind::object tell) { tell_ = std::move(tell); }

 private:
  static constexpr double first_search = 0.02;
  static constexpr double longest_wait = 32;  // times patience(): searches take 3 % of comparing

  struct Holder {
    nanobind::object weak;
    int64_t version;
    uint32_t uses = 1;  // who holds its implementation: its object, and views; 0: anyone
  };
  struct Group {
    std::vector<Holder> holders;
    int64_t number = 0, check = -1, found = 0;
    uint32_t seen = 0;  // holders, by the last call
  };

  void search(const std::vector<const void*>& storages);
  int64_t look(const void* storage, uint32_t holders, Group& group);
  static void add(Group& group, nanobind::handle tensor);
  static void add_bases(Group& group);
  void forget_gone(Group& group);

  std::unordered_map<const void*, Group> groups_;
  nanobind::object tell_;
  int64_t checks_ = 0, numbers_ = 0, comparisons_ = 0;
  double spent_ = 0, took_ = 0, wait_ = first_search;
};

}  // namespace hologram::python
