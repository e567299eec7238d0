// emulator/wgmma.cpp: products that four warps begin together and wait for later.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/state.h"
#include "emulator/values.h"

namespace ptx {
namespace {

constexpr int rows = 64;

bool of_bytes(const Instr& i) { return i.mods.size() == 7 && i.mods[4] == "s32"; }
int depth_of(const Instr& i) { return of_bytes(i) ? 32 : 16; }

// m64n<columns>k16, k32 of bytes.
int columns_of(const Instr& i) {
  if (i.mods.size() != 7) return 0;
  const std::string& shape = i.mods[3];
  const size_t n = shape.find('n'), k = shape.find('k');
  if (!shape.starts_with("m64n") || k == shape.npos ||
      shape.substr(k) != "k" + std::to_string(depth_of(i)))
    return 0;
  return std::atoi(shape.c_str() + n + 1);
}

bool in_registers(const Instr& i) { return i.groups.size() > 1 && i.groups[1] == 4; }

// A matrix in shared memory, as 64 bits say.
struct Matrix {
  uint64_t start, leading, stride;
  int swizzle;  // bytes; 0: none that is known here
  bool turned;  // neighbours are not along k: of 16-bit numbers
  uint64_t element;

  Matrix(uint64_t bits, bool is_turned, uint64_t bytes)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4),
        swizzle((bits >> 62) == 1   ? 128
                : (bits >> 62) == 2 ? 64
                : (bits >> 62) == 3 ? 32
                                    : 0),
        turned(is_turned),
        element(bytes) {
    if (bits >> 49 & 7) swizzle = 0;  // the pattern begins elsewhere
  }

  // Where element (x, k) is. The pattern repeats after eight of its rows.
  uint64_t place(int x, int k) const {
    const auto ux = static_cast<uint64_t>(x), uk = static_cast<uint64_t>(k);
    const auto width = static_cast<uint64_t>(swizzle);
    uint64_t at = start;
    if (turned)
      at += 2 * ux / width * leading + uk / 8 * stride + uk % 8 * width + 2 * ux % width;
    else
      at += ux / 8 * stride + ux % 8 * width + element * uk;
    return swizzled(at, swizzle);
  }
};

}  // namespace

bool Machine::State::use_wgmma(Warp& w, const Instr& i, uint32_t on) {
  whole_warp(w, on);
  const std::string& how = i.mods.empty() ? i.op : i.mods[0];
  if (groups.empty()) fault("wgmma in a CTA that is not made of whole warpgroups", w, 0);
  if (how == "fence") {
    w.fenced = true;
    std::fill(w.touched.begin(), w.touched.end(), uint8_t{0});
  } else if (how == "mma_async") {
    begin_product(w, i);
  } else if (how == "commit_group") {
    w.groups.push_back(w.products);
  } else if (how == "wait_group") {
    const uint64_t left = i.operands.at(0).imm;
    if (left >= w.groups.size()) return true;
    const uint32_t wanted = w.groups[w.groups.size() - 1 - left];
    Warpgroup& g = groups[w.number / group_warps];
    while (g.done < wanted) {
      if (!may_run(g)) return false;
      run_product(w.number / group_warps);
    }
    at = &i;
    for (uint32_t& f : w.flight)
      if (f <= wanted) f = 0;
    w.waited = std::max(w.waited, wanted);
    w.known.raise(first_group_agent + w.number, wanted);  // of its own part
  } else {
    fault("an instruction that this machine does not know", w, 0);
  }
  return true;
}

