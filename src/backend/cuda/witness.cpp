// backend/cuda/witness.cpp: both kernels of a module on the same small integers.
#include "backend/cuda/witness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/cuda/faults.h"
#include "backend/cuda/launches.h"
#include "backend/cuda/mapped.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

constexpr int64_t wanted_bytes = int64_t{64} << 20, most_bytes = int64_t{512} << 20;  // together
// Sizes that are tried: of the axis that is summed over several blocks, of others part of a second
// tile. All suit tensor maps.
constexpr int64_t deep_sizes[] = {448, 256, 128, 64}, other_sizes[] = {136, 64, 8};

uint32_t mixed(uint64_t n) {
  n = (n ^ (n >> 31)) * 0x7fb5d329728ea185u;
  return static_cast<uint32_t>(n >> 33);
}

void put(std::byte* at, DType type, double x) {
  auto store = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  auto high_half = [&] {
    const auto f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return bits;
  };
  switch (type) {
    case DType::f32:
      return store(static_cast<float>(x));
    case DType::f64:
      return store(x);
    case DType::bf16:
      return store(static_cast<uint16_t>(high_half() >> 16));
    case DType::f16: {  // of numbers that it has
      const uint32_t bits = high_half();
      const uint32_t magnitude = x == 0 ? 0 : ((bits >> 13) & 0x3ffff) - ((127 - 15) << 10);
      return store(static_cast<uint16_t>((bits >> 16 & 0x8000) | (magnitude & 0x7fff)));
    }
    default:
      std::memset(at, 0, static_cast<size_t>(size_of(type)));
      *at = static_cast<std::byte>(static_cast<uint8_t>(static_cast<int64_t>(x)));
  }
}

double number_at(const std::byte* at, DType type) {
  auto load = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  auto single = [](uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return static_cast<double>(f);
  };
  switch (type) {
    case DType::f32:
      return load(0.0f);
    case DType::f64:
      return load(0.0);
    case DType::bf16:
      return single(uint32_t{load(uint16_t{0})} << 16);
    case DType::f16: {
      const uint32_t bits = load(uint16_t{0}), exponent = bits >> 10 & 31;
      const double sign = bits & 0x8000 ? -1 : 1, fraction = bits & 1023;
      if (exponent == 31) return fraction ? std::nan("") : sign * INFINITY;
      return exponent == 0 ? sign * std::ldexp(fraction, -24)
                           : sign * std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    }
    default: {
      double sum = 0;
      for (int64_t b = size_of(type); b-- > 0;) sum = sum * 256 + std::to_integer<int>(at[b]);
      return sum;
    }
  }
}

// What a factor's elements are: coordinate 0 is that of neighbours in memory.
using Fill = double (*)(std::span<const int64_t> at);
double small(std::span<const int64_t> at) {
  uint64_t n = 1;
  for (const int64_t x : at) n = n * 1000003 + static_cast<uint64_t>(x);
  return static_cast<double>(mixed(n) % 5) - 2;
}
double twelve_bits(std::span<const int64_t> at) {  // two terms of bfloat16
  uint64_t n = 7;
  for (const int64_t x : at) n = n * 1000003 + static_cast<uint64_t>(x);
  return static_cast<double>(mixed(n) % 4095) - 2047;
}
// A query picks one number of the keys, each of which is 0 or far below: exponentials are 1 or 0.
// Of eight keys one is all zeros, so that every row has a 1 from the beginning.
constexpr double large = 128;
double query(std::span<const int64_t> at) {
  return at[0] == static_cast<int64_t>(mixed(static_cast<uint64_t>(at[1])) % 8) ? large : 0;
}
double key(std::span<const int64_t> at) {
  if (at[1] % 8 == 0) return 0;
  return mixed(static_cast<uint64_t>(1000 * at[1] + at[0])) % 2 ? -large : 0;
}

// Operands as matrices in buffers; `exact`: all are, and nothing is computed of what they give.
struct Operands {
  struct One {
    MappedMatrix matrix;
    Fill fill;
  };
  std::vector<One> all;
  bool exact = true;

  void add(const std::optional<MappedFactor>& factor, Fill fill) {
    if (factor)
      all.push_back({factor->matrix, fill});
    else
      exact = false;
  }
};

Operands operands_of(const atlas::Program& program) {
  Operands out;
  if (program.kind() == atlas::BlockKind::product) {
    const bool terms = program.product().operand_type == DType::f32;
    out.add(mapped_factor(program, false), terms ? twelve_bits : small);
    out.add(mapped_factor(program, true), small);
    return out;
  }
  const atlas::AttentionBlock& a = program.attention();
  const int first = a.batch_rank;
  auto operand = [&](const atlas::Body& body, int x, int k, Fill fill) {
    out.add(mapped_operand(program, {&body, a.operand_type, a.axes, first, x, k}), fill);
  };
  operand(a.q, first, first + 2, query);
  operand(a.k, first + 1, first + 2, key);
  operand(a.v, first + 3, first + 1, small);
  out.exact = out.exact && a.score.instrs.empty() && std::fabs(a.scale) * large * large > 200;
  return out;
}

