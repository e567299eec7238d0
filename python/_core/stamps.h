// python/_core/stamps.h: whether the tensors that cached values were computed from have changed.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "identities.h"
#include "idle_values.h"
#include "runtime/packed_files.h"
#include "sharers.h"
#include "tensor_words.h"
#include "writes.h"

namespace hologram::python {

/// An address that Writes watches as long as this lives; null: none.
class Watched {
 public:
  explicit Watched(void* data = nullptr) : data_(data) {
    if (data) Writes::of_process().watch(data);
  }
  Watched(const Watched& other) : Watched(other.data_) {}
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
  int64_t version = -1;  // -1: what is computed from it is not kept
  bool native = false;   // a tensor of PyTorch's
  bool buffer = false;   // a small vector, which PyTorch's batch norm writes without a version
  // Of its bytes, which are compared at each call: a buffer's, or others hold the storage, or did.
  std::optional<uint64_t> content = std::nullopt;
  int64_t quiet = 0;  // what Sharers said when the content was this
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

/// Per parameter of a plan's cache entries the stamp of what is kept of it. Used under the GIL.
class Stamps {
 public:
  /// `host`: whether the tensors lie in the host's memory.
  Stamps(const schedule::Plan& plan, bool host)
      : plan_(plan),
        host_(host),
        parameters_(static_cast<size_t>(plan.num_parameters)),
        set_(new_set()),
        bytes_(parameters_, -1),
        vector_(parameters_) {
    for (const auto& entry : plan.cache)
      used_.insert(used_.end(), entry.parameters.begin(), entry.parameters.end());
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    for (const schedule::Slot& slot : plan.slots)
      if (slot.kind == schedule::SlotKind::input && slot.bytes.is_const()) {
        const auto k = static_cast<size_t>(slot.index);
        bytes_[k] = std::max<int64_t>(slot.bytes.constant_value(), 0);
        vector_[k] = slot.shape.size() < 2;
      }
    of_process().push_back(this);
  }
  ~Stamps() {
    if (watched_) IdleValues::of_process().forget(*watched_);
    std::erase(of_process(), this);
  }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  /// What a call found: what it may take, and the stamps of what it computes.
  struct Checked {
    runtime::Kept kept;
    std::vector<uint8_t> passing;  // by cache entry: is not worth keeping beyond the call
    std::vector<std::pair<size_t, Stamp>> changed;  // by parameter
    int64_t epoch = 0, commits = 0;
    std::optional<runtime::PackedValues> packed;  // by these stamps' names
    bool anew = false;  // of tensors that are as they were something is no longer kept
  };

  /// Reads of each stamp what check() will: as TensorWords::touch() does of the tensors.
  uint64_t touch() const {
    uint64_t sum = 0;
    for (int p : used_)
      if (const nanobind::object& weak = set_.stamps[static_cast<size_t>(p)].weak; weak.is_valid())
        sum += reinterpret_cast<uintptr_t>(Py_TYPE(weak.ptr()));
    return sum;
  }

  /// Fills `out.kept` with what the executable keeps, without what was computed from another
  /// tensor, another version of one, or in another epoch. `object(p)` is the tensor of parameter p,
  /// `data` the addresses by parameter. False with a Python exception.
  template <typename Object>
  bool check(runtime::Executable& executable, Object object, void* const* data, Checked& out) {
    if (plan_.cache.empty()) return true;
    bool compared = false;
    do {  // asking a tensor may run Python and with it another call's commit
      turn_to_set_of(executable, object);
      if (!check_once(executable, object, data, out)) return false;
      if (!out.changed.empty() && !std::exchange(compared, true)) tell_ties(executable, object);
    } while (out.commits != commits_);
    return true;
  }

  /// Keeps what a call that ended well computed, unless another call has changed what is kept since
  /// the check: theirs may rest on other tensors.
  void commit(runtime::Executable& executable, Checked checked) {
    if ((checked.changed.empty() && set_.settled && !checked.anew) || checked.commits != commits_)
      return;
    count_renewals(checked);
    ++commits_;
    set_.epoch = checked.epoch;
    for (auto& [k, stamp] : checked.changed) set_.stamps[k] = std::move(stamp);
    if (checked.packed) checked.packed->unite(checked.kept);
    executable.keep(std::move(checked.kept));
    if (host_ && !held_) {
      watched_ = &executable;
      IdleValues::of_process().watch(executable);
    }
  }

  /// What is kept stays, however long no call comes.
  void hold() {
    held_ = true;
    if (watched_) IdleValues::of_process().forget(*watched_);
  }