void Machine::State::begin_product(Warp& w, const Instr& i) {
  const int columns = columns_of(i);
  const bool loads = in_registers(i);
  const size_t sums = static_cast<size_t>(columns) / 2;
  std::vector<int> wanted{static_cast<int>(sums), loads ? 4 : 1, 1, 1, 1, 1, 1};
  if (!loads) wanted.push_back(1);
  const bool bytes = of_bytes(i);  // these have no signs and are not turned
  if (bytes) wanted.resize(4);
  auto both = [&](const char* type) { return i.mods[5] == type && i.mods[6] == type; };
  const bool types =
      i.mods.size() == 7 && (bytes ? !loads && (both("s8") || both("u8"))  // mixed: from PTX 8.4 on
                                   : i.mods[4] == "f32" && (both("bf16") || both("f16")));
  if (columns < 8 || columns > 256 || columns % 8 != 0 || !types || i.groups != wanted)
    fault("a product of a warpgroup that this machine does not know", w, 0);
  if (!w.fenced) fault("a product without wgmma.fence before it", w, 0);
  const size_t first = sums + (loads ? 4 : 1);  // the right factor's operand
  auto one = [&](size_t n) {                    // a value that all lanes have
    const uint64_t v = checked(w, i.operands[n], 0);
    for (int l = 1; l < warp_size; ++l)
      if (checked(w, i.operands[n], l) != v) fault("lanes name different products", w, l);
    return v;
  };
  const bool adds = one(first + 1) != 0;
  for (size_t n = first + 2; n < first + (bytes ? 2 : 4); ++n)
    if (i.operands[n].reg >= 0 || i.operands[n].imm != 1) fault("a product with a sign", w, 0);
  Warpgroup& g = groups[w.number / group_warps];
  const uint32_t number = w.products++;
  const uint64_t left = loads ? 0 : one(sums), right = one(first);
  if (number < g.done || number - g.done >= g.products.size())
    g.products.push_back({&i, 0, left, right, adds, {}});
  Product& p = g.products[number - g.done];
  if (p.instr != &i || p.left != left || p.right != right || p.adds != adds)
    fault("the warps of a group begin different products", w, 0);
  p.begun |= 1u << w.number % group_warps;
  p.known[w.number % group_warps] = knowledge(w, all_lanes);
  ++w.clock;
  for (size_t n = 0; n < first; ++n) {
    const int reg = i.operands[n].reg;
    if (n >= sums && !loads) break;
    const auto r = static_cast<size_t>(reg);
    if (reg < specials) fault("a product without registers", w, 0);
    if (w.touched[r])
      fault("register " + name_of(reg) + " of a product was written since wgmma.fence", w, 0);
    const bool is_sum = n < sums;
    if (w.flight[r]) {  // only sums that go on as they are, and factors that are read again
      const uint32_t before = w.flight[r] - 1;
      const Instr* other = before >= g.done && before - g.done < g.products.size()
                               ? g.products[before - g.done].instr
                               : &i;
      const size_t low = is_sum ? n : static_cast<size_t>(columns_of(*other)) / 2;
      const size_t high = is_sum ? n : in_registers(*other) ? low + 3 : 0;
      bool same = is_sum && columns_of(*other) != columns ? false : low <= high;
      if (same)
        same = std::any_of(other->operands.begin() + static_cast<std::ptrdiff_t>(low),
                           other->operands.begin() + static_cast<std::ptrdiff_t>(high) + 1,
                           [&](const Operand& o) { return o.reg == reg; });
      if (!same) fault("register " + name_of(reg) + " of a product under way is used", w, 0);
    } else if ((!is_sum || adds) && w.written[r] != all_lanes) {
      fault("register " + name_of(reg) + " is read before it is written", w, 0);
    }
    w.flight[r] = number + 1;
  }
  happened = true;
}

bool Machine::State::may_run(const Warpgroup& g) const {
  return !g.products.empty() && g.products.front().begun == (1u << group_warps) - 1;
}

