// python/_core/sharers.cpp: the search for the tensors that hold a storage.
#include "sharers.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "tensor_words.h"
#include "writes.h"

namespace nb = nanobind;

namespace hologram::python {

Sharers& Sharers::of_process() {
  static Sharers& sharers = *new Sharers;  // holds Python's objects, which end before statics do
  return sharers;
}

int64_t Sharers::quiet(const void* storage, uint32_t holders, int64_t check) {
  auto it = groups_.find(storage);
  if (it == groups_.end()) return 0;
  Group& group = it->second;
  if (holders < std::exchange(group.seen, holders)) {  // who is left may be known, or soon found
    forget_gone(group);
    wait_ = patience();
  }
  if (group.check != check) {
    group.found = look(storage, holders, group);
    group.check = check;
  }
  return group.found;
}

// An array of NumPy's or a capsule of DLPack's writes without a version. What makes them of a
// parameter itself holds no tensor more, and is not seen here either.
int64_t Sharers::look(const void* storage, uint32_t holders, Group& group) {
  const TensorWords& words = TensorWords::of_process();
  if (!words.known() || group.holders.size() != holders || !words.is_resizable(storage)) return 0;
  for (Holder& h : group.holders) {
    nb::object tensor = referent(h.weak.ptr());
    if (!tensor.is_valid() || words.storage_of(tensor.ptr()) != storage ||
        (h.uses && words.uses_of(tensor.ptr()) != h.uses))
      return 0;
    const int64_t version = words.look(tensor.ptr()).version;
    if (version < 0) return 0;
    if (std::exchange(h.version, version) != version) group.number = ++numbers_;
  }
  return group.number;
}

void Sharers::compared(const std::vector<const void*>& storages, int64_t bytes, double seconds) {
  comparisons_ += static_cast<int64_t>(storages.size());
  spent_ += seconds;
  const bool fresh =
      std::ranges::any_of(storages, [&](const void* s) { return !groups_.contains(s); });
  if (spent_ < (fresh ? patience() : wait_)) return;
  search(storages);
  spent_ = 0;
  const TensorWords& words = TensorWords::of_process();
  const bool all = std::ranges::all_of(storages, [&](const void* s) {
    auto it = groups_.find(s);
    return it != groups_.end() && !it->second.holders.empty() &&
           look(s, words.holders_of(s), it->second) > 0;
  });
  wait_ = all ? patience() : std::min(2 * std::max(wait_, took_), longest_wait * patience());
  if (!all && tell_.is_valid()) std::exchange(tell_, {})(storages.size(), bytes);
}

void Sharers::add(Group& group, nb::handle tensor) {
  group.holders.push_back({nb::weakref(tensor),
                           TensorWords::of_process().look(tensor.ptr()).version,
                           is_parameter(tensor) ? 0U : 1U});
}

// A view holds what it is a view of, which may have no object of Python's until it is asked for.
void Sharers::add_bases(Group& group) {
  for (size_t i = 0; i < group.holders.size(); ++i) {
    nb::object view = referent(group.holders[i].weak.ptr());
    nb::object base = view.is_valid() ? view.attr("_base") : nb::none();
    if (base.is_none()) continue;
    auto is_base = [&](const Holder& h) { return refers_to(h.weak.ptr(), base.ptr()); };
    auto it = std::ranges::find_if(group.holders, is_base);
    if (it == group.holders.end()) {
      add(group, base);
      it = std::prev(group.holders.end());
    }
    if (it->uses) ++it->uses;
  }
}

// What these wrote is not known: the group's number moves, and contents are compared once.
void Sharers::forget_gone(Group& group) {
  std::vector<nb::object> left;
  for (const Holder& h : group.holders)
    if (nb::object tensor = referent(h.weak.ptr()); tensor.is_valid())
      left.push_back(std::move(tensor));
  if (left.size() == group.holders.size()) return;
  group.holders.clear();
  for (const nb::object& tensor : left) add(group, tensor);
  add_bases(group);
  group.number = ++numbers_;
}

void Sharers::search(const std::vector<const void*>& storages) {
  const TensorWords& words = TensorWords::of_process();
  if (!words.known()) return;
  const auto start = std::chrono::steady_clock::now();
  std::erase_if(groups_, [](const auto& g) {
    return g.second.holders.empty() || std::ranges::any_of(g.second.holders, [](const Holder& h) {
             return !referent(h.weak.ptr()).is_valid();
           });
  });
  for (const void* s : storages) groups_[s] = {{}, ++numbers_};
  nb::list objects = nb::borrow<nb::list>(nb::module_::import_("gc").attr("get_objects")());
  for (nb::handle o : objects) {
    if (!words.is_tensor(o.ptr())) continue;
    auto it = groups_.find(words.storage_of(o.ptr()));
    if (it == groups_.end() || std::ranges::find(storages, it->first) == storages.end()) continue;
    add(it->second, o);
  }
  for (const void* s : storages) add_bases(groups_[s]);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  took_ = took.count();
}

void Sharers::drop(PyObject* tensor) {
  std::erase_if(groups_, [tensor](const auto& g) {
    return std::ranges::any_of(
        g.second.holders, [tensor](const Holder& h) { return refers_to(h.weak.ptr(), tensor); });
  });
}

}  // namespace hologram::python
