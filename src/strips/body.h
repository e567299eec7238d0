// strips/body.h: bodies of block programs, run for the lanes of a strip at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "atlas/program.h"
#include "strips/indices.h"
#include "strips/vectors.h"

namespace hologram::strips {

/// Lanes of a strip at most.
inline constexpr int64_t most_lanes = 256;

/// What bodies see besides their own values; one thread's.
struct Frame {
  const int64_t* symbols = nullptr;
  std::vector<int64_t> axes;        ///< coordinates of the strip's first lane
  std::vector<char*> buffers;       ///< by the program's number
  std::vector<char*> accumulators;  ///< where the first lane's are
  int32_t sticky = 0;               ///< atlas::StickyError bits so far
};

/// How a body is run: its instructions as loops over lanes, in order.
class BodyPlan {
 public:
  struct Where {
    const atlas::Program& program;
    const Vectors& vectors;
    int lane_axis;
    bool lanes_accumulate;  ///< accumulators are one for each lane
  };
  /// `kept`: values that are read behind run(), as varying ones. Nothing for a body that has what
  /// is not rendered.
  static std::optional<BodyPlan> of(const atlas::Body& body, const Where& where,
                                    std::span<const atlas::ValueId> kept);

  /// Of memory that a runner needs.
  int64_t bytes() const { return bytes_; }
  /// Instructions of the body.
  size_t size() const { return kept_.size(); }
  /// How many strips the first `extent` lanes are where all other coordinates are 0, in a program
  /// without symbols.
  int64_t strips(int axis, size_t axes, int64_t extent) const;
  /// Makes ready for strips of several rows, neighbours along an axis, whose lanes lie side by side,
  /// and accumulators (`with_accumulators`) too. False, and no change, where rows differ in more
  /// than where they load and store.
  bool stack_along(int axis, bool with_accumulators = false);
  /// The step along an axis of what the body loads and does nothing else with: numbers of so many
  /// bytes that are neighbours along the lane axis. Nothing for other bodies.
  std::optional<int64_t> step_of_rows(int axis, int bytes) const;

 private:
  friend class BodyRunner;
  friend class Planner;

  enum class Kind : uint8_t {
    index,
    clamp,
    load,
    store,
    compute,
    one_by_one,
    choose,
    splat,
    predicate,
    accumulator,
    accumulate,
  };
  struct Scaled {
    Indices::Sum factor;
    int value;
    bool varies;
  };
  struct Step {
    Kind kind;
    bool varies = false;
    uint8_t bytes = 0;  // of an element
    VectorFn function = nullptr;
    ir::Op op = ir::Op::add;  // one by one
    DType type = DType::f32, to = DType::f32;
    int out = -1;
    int args[3] = {-1, -1, -1};
    bool guard_varies = false;
    bool truth = false;     // of a load: bytes of which code reads whether they are 0
    bool in_place = false;  // of a load: the buffer is not written meanwhile
    int number = -1;        // a predicate's; a buffer's or accumulator's
    Indices::Sum at = {};
    int64_t row_step = 0;             // of `at`, from one row to the next
    std::vector<Scaled> values = {};  // that are added to `at`
  };
  struct Constant {
    int value;
    uint8_t bytes;
    std::vector<uint64_t> bits;  // one for all lanes, or a table
  };

  explicit BodyPlan(int lane_axis) : indices_(lane_axis) {}

  Indices indices_;
  std::vector<Step> steps_;
  std::vector<Constant> constants_;
  std::vector<int64_t> homes_;  // by value: offset of its memory
  std::vector<int> kept_;       // by number of the instruction: the value that has it, or -1
  int64_t bytes_ = 0;
};

/// Runs a body; one thread's.
class BodyRunner {
 public:
  /// memory: plan.bytes() of it, aligned to 64.
  BodyRunner(const BodyPlan& plan, char* memory);

  /// Looks at up to so many lanes (most_lanes at most) from frame.axes on; returns how many are one
  /// strip, at least 1.
  int64_t begin(const Frame& frame, int64_t lanes) {
    return plan_.indices_.evaluate(frame.symbols, frame.axes.data(), lanes, numbers_.data());
  }
  /// Runs the body for the first n of the lanes that begin() returned, and for so many rows of them
  /// as go into most_lanes, if the plan is stacked.
  void run(Frame& frame, int64_t n, int64_t rows = 1);
  /// Where the lanes from frame.axes on lie, of a body with step_of_rows().
  const char* place(const Frame& frame);
  /// Of a kept value, behind run().
  const char* value(atlas::ValueId id) const {
    return values_[static_cast<size_t>(plan_.kept_[id])];
  }

 private:
  using Step = BodyPlan::Step;

  char* arg(const Step& s, int k) const { return values_[static_cast<size_t>(s.args[k])]; }
  char* home(const Step& s) const { return homes_[static_cast<size_t>(s.out)]; }
  const int64_t* positions(const Step& s, int64_t n);
  const int64_t* positions(const Step& s, int64_t n, int64_t rows);
  void load(const Step& s, const Frame& frame, int64_t n, int64_t rows);
  void load_rows(const Step& s, const char* base, int64_t n, int64_t rows);
  void store(const Step& s, const Frame& frame, int64_t n, int64_t rows);
  void clamp(const Step& s, Frame& frame, int64_t n);
  void one_by_one(const Step& s, Frame& frame, int64_t n);
  void accumulate(const Step& s, const Frame& frame, int64_t n);

  const BodyPlan& plan_;
  std::vector<Line> numbers_;
  std::vector<char*> homes_, values_;
  std::vector<int64_t> positions_;
};

/// Calls f(first, n) for each strip of `count` lanes of an axis, behind the body.
template <class F>
void for_each_strip(BodyRunner& body, Frame& frame, size_t axis, int64_t from, int64_t count,
                    const F& f) {
  for (int64_t done = 0; done < count;) {
    frame.axes[axis] = from + done;
    const int64_t n = body.begin(frame, std::min(most_lanes, count - done));
    body.run(frame, n);
    f(done, n);
    done += n;
  }
}

/// Runs an epilogue for a row of results along an axis.
void run_epilogue(BodyRunner& epilogue, Frame& frame, size_t axis, int64_t from, int64_t count,
                  float* row);

/// out[l] = bits, of so many bytes.
void fill(char* out, uint64_t bits, int bytes, int64_t n);

}  // namespace hologram::strips
