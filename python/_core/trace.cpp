// python/_core/trace.cpp: Python names for what calls took, step by step.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bindings.h"
#include "runtime/executable.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// Keeps the calls of a runtime, until so many steps are held; later calls are counted alone.
class Trace final : public runtime::Tracer {
 public:
  explicit Trace(size_t most) : most_(most) {}

  void called(runtime::Executable& executable, const runtime::Frame& frame,
              std::vector<Span> spans) noexcept override {
    std::lock_guard lock(mutex_);
    try {
      if (held_ + spans.size() > most_) {
        ++dropped_;
        return;
      }
      calls_.push_back({executable.shared_from_this(), ::syscall(SYS_gettid), frame.symbols, {}});
      held_ += spans.size();
      calls_.back().spans = std::move(spans);
    } catch (...) {  // no memory: the call itself has ended well
      ++dropped_;
    }
  }

  /// (executable, thread, symbols, [(step, begin in s, took in s)]) by call.
  nb::list calls() {
    std::lock_guard lock(mutex_);
    nb::list out;
    for (const Call& c : calls_) {
      nb::list spans;
      for (const Span& s : c.spans)
        spans.append(nb::make_tuple(s.step, 1e-9 * static_cast<double>(s.begin),
                                    1e-9 * static_cast<double>(s.took)));
      out.append(nb::make_tuple(c.executable, c.thread, c.symbols, spans));
    }
    return out;
  }
  size_t dropped() {
    std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  struct Call {
    std::shared_ptr<runtime::Executable> executable;
    int64_t thread;
    std::vector<int64_t> symbols;
    std::vector<Span> spans;
  };

  size_t most_, held_ = 0, dropped_ = 0;
  std::mutex mutex_;
  std::vector<Call> calls_;
};

}  // namespace

void bind_trace(nb::module_& m) {
  nb::class_<Trace>(m, "Trace",
                    "What the calls of a runtime take, step by step, from begin() to end().")
      .def(nb::init<size_t>(), nb::arg("most") = size_t{1} << 20)
      .def_static(
          "begin",
          [](std::shared_ptr<runtime::Runtime> runtime, std::shared_ptr<Trace> trace) {
            if (runtime->tracer()) return false;
            runtime->set_tracer(std::move(trace));
            return true;
          },
          nb::arg("runtime"), nb::arg("trace"),
          "Has the runtime's calls tell `trace` from now on; False: they tell another one already.")
      .def_static(
          "end", [](std::shared_ptr<runtime::Runtime> runtime) { runtime->set_tracer(nullptr); },
          nb::arg("runtime"), "Has the runtime's calls tell nobody.")
      .def("calls", &Trace::calls,
           "By call: (executable, thread, values of its symbols, [(step, begin, took)]), in "
           "seconds.")
      .def_prop_ro("dropped", &Trace::dropped, "Calls that there was no room for.");
}

}  // namespace hologram::python