// A module's kernels at work on data of their own.
class Hearing {
 public:
  Hearing(const atlas::Program& program, const LoadedKernel& kernel, DeviceMemory& memory, Log& log)
      : program_(program),
        k_(kernel),
        memory_(memory),
        log_(log),
        operands_(operands_of(program)),
        stream_(memory.make_stream()) {}
  ~Hearing() { memory_.free_stream(stream_); }
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;

  Verdict run(std::string& words) {
    if (!choose_sizes()) return Verdict::open;
    fill();
    Results expected, got;
    if (!run(nullptr, expected) || !run(std::make_shared<WideLaunch>(*wide_), got))
      return Verdict::open;
    for (size_t b = 0; b < data_.size(); ++b)
      if (!same(b, expected[b], got[b], words)) return Verdict::wrong;
    return Verdict::right;
  }

 private:
  using Bytes = std::vector<std::byte>;
  using Results = std::vector<Bytes>;  // by buffer; of those that are read alone: empty

  bool attends() const { return program_.kind() == atlas::BlockKind::attention; }
  int multiprocessors() const { return k_.device->multiprocessors; }
  size_t elements(size_t b) const {
    return static_cast<size_t>(std::max<int64_t>(k_.buffers[b].extent.eval(symbols_), 0));
  }
  size_t size(size_t b) const {
    return elements(b) * static_cast<size_t>(size_of(k_.buffers[b].dtype));
  }
  bool fits(int64_t most) const {
    double all = 0;
    for (const atlas::Buffer& b : k_.buffers)
      all += static_cast<double>(b.extent.eval(symbols_)) * static_cast<double>(size_of(b.dtype));
    return all <= static_cast<double>(most);
  }

  static bool has_symbol(const Expr& e, size_t s) {
    return e.any_atom([&](const Atom& a) {
      return a.kind == Atom::Kind::symbol && static_cast<size_t>(a.id) == s;
    });
  }

  bool choose_sizes() {
    symbols_.assign(static_cast<size_t>(program_.num_symbols), 8);
    std::vector<size_t> order(symbols_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    auto deep = [&](size_t s) { return has_symbol(k_.facts.wide->depth, s); };
    std::ranges::stable_partition(order, deep);
    auto inside = [&](size_t s) {  // of a matrix, of which there may be many
      return std::ranges::any_of(k_.facts.wide->matrices, [&](const MappedMatrix& m) {
        return has_symbol(m.sizes[0], s) || has_symbol(m.sizes[1], s);
      });
    };
    for (const size_t s : order) {
      if (!deep(s) && !inside(s)) continue;
      const std::span<const int64_t> sizes =
          deep(s) ? std::span<const int64_t>(deep_sizes) : other_sizes;
      for (const int64_t n : sizes) {
        symbols_[s] = n;
        if (fits(wanted_bytes)) break;
      }
    }
    wide_ = wide_grid(*k_.facts.wide, symbols_, multiprocessors(), true);
    return wide_ && fits(most_bytes);
  }

  void fill() {
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const DType type = k_.buffers[b].dtype;
      const auto step = static_cast<size_t>(size_of(type));
      Bytes& bytes = data_.emplace_back(size(b));
      for (size_t n = 0; n < elements(b); ++n) {
        const double x = !is_float(type) ? 1 : attends() ? 0 : mixed(n) % 5 - 2.0;
        put(&bytes[n * step], type, x);
      }
    }
    for (const Operands::One& o : operands_.all) fill(o);
  }