void Machine::State::run_product(uint32_t group) {
  begin_accesses();
  Warpgroup& g = groups[group];
  const Product p = std::move(g.products.front());
  g.products.pop_front();
  const uint32_t number = ++g.done;
  at = p.instr;
  const Instr& i = *p.instr;
  const int columns = columns_of(i);
  const size_t sums = static_cast<size_t>(columns) / 2;
  const int depth = depth_of(i);
  const bool loads = in_registers(i), bf16 = i.has("bf16"), bytes = of_bytes(i);
  const uint32_t thread = group * group_warps * warp_size;
  // A warp's part reads its rows of the left factor, and all of the right one.
  const uint32_t first_agent = first_group_agent + group * group_warps;
  Clocks common = p.known[0];
  for (const Clocks& known : p.known) common.meet(known);
  const Actor all{first_agent, false, number, &common, nullptr, (1u << group_warps) - 1};
  auto one = [&](uint32_t warp) {
    return Actor{first_agent, false, number, &p.known[warp], nullptr, 1u << warp};
  };
  auto load = [&](uint64_t where, const Actor& me) {
    if (bytes) {
      const uint8_t b = reach(where, false, me, thread).value;
      return static_cast<double>(i.has("s8") ? static_cast<int8_t>(b) : int{b});
    }
    const uint32_t low = reach(where, false, me, thread).value;
    return number_of(
        static_cast<uint16_t>(low | uint32_t{reach(where + 1, false, me, thread).value} << 8),
        bf16);
  };
  const size_t flags = i.operands.size() - (loads ? 1 : 2);
  auto turned = [&](size_t n) { return !bytes && i.operands[n].imm != 0; };
  const uint64_t element = bytes ? 1 : 2;
  const Matrix left(p.left, !loads && turned(flags), element),
      right(p.right, turned(i.operands.size() - 1), element);
  if ((!loads && left.swizzle == 0) || right.swizzle == 0)
    fault_of("a matrix in shared memory that this machine does not know", thread, &i);
  Warp* const four = &warps[size_t{group} * group_warps];
  std::vector<double> a(static_cast<size_t>(rows * depth)), b(static_cast<size_t>(columns * depth));
  bool small = true;  // integers whose sums are exact
  auto take = [&](double& to, double x) {
    to = x;
    small = small && std::fabs(x) <= 256 && x == std::trunc(x);
  };
  for (int k = 0; k < depth; ++k) {
    for (int r = 0; r < rows; ++r) {
      double& to = a[static_cast<size_t>(r * depth + k)];
      if (!loads) {
        take(to, load(left.place(r, k), one(static_cast<uint32_t>(r) / 16)));
        continue;
      }
      const Warp& w = four[r / 16];
      const auto operand = sums + static_cast<size_t>(r % 16 / 8 + k / 8 * 2);
      const uint64_t word = value(w, i.operands[operand], r % 8 * 4 + k % 8 / 2);
      take(to, number_of(static_cast<uint16_t>(word >> (16 * (k % 2))), bf16));
    }
    for (int c = 0; c < columns; ++c)
      take(b[static_cast<size_t>(c * depth + k)], load(right.place(c, k), all));
  }
  for (int r = 0; r < rows; ++r) {
    Warp& w = four[r / 16];
    for (int c = 0; c < columns; ++c) {
      const auto which = static_cast<size_t>(c / 8 * 4 + r % 16 / 8 * 2 + c % 2);
      const auto reg = static_cast<size_t>(i.operands[which].reg);
      uint64_t& out = w.values[reg * warp_size + static_cast<size_t>(r % 8 * 4 + c % 8 / 2)];
      const double* x = &a[static_cast<size_t>(r * depth)];
      const double* y = &b[static_cast<size_t>(c * depth)];
      if (bytes) {  // sums wrap around
        auto sum = static_cast<uint32_t>(p.adds ? out : 0);
        for (int k = 0; k < depth; ++k)
          sum += static_cast<uint32_t>(static_cast<int32_t>(x[k]) * static_cast<int32_t>(y[k]));
        out = sum;
        continue;
      }
      const float before = p.adds ? std::bit_cast<float>(static_cast<uint32_t>(out)) : 0.0f;
      double products[16], sum = 0;
      for (int k = 0; k < depth; ++k) sum += products[k] = x[k] * y[k];
      const double whole = static_cast<double>(before) + sum;
      const bool exact = small && std::fabs(before) < 0x1p22f && before == std::trunc(before);
      const float result = exact ? static_cast<float>(whole) : tensor_sum(products, depth, before);
      out = result != result ? 0x7fffffffu : std::bit_cast<uint32_t>(result);
    }
  }
  for (size_t n = 0; n < sums; ++n)
    for (uint32_t w = 0; w < group_warps; ++w)
      four[w].written[static_cast<size_t>(i.operands[n].reg)] = all_lanes;
  happened = true;
}

}  // namespace ptx