  /// Drops all references to a tensor, weak as they are: what was computed from it is computed
  /// anew.
  static void drop(PyObject* tensor) {
    Sharers::of_process().drop(tensor);
    Identities::of_process().drop(tensor);
    auto clear = [tensor](Stamps& all, std::vector<Stamp>& stamps) {
      for (Stamp& s : stamps)
        if (s.weak.is_valid() && refers_to(s.weak.ptr(), tensor)) {
          s.weak = {};
          ++all.commits_;
        }
    };
    for (Stamps* stamps : of_process()) {
      clear(*stamps, stamps->set_.stamps);
      for (Set& other : stamps->others_) clear(*stamps, other.stamps);
    }
  }

  /// How many of the weights that the plan's kept values are computed from share their memory with
  /// other tensors, and their bytes.
  static std::pair<int64_t, int64_t> shared(const schedule::Plan& plan) {
    std::pair<int64_t, int64_t> out{0, 0};
    for (const Stamps* stamps : of_process())
      for (size_t k = 0; &stamps->plan_ == &plan && k < stamps->set_.stamps.size(); ++k)
        if (stamps->set_.shared[k])
          out = {out.first + 1, out.second + std::max<int64_t>(stamps->bytes_[k], 0)};
    return out;
  }

  /// What is kept of these parameters is valid from now on, whatever happens to their tensors,
  /// which are no longer asked for.
  void pin(const std::vector<int>& parameters) {
    hold();
    std::erase_if(used_, [&](int p) { return std::ranges::count(parameters, p) > 0; });
    for (int p : parameters) set_.stamps[static_cast<size_t>(p)] = Stamp{{}, Watched(), -1};
    ++commits_;  // calls in progress may hold what they computed anew
  }

 private:
  static constexpr int64_t buffer_bytes = 64 << 10;  // the statistics of 16,384 channels
  static constexpr int64_t chunk_bytes = 256 << 10;
  static constexpr size_t most_sets = 256;
  static constexpr int calls_until_look = 64;  // for sets whose tensors are gone
  static constexpr int passing_from = 2;       // calls in a row that have found other weights

  static std::vector<Stamps*>& of_process() {
    static std::vector<Stamps*> all;
    return all;
  }

  // Weights that an optimizer writes between any two calls: what is packed of them is made for each
  // call. Once they have stayed for a call it is kept again.
  void count_renewals(const Checked& checked) {
    std::vector<char> changed(set_.stamps.size(), 0);
    for (const auto& [k, _] : checked.changed) changed[k] = 1;
    set_.settled = true;
    for (size_t c = 0; c < set_.renewed.size(); ++c) {
      const auto& of = plan_.cache[c].parameters;
      const bool again = std::ranges::any_of(of, [&](int p) {
        const auto k = static_cast<size_t>(p);
        return changed[k] && set_.stamps[k].weak.is_valid();
      });
      set_.renewed[c] = again ? std::min(set_.renewed[c] + 1, passing_from) : 0;
      set_.settled = set_.settled && (!host_ || (!again && checked.kept[c]));
    }
  }

  // What belongs to the tensors of one set of parameters.
  struct Set {
    std::vector<Stamp> stamps;
    std::vector<char> shared;  // by parameter, at the last check
    std::vector<int> renewed;  // by cache entry: calls in a row for which it was computed anew
    int64_t epoch = 0;
    int number = 0, returns = 0;  // how often calls came back to it
    bool settled = false;         // the last call left a value for each cache entry, none anew
  };
  Set new_set() const {
    return {std::vector<Stamp>(parameters_), std::vector<char>(parameters_),
            std::vector<int>(plan_.cache.size())};
  }

  // Blocks of a model that are compiled one by one are calls of one graph by turns: each goes on
  // with what was kept of its own weights. What has come only once is not kept: it may not come
  // again. The first weight tells most sets before anything is compared.
  template <typename Object>
  void turn_to_set_of(runtime::Executable& executable, Object object) {
    if (used_.empty() || held_) return;
    const nanobind::object& first = stamp_of(set_, used_[0]).weak;
    const bool same = !first.is_valid() || refers_to(first.ptr(), object(used_[0]));
    if (same && (others_.empty() || ++calls_ % calls_until_look != 0)) return;
    std::erase_if(others_, [&](const Set& s) {
      const bool gone = std::ranges::any_of(used_, [&](int p) { return !lives(stamp_of(s, p)); });
      if (gone) executable.forget_aside(s.number);
      return gone;
    });
    if (!same) turn(executable, object, false);
  }

