// strips/body.cpp: running a body for the lanes of a strip.
#include "strips/body.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "atlas/abi.h"
#include "ir/scalar.h"

namespace hologram::strips {
namespace {

// Calls f with a number type of so many bytes.
template <class F>
void by_bytes(int bytes, const F& f) {
  if (bytes == 1) return f(uint8_t{});
  if (bytes == 2) return f(uint16_t{});
  if (bytes == 4) return f(uint32_t{});
  f(uint64_t{});
}

}  // namespace

void fill(char* out, uint64_t bits, int bytes, int64_t n) {
  by_bytes(bytes,
           [&]<class T>(T) { std::fill_n(reinterpret_cast<T*>(out), n, static_cast<T>(bits)); });
}

int64_t BodyPlan::strips(int axis, size_t axes, int64_t extent) const {
  std::vector<int64_t> at(axes);
  std::vector<Line> numbers(indices_.count());
  int64_t count = 0;
  for (int64_t& done = at[static_cast<size_t>(axis)]; done < extent; ++count)
    done +=
        indices_.evaluate(nullptr, at.data(), std::min(most_lanes, extent - done), numbers.data());
  return count;
}

void run_epilogue(BodyRunner& epilogue, Frame& frame, size_t axis, int64_t from, int64_t count,
                  float* row) {
  for (int64_t done = 0; done < count;) {
    frame.axes[axis] = from + done;
    frame.accumulators[0] = reinterpret_cast<char*>(row + done);
    const int64_t n = epilogue.begin(frame, std::min(most_lanes, count - done));
    epilogue.run(frame, n);
    done += n;
  }
}

BodyRunner::BodyRunner(const BodyPlan& plan, char* memory)
    : plan_(plan), numbers_(plan.indices_.count()) {
  for (int64_t offset : plan.homes_) homes_.push_back(memory + offset);
  values_ = homes_;
  for (const BodyPlan::Constant& c : plan.constants_) {
    char* at = homes_[static_cast<size_t>(c.value)];
    if (c.bits.size() == 1)
      fill(at, c.bits[0], c.bytes, most_lanes);
    else
      by_bytes(c.bytes, [&]<class T>(T) {
        for (size_t k = 0; k < c.bits.size(); ++k)
          reinterpret_cast<T*>(at)[k] = static_cast<T>(c.bits[k]);
      });
  }
}

bool BodyPlan::stack_along(int axis, bool with_accumulators) {
  if (!indices_.linear_along(axis)) return false;
  for (const Step& s : steps_) {
    const bool in_a_row = s.kind == Kind::clamp || s.kind == Kind::accumulate ||
                          (s.kind == Kind::accumulator && !with_accumulators) || !s.values.empty();
    if (in_a_row || (!s.varies && indices_.step_along(s.at, axis) != 0)) return false;
  }
  for (Step& s : steps_) s.row_step = indices_.step_along(s.at, axis);
  return true;
}

std::optional<int64_t> BodyPlan::step_of_rows(int axis, int bytes) const {
  const int lanes = indices_.lane_axis();
  if (steps_.size() != 1 || !indices_.linear_along(axis) || !indices_.linear_along(lanes))
    return std::nullopt;
  const Step& s = steps_[0];
  if (s.kind != Kind::load || s.bytes != bytes || s.args[0] >= 0 || s.truth || !s.values.empty() ||
      indices_.step_along(s.at, lanes) != 1)
    return std::nullopt;
  return indices_.step_along(s.at, axis);
}

const char* BodyRunner::place(const Frame& frame) {
  begin(frame, 1);
  const Step& s = plan_.steps_[0];
  return frame.buffers[static_cast<size_t>(s.number)] +
         Indices::value(s.at, numbers_.data()).at * s.bytes;
}

void BodyRunner::run(Frame& frame, int64_t lanes, int64_t rows) {
  using Kind = BodyPlan::Kind;
  for (const Step& s : plan_.steps_) {
    const int64_t n = s.varies ? lanes * rows : 1;
    switch (s.kind) {
      case Kind::compute:
        s.function(home(s), arg(s, 0), s.args[1] < 0 ? nullptr : arg(s, 1),
                   s.args[2] < 0 ? nullptr : arg(s, 2), n);
        break;
      case Kind::load:
        load(s, frame, s.varies ? lanes : 1, s.varies ? rows : 1);
        break;
      case Kind::store:
        store(s, frame, s.varies ? lanes : 1, s.varies ? rows : 1);
        break;
      case Kind::choose:
        values_[static_cast<size_t>(s.out)] = arg(s, *arg(s, 0) ? 1 : 2);
        break;
      case Kind::splat: {
        uint64_t bits = 0;
        std::memcpy(&bits, arg(s, 0), s.bytes);
        fill(home(s), bits, s.bytes, n);
        break;
      }
      case Kind::predicate:
        *home(s) = static_cast<char>(numbers_[static_cast<size_t>(s.number)].at);
        break;
      case Kind::index: {
        const int64_t* at = positions(s, s.varies ? lanes : 1, s.varies ? rows : 1);
        std::copy_n(at, n, reinterpret_cast<int64_t*>(home(s)));
        break;
      }
      case Kind::one_by_one:
        one_by_one(s, frame, n);
        break;
      case Kind::clamp:
        clamp(s, frame, n);
        break;
      case Kind::accumulator:
        values_[static_cast<size_t>(s.out)] = frame.accumulators[static_cast<size_t>(s.number)];
        break;
      case Kind::accumulate:
        accumulate(s, frame, n);
        break;
    }
  }
}

const int64_t* BodyRunner::positions(const Step& s, int64_t n) {
  if (positions_.empty()) positions_.resize(most_lanes);
  const Line line = Indices::value(s.at, numbers_.data());
  for (int64_t l = 0; l < n; ++l) positions_[static_cast<size_t>(l)] = line.at + l * line.step;
  for (const BodyPlan::Scaled& v : s.values) {
    const auto* value = reinterpret_cast<const int64_t*>(values_[static_cast<size_t>(v.value)]);
    const Line factor = Indices::value(v.factor, numbers_.data());
    for (int64_t l = 0; l < n; ++l)
      positions_[static_cast<size_t>(l)] += (factor.at + l * factor.step) * value[v.varies ? l : 0];
  }
  return positions_.data();
}

const int64_t* BodyRunner::positions(const Step& s, int64_t n, int64_t rows) {
  const int64_t* at = positions(s, n);
  for (int64_t l = n; l < n * rows; ++l)
    positions_[static_cast<size_t>(l)] = positions_[static_cast<size_t>(l - n)] + s.row_step;
  return at;
}

// to[r * n + l] = from[l * step + r], in squares that stay in registers.
void turn_over(uint32_t* to, const uint32_t* from, int64_t n, int64_t rows, int64_t step) {
  using Four [[gnu::vector_size(16)]] = uint32_t;
  constexpr int64_t side = 4;
  const int64_t n_end = n / side * side, rows_end = rows / side * side;
  for (int64_t l = 0; l < n_end; l += side) {
    for (int64_t r = 0; r < rows_end; r += side) {
      Four a, b, c, d;
      std::memcpy(&a, from + (l + 0) * step + r, sizeof a);
      std::memcpy(&b, from + (l + 1) * step + r, sizeof b);
      std::memcpy(&c, from + (l + 2) * step + r, sizeof c);
      std::memcpy(&d, from + (l + 3) * step + r, sizeof d);
      const Four ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
      const Four ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
      const Four bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
      const Four bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
      a = __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5);
      b = __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7);
      c = __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5);
      d = __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7);
      std::memcpy(to + (r + 0) * n + l, &a, sizeof a);
      std::memcpy(to + (r + 1) * n + l, &b, sizeof b);
      std::memcpy(to + (r + 2) * n + l, &c, sizeof c);
      std::memcpy(to + (r + 3) * n + l, &d, sizeof d);
    }
    for (int64_t r = rows_end; r < rows; ++r)
      for (int64_t k = l; k < l + side; ++k) to[r * n + k] = from[k * step + r];
  }
  for (int64_t l = n_end; l < n; ++l)
    for (int64_t r = 0; r < rows; ++r) to[r * n + l] = from[l * step + r];
}

