// python/_core/stamps.h: whether the tensors that cached values were computed from have changed.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executable.h"
#include "writes.h"

namespace hologram::python {

/// An address that Writes watches as long as this lives; null: none.
class Watched {
 public:
  explicit Watched(void* data = nullptr) : data_(data) {
    if (data) Writes::of_process().watch(data);
  }
  Watched(Watched&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Watched& operator=(Watched other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Watched() {
    if (data_) Writes::of_process().forget(data_);
  }
  void* get() const { return data_; }

 private:
  void* data_;
};

/// Which tensor, at which address and version, content was computed from. The address is watched
/// from the check on: a write during the call counts.
struct Stamp {
  nanobind::object weak;  // weak reference to the tensor
  Watched data;
  int64_t version = -1;      // -1: what is computed from it is not kept
  std::string content = {};  // of a small buffer: PyTorch's batch norm writes without a version
};

/// Whether other processes may write into the tensor.
inline bool is_shared(PyObject* tensor) {
  PyObject* shared = PyObject_CallMethod(tensor, "is_shared", nullptr);
  if (!shared) {
    PyErr_Clear();
    return false;
  }
  const bool is = PyObject_IsTrue(shared) == 1;
  Py_DECREF(shared);
  return is;
}

inline bool is_parameter(nanobind::handle tensor) {
  static PyObject* const type =
      nanobind::object(nanobind::module_::import_("torch.nn").attr("Parameter")).release().ptr();
  return PyObject_IsInstance(tensor.ptr(), type) == 1;
}

/// Per parameter of a plan's cache entries the stamp of what is kept of it. Used under the GIL.
class Stamps {
 public:
  /// `host`: whether the tensors lie in the host's memory.
  Stamps(const schedule::Plan& plan, bool host)
      : plan_(plan),
        host_(host),
        stamps_(static_cast<size_t>(plan.num_parameters)),
        small_(stamps_.size()) {
    for (const auto& entry : plan.cache)
      used_.insert(used_.end(), entry.parameters.begin(), entry.parameters.end());
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    for (const schedule::Slot& slot : plan.slots)
      if (slot.kind == schedule::SlotKind::input && slot.bytes.is_const())
        if (int64_t n = slot.bytes.constant_value(); host && n <= compared_bytes)
          small_[static_cast<size_t>(slot.index)] = static_cast<size_t>(std::max<int64_t>(n, 0));
    of_process().push_back(this);
  }
  ~Stamps() { std::erase(of_process(), this); }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  /// What a call found: what it may take, and the stamps of what it computes.
  struct Checked {
    runtime::Kept kept;
    std::vector<std::pair<size_t, Stamp>> changed;  // by parameter
    int64_t epoch = 0, commits = 0;
  };

  /// Fills `out.kept` with what the executable keeps, without what was computed from another
  /// tensor, another version of one, or in another epoch. `object(p)` is the tensor of parameter p,
  /// `data` the addresses by parameter. False with a Python exception.
  template <typename Object>
  bool check(const runtime::Executable& executable, Object object, void* const* data,
             Checked& out) {
    if (plan_.cache.empty()) return true;
    do {  // asking a tensor may run Python and with it another call's commit
      if (!check_once(executable, object, data, out)) return false;
    } while (out.commits != commits_);
    return true;
  }

  /// Keeps what a call that ended well computed, unless another call has changed what is kept since
  /// the check: theirs may rest on other tensors.
  void commit(runtime::Executable& executable, Checked checked) {
    if (checked.changed.empty() || checked.commits != commits_) return;
    ++commits_;
    epoch_ = checked.epoch;
    for (auto& [k, stamp] : checked.changed) stamps_[k] = std::move(stamp);
    executable.keep(std::move(checked.kept));
  }

  /// Drops all references to a tensor, weak as they are: what was computed from it is computed
  /// anew.
  static void drop(PyObject* tensor) {
    for (Stamps* stamps : of_process())
      for (Stamp& s : stamps->stamps_)
        if (s.weak.is_valid() && refers_to(s.weak.ptr(), tensor)) {
          s.weak = {};
          ++stamps->commits_;
        }
  }

  /// What is kept of these parameters is valid from now on, whatever happens to their tensors,
  /// which are no longer asked for.
  void pin(const std::vector<int>& parameters) {
    std::erase_if(used_, [&](int p) { return std::ranges::count(parameters, p) > 0; });
    for (int p : parameters) stamps_[static_cast<size_t>(p)] = Stamp{{}, Watched(), -1};
    ++commits_;  // calls in progress may hold what they computed anew
  }

 private:
  static constexpr int64_t compared_bytes = 64 << 10;  // the statistics of 16,384 channels

  static std::vector<Stamps*>& of_process() {
    static std::vector<Stamps*> all;
    return all;
  }

  template <typename Object>
  bool check_once(const runtime::Executable& executable, Object object, void* const* data,
                  Checked& out) {
    Writes::of_process().look();
    out.kept = executable.kept();
    out.epoch = Writes::of_process().epoch();
    out.commits = commits_;
    out.changed.clear();
    std::vector<char> changed(stamps_.size(), 0);
    for (int p : used_) {
      auto k = static_cast<size_t>(p);
      PyObject* o = object(p);
      const Stamp& s = stamps_[k];
      const int64_t version = version_of(o);
      if (version >= 0 && epoch_ == out.epoch && s.data.get() == data[k] && s.version == version &&
          s.weak.is_valid() && refers_to(s.weak.ptr(), o) &&
          std::memcmp(data[k], s.content.data(), s.content.size()) == 0)
        continue;
      changed[k] = 1;
      nanobind::object weak = nanobind::steal(PyWeakref_NewRef(o, nullptr));
      if (!weak.is_valid()) return false;
      Stamp made{std::move(weak), Watched(data[k]), version};
      if (host_ && version >= 0 && is_shared(o)) made.version = -1;
      if (made.version >= 0 && small_[k] > 0 && data[k] && !is_parameter(o))
        made.content.assign(static_cast<const char*>(data[k]), small_[k]);
      out.changed.emplace_back(k, std::move(made));
    }
    for (size_t c = 0; c < plan_.cache.size() && !out.changed.empty(); ++c)
      for (int p : plan_.cache[c].parameters)
        if (changed[static_cast<size_t>(p)]) out.kept[c].reset();
    return true;
  }

  const schedule::Plan& plan_;
  const bool host_;
  std::vector<Stamp> stamps_;
  std::vector<size_t> small_;  // by parameter: bytes of those that may be compared, else 0
  std::vector<int> used_;
  int64_t epoch_ = 0, commits_ = 0;
};

}  // namespace hologram::python
