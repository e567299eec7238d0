// runtime/circuit.cpp: lowering of circuits, and their execution.
#include "runtime/circuit.h"

#include <algorithm>
#include <map>
#include <optional>

#include "atlas/builder.h"
#include "atlas/class_graph.h"
#include "base/error.h"
#include "runtime/run_program.h"

namespace hologram::runtime {
namespace {

using atlas::Val;
using ir::Op;
using sigmatics::Call;
using sigmatics::Generator;
using sigmatics::Operand;
using sigmatics::Variant;

static_assert(sigmatics::num_classes == atlas::num_classes &&
              sigmatics::num_pages == atlas::class_pages &&
              sigmatics::bytes_per_page == atlas::page_bytes);
constexpr int64_t class_elements = atlas::class_bytes / 4;
constexpr int64_t page_elements = atlas::page_bytes / 4;
constexpr size_t steps_per_program = 512;  ///< keeps bodies of a size that compiles quickly

Val combine(atlas::BodyBuilder& b, Variant v, Val x, Val y) {
  switch (v) {
    case Variant::add:
      return b.add(x, y);
    case Variant::mul:
      return b.mul(x, y);
    case Variant::min:
      return b.op(Op::min, x, y);
    case Variant::max:
      return b.op(Op::max, x, y);
    case Variant::abs:
      return b.op(Op::abs, x);
    case Variant::exp:
      return b.op(Op::exp, x);
    case Variant::log:
      return b.op(Op::log, x);
    case Variant::sqrt:
      return b.op(Op::sqrt, x);
    case Variant::sigmoid:
      return b.op(Op::sigmoid, x);
    case Variant::tanh:
      return b.op(Op::tanh, x);
    case Variant::gelu:
      return b.op(Op::gelu, x);
    case Variant::sub:
      return b.sub(x, y);
    case Variant::div:
      return b.div(x, y);
  }
  fail(ErrorCode::internal, "lower_circuit: an unknown variant");
}

bool is_unary(Variant v) { return v >= Variant::abs && v <= Variant::gelu; }

// The body of one program: what each place holds as a value of the element at i0.
class Builder {
 public:
  explicit Builder(bool paged) : paged_(paged) {}

  void step(const Call& c) {
    switch (c.generator) {
      case Generator::copy:
        return write(c.to, read(c.a));
      case Generator::swap: {
        Val x = read(c.a), y = read(c.b);
        write(c.a, y);
        return write(c.b, x);
      }
      case Generator::merge:
      case Generator::split:
        return write(c.to,
                     combine(body_, c.variant, read(c.a), is_unary(c.variant) ? Val{} : read(c.b)));
      default:
        fail(ErrorCode::internal, "lower_circuit: {} is no step", sigmatics::print(c));
    }
  }

  // Nothing where no place changes.
  std::optional<CircuitKernel> finish() {
    CircuitKernel out;
    Expr size(extent());
    for (Place& p : places_) {
      bool changes = p.now.id != p.loaded.id;
      if (changes) body_.store(p.buffer, Expr::axis(0, Expr(extent())), p.now);
      atlas::Access access = !changes                         ? atlas::Access::read
                             : p.loaded.id == atlas::no_value ? atlas::Access::write
                                                              : atlas::Access::read_write;
      out.program.buffers.push_back({DType::f32, access, size});
      out.buffers.push_back(p.where);
    }
    if (std::none_of(out.program.buffers.begin(), out.program.buffers.end(),
                     [](const atlas::Buffer& b) { return b.access != atlas::Access::read; }))
      return std::nullopt;
    auto& loop = out.program.loop();
    loop.axes = {{atlas::AxisKind::parallel, size}};
    loop.parallel_rank = 1;
    loop.lane_axis = 0;
    loop.stages.push_back({atlas::StageKind::point, std::move(code_), {}, {}});
    atlas::verify(out.program);
    return out;
  }

 private:
  struct Place {
    Operand where;
    int buffer;
    Val loaded, now;
  };

  Place& place(const Operand& o) {
    auto [it, fresh] = index_.try_emplace({o.cls, o.page}, places_.size());
    if (fresh) places_.push_back({o, static_cast<int>(places_.size()), {}, {}});
    return places_[it->second];
  }

  Val read(const Operand& o) {
    Place& p = place(o);
    if (p.now.id == atlas::no_value)
      p.now = p.loaded = body_.load(p.buffer, DType::f32, Expr::axis(0, Expr(extent())));
    return p.now;
  }

  void write(const Operand& o, Val v) { place(o).now = v; }

  int64_t extent() const { return paged_ ? page_elements : class_elements; }

  bool paged_;
  atlas::Body code_;
  atlas::BodyBuilder body_{code_};
  std::vector<Place> places_;
  std::map<std::pair<int, int>, size_t> index_;
};

Bytes bytes_of(const Operand& o, std::span<std::byte> memory) {
  int offset = o.cls * atlas::class_bytes + std::max(o.page, 0) * atlas::page_bytes;
  int size = o.page < 0 ? atlas::class_bytes : atlas::page_bytes;
  return memory.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

}  // namespace

std::vector<CircuitKernel> lower_circuit(std::span<const Call> steps) {
  std::vector<CircuitKernel> out;
  while (!steps.empty()) {
    bool paged = steps[0].a.page >= 0;
    Builder builder(paged);
    size_t n = 0;
    for (; n < std::min(steps.size(), steps_per_program); ++n) {
      if ((steps[n].a.page >= 0) != paged) break;
      builder.step(steps[n]);
    }
    if (auto kernel = builder.finish()) out.push_back(std::move(*kernel));
    steps = steps.subspan(n);
  }
  return out;
}

void run_circuit(Runtime& runtime, std::span<const CircuitKernel> kernels,
                 std::span<std::byte> memory) {
  require(memory.size() == static_cast<size_t>(atlas::boundary_bytes),
          "run_circuit: class memory of {} bytes; expected {}", memory.size(),
          atlas::boundary_bytes);
  require(reinterpret_cast<uintptr_t>(memory.data()) % 64 == 0,
          "run_circuit: class memory must be aligned to 64 bytes");
  for (const CircuitKernel& k : kernels) {
    std::vector<Bytes> buffers;
    for (const Operand& o : k.buffers) buffers.push_back(bytes_of(o, memory));
    run_program(runtime, k.program, buffers, {});
  }
}

}  // namespace hologram::runtime