// Without guards. The inner loop is the one with the smaller step.
void BodyRunner::load_rows(const Step& s, const char* base, int64_t n, int64_t rows) {
  const Line line = Indices::value(s.at, numbers_.data());
  by_bytes(s.bytes, [&]<class T>(T) {
    auto* to = reinterpret_cast<T*>(home(s));
    const T* from = reinterpret_cast<const T*>(base) + line.at;
    const int64_t step = line.step, down = s.row_step;
    if constexpr (sizeof(T) == 4)
      if (down == 1 && std::abs(step) > 1) return turn_over(to, from, n, rows, step);
    if (std::abs(down) < std::abs(step)) {
      for (int64_t l = 0; l < n; ++l)
        for (int64_t r = 0; r < rows; ++r) to[r * n + l] = from[l * step + r * down];
      return;
    }
    for (int64_t r = 0; r < rows; ++r, to += n, from += down)
      if (step == 1)
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      else
        for (int64_t l = 0; l < n; ++l) to[l] = from[l * step];
  });
}

void BodyRunner::load(const Step& s, const Frame& frame, int64_t n, int64_t rows) {
  char* out = home(s);
  values_[static_cast<size_t>(s.out)] = out;
  const char* guard = s.args[0] < 0 ? nullptr : arg(s, 0);
  if (guard && !s.guard_varies) {
    if (!*guard) return fill(out, 0, s.bytes, n * rows);
    guard = nullptr;
  }
  char* base = frame.buffers[static_cast<size_t>(s.number)];
  const Line line = s.values.empty() ? Indices::value(s.at, numbers_.data()) : Line{};
  if (rows > 1 && s.row_step == n * line.step) n *= std::exchange(rows, 1);  // one long row
  if (rows > 1 && !guard && !s.truth) return load_rows(s, base, n, rows);
  const bool listed = !s.values.empty() || rows > 1;
  if (!listed && !guard && (line.step == 1 || n == 1) && !s.truth) {
    char* from = base + line.at * s.bytes;
    if (s.in_place)
      values_[static_cast<size_t>(s.out)] = from;
    else
      std::memcpy(out, from, static_cast<size_t>(n * s.bytes));
    return;
  }
  const int64_t* at = listed ? positions(s, n, rows) : nullptr;
  n *= rows;
  by_bytes(s.bytes, [&]<class T>(T) {
    auto* to = reinterpret_cast<T*>(out);
    const auto* from = reinterpret_cast<const T*>(base);
    auto position = [&](int64_t l) { return at ? at[l] : line.at + l * line.step; };
    if (guard)
      for (int64_t l = 0; l < n; ++l) to[l] = guard[l] ? from[position(l)] : T{};
    else if (at)
      for (int64_t l = 0; l < n; ++l) to[l] = from[at[l]];
    else if (line.step == 0)
      std::fill_n(to, n, from[line.at]);
    else
      for (int64_t l = 0; l < n; ++l) to[l] = from[line.at + l * line.step];
    if (s.truth)
      for (int64_t l = 0; l < n; ++l) to[l] = to[l] != 0;
  });
}