  void fill(const Operands::One& operand) {
    const MappedMatrix& m = operand.matrix;
    const auto buffer = static_cast<size_t>(m.buffer);
    const auto step = static_cast<size_t>(size_of(m.type));
    std::vector<int64_t> sizes, strides{1}, at(m.sizes.size(), 0);
    for (const Expr& e : m.sizes) sizes.push_back(e.eval(symbols_));
    for (const Expr& e : m.strides) strides.push_back(e.eval(symbols_));
    const int64_t first = m.first.eval(symbols_);
    for (;;) {
      int64_t place = first;
      for (size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
      const size_t byte = static_cast<size_t>(place) * step;
      if (place >= 0 && byte + step <= data_[buffer].size())
        put(&data_[buffer][byte], m.type, operand.fill(at));
      size_t d = 0;
      while (d < at.size() && ++at[d] == sizes[d]) at[d++] = 0;
      if (d == at.size()) return;
    }
  }

  // `wide`: by that kernel; false where no tensor map is to be had for it.
  bool run(std::shared_ptr<WideLaunch> wide, Results& out) {
    const bool by_wide = wide != nullptr;
    Grid grid = cut_of(std::move(wide));
    Faults faults(*k_.device);
    std::vector<Block> blocks;
    std::vector<uint64_t> words;
    for (const Bytes& bytes : data_) {
      blocks.emplace_back(memory_, bytes.size(), stream_);
      memory_.copy(blocks.back().address(), bytes.data(), bytes.size(), stream_);
      words.push_back(reinterpret_cast<uint64_t>(blocks.back().address()));
    }
    for (const int64_t s : symbols_) words.push_back(static_cast<uint64_t>(s));
    const Block workspace(memory_, grid.workspace.bytes, stream_);
    std::vector<Launch> launches;
    add_launches(launches, k_, grid, std::move(words),
                 reinterpret_cast<uint64_t>(workspace.address()), faults.address(), log_);
    if (by_wide && std::ranges::find(launches, wide_symbol, &Launch::symbol) == launches.end())
      return false;
    const Current here(*k_.device);
    for (Launch& l : launches)
      k_.device->driver.require(l.start(k_.device->driver, static_cast<CuStream>(stream_)),
                                "launching a kernel's witness");
    std::atomic<int32_t> ignored{0};
    faults.collect(static_cast<CuStream>(stream_), &ignored, false);
    for (size_t b = 0; b < data_.size(); ++b) {
      Bytes& bytes = out.emplace_back();
      if (k_.buffers[b].access == atlas::Access::read) continue;
      bytes.resize(data_[b].size());
      memory_.copy(bytes.data(), blocks[b].address(), bytes.size(), stream_);
    }
    memory_.wait(stream_);
    return true;
  }

  Grid cut_of(std::shared_ptr<WideLaunch> wide) const {
    Grid grid = make_grid(k_, symbols_, 1, multiprocessors());
    grid.wide = nullptr;
    if (!wide) return grid;
    const int64_t parts = wide->grid().parts > 1 ? grid.total * wide->grid().parts : 0;
    grid.workspace.bytes =
        std::max(grid.workspace.bytes,
                 wide->grid().workspace + static_cast<size_t>(parts * k_.facts.wide->part_bytes));
    grid.thin = false;
    grid.wide = std::move(wide);
    return grid;
  }

  bool same(size_t b, const Bytes& expected, const Bytes& got, std::string& words) const {
    const DType type = k_.buffers[b].dtype;
    const auto step = static_cast<size_t>(size_of(type));
    double largest = 0;
    for (size_t n = 0; n + step <= expected.size(); n += step) {
      const double x = std::fabs(number_at(&expected[n], type));
      if (std::isfinite(x)) largest = std::max(largest, x);
    }
    const double last = type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : 0x1p-20;
    for (size_t n = 0; n + step <= expected.size(); n += step) {
      const double x = number_at(&expected[n], type), y = number_at(&got[n], type);
      const double off = operands_.exact ? (attends() ? last * std::fabs(x) + 0x1p-24 : 0)
                                         : std::max(4 * last, 0x1p-10) * largest;
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= off) continue;
      words = fmt::format("element {} of buffer {} is {}, expected {}", n / step, b, y, x);
      return false;
    }
    return true;
  }

  // Device memory while this lives.
  class Block {
   public:
    Block(DeviceMemory& memory, size_t bytes, Stream stream)
        : memory_(&memory), stream_(stream), block_(memory.allocate(bytes, stream)) {}
    Block(Block&& other) noexcept
        : memory_(other.memory_),
          stream_(other.stream_),
          block_(std::exchange(other.block_, nullptr)) {}
    Block& operator=(Block&&) = delete;
    ~Block() { memory_->deallocate(block_, stream_); }
    void* address() const { return block_; }

   private:
    DeviceMemory* memory_;
    Stream stream_;
    void* block_;
  };

  const atlas::Program& program_;
  const LoadedKernel& k_;
  DeviceMemory& memory_;
  Log& log_;
  const Operands operands_;
  const Stream stream_;
  std::vector<int64_t> symbols_;
  std::optional<WideGrid> wide_;
  std::vector<Bytes> data_;  // by buffer, as it is before a launch
};

}  // namespace

bool reuses_registers(const Assembler* a, int driver_version) {
  const auto version = a ? std::pair(a->major, a->minor)
                         : std::pair(driver_version / 1000, driver_version % 1000 / 10);
  return version < std::pair(13, 3);
}

Verdict hear_witness(const atlas::Program& program, const LoadedKernel& kernel,
                     DeviceMemory& memory, Log& log, std::string& words) try {
  return Hearing(program, kernel, memory, log).run(words);
} catch (const Error& error) {
  if (error.code() != ErrorCode::out_of_memory) throw;
  words = error.what();
  return Verdict::open;
}

}  // namespace hologram::cuda