  // Sets with one first weight, such as that of layers which are tied, are told by the others, once
  // one was found to be another: with calls of one set nothing more is compared.
  template <typename Object>
  void tell_ties(runtime::Executable& executable, Object object) {
    const bool others = !held_ && std::ranges::any_of(used_, [&](int p) {
      const Stamp& s = stamp_of(set_, p);
      return lives(s) && !refers_to(s.weak.ptr(), object(p));
    });
    if (others) turn(executable, object, true);
  }

  // tied: a set that is new begins with what is kept of the weights that it shares.
  template <typename Object>
  void turn(runtime::Executable& executable, Object object, bool tied) {
    const auto found = std::ranges::find_if(others_, [&](const Set& s) {
      return std::ranges::all_of(used_, [&](int p) {
        const nanobind::object& weak = stamp_of(s, p).weak;
        return weak.is_valid() && refers_to(weak.ptr(), object(p));
      });
    });
    const bool known = found != others_.end();
    if (!known && !lives(stamp_of(set_, used_[0]))) return;
    Set next = known ? std::move(*found) : tied ? set_ : new_set();
    if (known) {
      others_.erase(found);
      ++next.returns;
    } else {
      next.number = ++sets_;
      next.returns = 0;
    }
    runtime::Kept kept = executable.kept();
    executable.turn_to(next.number);
    if (tied && !known) executable.keep(std::move(kept));
    if (set_.returns == 0) executable.forget_aside(set_.number);
    others_.push_back(std::exchange(set_, std::move(next)));
    if (others_.size() > most_sets) {
      executable.forget_aside(others_.front().number);
      others_.erase(others_.begin());
    }
    ++commits_;
  }

  static const Stamp& stamp_of(const Set& set, int p) { return set.stamps[static_cast<size_t>(p)]; }
  static bool lives(const Stamp& s) {
    return s.weak.is_valid() && referent(s.weak.ptr()).is_valid();
  }

  // What a check compares of tensors that share their memory, and how long that takes.
  struct Comparing {
    host::ThreadPool& threads;
    int64_t check = Sharers::of_process().begin(), bytes = 0;
    std::vector<const void*> storages = {};
    double seconds = 0;
  };

  template <typename Object>
  bool check_once(const runtime::Executable& executable, Object object, void* const* data,
                  Checked& out) {
    out.kept = executable.kept();
    out.epoch = Writes::of_process().epoch();
    out.commits = commits_;
    out.passing.clear();
    out.changed.clear();
    out.packed.reset();
    out.anew = false;
    std::vector<char> changed(set_.stamps.size(), 0);
    std::optional<Comparing> comparing;
    const TensorWords& words = TensorWords::of_process();
    for (int p : used_) {
      auto k = static_cast<size_t>(p);
      PyObject* o = object(p);
      const Stamp& s = set_.stamps[k];
      const bool same = set_.epoch == out.epoch && s.data.get() == data[k] && s.weak.is_valid() &&
                        refers_to(s.weak.ptr(), o);
      const TensorState state = same && s.native ? words.look(o) : words.look_at_any(o);
      const bool unwritten = same && s.version >= 0 && s.version == state.version;
      set_.shared[k] = state.holders > 1;
      if (unwritten && !set_.shared[k] && !s.content) continue;
      if (!comparing) comparing.emplace(executable.runtime().threads());
      if (unwritten && has_its_content(k, state, *comparing)) continue;
      changed[k] = 1;
      nanobind::object weak = nanobind::steal(PyWeakref_NewRef(o, nullptr));
      if (!weak.is_valid()) return false;
      out.changed.emplace_back(k, Stamp{std::move(weak), Watched(data[k]), state.version});
      note(out.changed.back().second, k, o, state, *comparing);
    }
    for (size_t c = 0; c < plan_.cache.size() && !out.changed.empty(); ++c)
      for (int p : plan_.cache[c].parameters)
        if (changed[static_cast<size_t>(p)]) out.kept.set(c, nullptr);
    if (out.changed.empty() && std::ranges::count(out.kept, nullptr) > 0) {
      out.anew = true;
      take_shared(executable, object, out);
    }
    if (!out.changed.empty()) {
      take_shared(executable, object, out);
      out.passing.assign(plan_.cache.size(), 0);
      for (size_t c = 0; c < out.passing.size(); ++c)
        out.passing[c] = set_.renewed[c] == passing_from && !out.kept[c];
    }
    if (comparing && !comparing->storages.empty() && !host_)
      comparing->seconds =
          Sharers::of_process().patience();  // nothing of them is kept: the first search is now
    if (comparing && !comparing->storages.empty())
      Sharers::of_process().compared(comparing->storages, comparing->bytes, comparing->seconds);
    return true;
  }