void BodyRunner::store(const Step& s, const Frame& frame, int64_t n, int64_t rows) {
  const char* guard = s.args[1] < 0 ? nullptr : arg(s, 1);
  if (guard && !s.guard_varies) {
    if (!*guard) return;
    guard = nullptr;
  }
  char* base = frame.buffers[static_cast<size_t>(s.number)];
  const Line line = s.values.empty() ? Indices::value(s.at, numbers_.data()) : Line{};
  if (rows > 1 && s.row_step == n * line.step) n *= std::exchange(rows, 1);  // one long row
  if (s.values.empty() && !guard && (line.step == 1 || n == 1)) {
    const char* from = arg(s, 0);
    for (int64_t r = 0; r < rows; ++r, from += n * s.bytes)
      std::memmove(base + (line.at + r * s.row_step) * s.bytes, from,
                   static_cast<size_t>(n * s.bytes));
    return;
  }
  const bool listed = !s.values.empty() || rows > 1;
  const int64_t* at = listed ? positions(s, n, rows) : nullptr;
  n *= rows;
  by_bytes(s.bytes, [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(arg(s, 0));
    auto* to = reinterpret_cast<T*>(base);
    if (guard)
      for (int64_t l = 0; l < n; ++l) {
        if (guard[l]) to[at ? at[l] : line.at + l * line.step] = from[l];
      }
    else if (at)
      for (int64_t l = 0; l < n; ++l) to[at[l]] = from[l];
    else
      for (int64_t l = 0; l < n; ++l) to[line.at + l * line.step] = from[l];
  });
}

void BodyRunner::clamp(const Step& s, Frame& frame, int64_t n) {
  const int64_t extent = Indices::value(s.at, numbers_.data()).at;
  const auto* from = reinterpret_cast<const int64_t*>(arg(s, 0));
  auto* to = reinterpret_cast<int64_t*>(home(s));
  for (int64_t l = 0; l < n; ++l) {
    const bool inside = from[l] >= 0 && from[l] < extent;
    if (!inside) frame.sticky |= atlas::index_out_of_range;
    to[l] = inside ? from[l] : 0;
  }
}

// Divisions of integers and other rare operations, of which there are no loops.
void BodyRunner::one_by_one(const Step& s, Frame& frame, int64_t n) {
  bool error = false;
  const auto count = static_cast<size_t>(ir::info(s.op).arity);
  const auto from = static_cast<size_t>(size_of(s.type));
  for (int64_t l = 0; l < n; ++l) {
    uint64_t args[3] = {};
    for (size_t k = 0; k < count; ++k)
      std::memcpy(&args[k], arg(s, static_cast<int>(k)) + static_cast<size_t>(l) * from, from);
    const uint64_t out = ir::eval_scalar(s.op, s.type, std::span(args, count), s.to, &error);
    std::memcpy(home(s) + l * s.bytes, &out, s.bytes);
  }
  if (error) frame.sticky |= atlas::integer_division_by_zero;
}

void BodyRunner::accumulate(const Step& s, const Frame& frame, int64_t n) {
  char* running = frame.accumulators[static_cast<size_t>(s.number)];
  s.function(running, running, arg(s, 0), nullptr, n);
  std::memcpy(home(s), running, static_cast<size_t>(n * s.bytes));
}

}  // namespace hologram::strips