  // Other graphs may have computed the same from the very tensors: a decoder's steps and its
  // prompts.
  template <typename Object>
  void take_shared(const runtime::Executable& executable, Object object, Checked& out) {
    static runtime::PackedTable& table = *new runtime::PackedTable;
    std::vector<const Stamp*> stamps(set_.stamps.size());
    for (int p : used_) stamps[static_cast<size_t>(p)] = &set_.stamps[static_cast<size_t>(p)];
    for (const auto& [k, stamp] : out.changed) stamps[k] = &stamp;
    std::vector<std::optional<Fingerprint>> names(stamps.size());
    for (size_t k = 0; k < stamps.size(); ++k) {
      if (!stamps[k] || stamps[k]->version < 0) continue;
      const Stamp& s = *stamps[k];
      if (const uint64_t number = Identities::of_process().of(object(static_cast<int>(k))))
        names[k] = fingerprint(fmt::format("{} {} {} {} {}", number, s.data.get(), s.version,
                                           out.epoch, s.content.value_or(0)));
    }
    out.packed.emplace(executable, names, table);
    out.packed->take(out.kept);
  }

  // Whether a tensor whose content is compared is as its stamp says.
  bool has_its_content(size_t k, const TensorState& state, Comparing& comparing) {
    Stamp& s = set_.stamps[k];
    const int64_t quiet = ask_sharers(k, state, comparing);
    if (quiet > 0 && quiet == s.quiet && !s.buffer) return true;
    if (!s.content || *s.content != content_of(k, s.data.get(), comparing)) return false;
    s.quiet = quiet;
    if (!set_.shared[k] && !s.buffer) s.content.reset();
    return true;
  }

  // Completes a stamp that is being made.
  void note(Stamp& made, size_t k, PyObject* o, const TensorState& state, Comparing& comparing) {
    made.native = TensorWords::of_process().is_tensor(o);
    if (host_ && made.version >= 0 && is_shared(o)) made.version = -1;
    if (made.version < 0) return;
    made.quiet = ask_sharers(k, state, comparing);
    const bool readable = host_ && bytes_[k] >= 0;
    made.buffer =
        readable && vector_[k] && bytes_[k] <= buffer_bytes && made.data.get() && !is_parameter(o);
    if (readable && (set_.shared[k] || made.buffer))
      made.content = content_of(k, made.data.get(), comparing);
    else if (set_.shared[k] && made.quiet == 0)
      made.version = -1;
  }

  // Sharers::quiet() of a tensor whose storage others hold too.
  int64_t ask_sharers(size_t k, const TensorState& state, Comparing& comparing) {
    if (!set_.shared[k]) return 0;
    const int64_t quiet =
        Sharers::of_process().quiet(state.storage, state.holders, comparing.check);
    if (quiet > 0) return quiet;
    comparing.storages.push_back(state.storage);
    comparing.bytes += std::max<int64_t>(bytes_[k], 0);
    return 0;
  }

  uint64_t content_of(size_t k, const void* data, Comparing& comparing) const {
    const std::span bytes(static_cast<const std::byte*>(data),
                          static_cast<size_t>(data ? bytes_[k] : 0));
    if (!set_.shared[k]) return checksum(bytes);
    const auto start = std::chrono::steady_clock::now();
    std::vector<uint64_t> sums((bytes.size() + chunk_bytes - 1) / chunk_bytes);
    comparing.threads.for_ranges(
        static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
            sums[i] = checksum(bytes.subspan(
                i * chunk_bytes, std::min<size_t>(chunk_bytes, bytes.size() - i * chunk_bytes)));
          return 0;
        });
    comparing.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return checksum(std::as_bytes(std::span(sums)));
  }

  const schedule::Plan& plan_;
  const bool host_;
  const size_t parameters_;
  Set set_;
  std::vector<Set> others_;  // the last one was left last
  int sets_ = 0, calls_ = 0;
  std::vector<int64_t> bytes_;  // by parameter; -1: not known
  std::vector<char> vector_;    // by parameter: of one axis
  std::vector<int> used_;
  bool held_ = false;
  runtime::Executable* watched_ = nullptr;  // by IdleValues
  int64_t commits_ = 0;
};

}  // namespace hologram::python
