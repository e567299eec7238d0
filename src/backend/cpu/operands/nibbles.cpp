// backend/cpu/operands/nibbles.cpp: values of a body that depend on half a byte: looked up instead
// of computed.
//
// What a body computes from half a byte (the subtraction of 8, say) is found by evaluating it for
// all 256 bytes; AVX-512 looks it up in a register of 16 results.
#include "backend/cpu/operands/nibbles.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <cmath>

#include "ir/scalar.h"

namespace hologram::cpu {
namespace {

using atlas::Code;
using atlas::Instr;

// What is known of an instruction: nothing, a constant, or its value for each value of a byte.
struct Known {
  enum Kind : uint8_t { nothing, constant, table } kind = nothing;
  atlas::ValueId byte = atlas::no_value;
  std::vector<uint64_t> bits;  // 1 or 256

  uint64_t at(size_t i) const { return kind == constant ? bits[0] : bits[i]; }
};

class Finder {
 public:
  Finder(const atlas::Program& program, const atlas::Body& body)
      : program_(program), body_(body), known_(body.instrs.size()) {}

  std::optional<WholeNumber> last_number() {
    evaluate();
    const Known& k = known_.back();
    if (k.kind != Known::table || result_type(body_.instrs.back()) != DType::f32)
      return std::nullopt;
    for (auto part : {WholeNumber::low, WholeNumber::high, WholeNumber::all})
      for (bool flipped : {false, true}) {
        auto offset = offset_of(k, part, flipped);
        if (offset && (part == WholeNumber::all || !flipped))
          return WholeNumber{part, k.byte, flipped, *offset};
      }
    return std::nullopt;
  }

  std::vector<NibbleTable> run() {
    size_t count = body_.instrs.size();
    evaluate();
    std::vector<char> needed(count, 0);
    if (count > 0) needed.back() = 1;
    for (size_t n = 0; n < count; ++n) {
      if (known_[n].kind != Known::nothing) continue;
      for (atlas::ValueId a : body_.instrs[n].args)
        if (a != atlas::no_value) needed[a] = 1;
    }
    std::vector<NibbleTable> found;
    for (size_t n = 0; n < count; ++n)
      if (needed[n] && known_[n].kind == Known::table && result_type(body_.instrs[n]) == DType::f32)
        for (bool high : {false, true})
          if (auto entries = half(known_[n], high)) {
            found.push_back(
                {static_cast<atlas::ValueId>(n), known_[n].byte, high, std::move(*entries)});
            break;
          }
    return found;
  }

 private:
  void evaluate() {
    for (size_t n = 0; n < known_.size(); ++n) known_[n] = of(static_cast<atlas::ValueId>(n));
  }

  // What is to be taken from the part of a byte to have the table's value, if that is the same for
  // all bytes and small.
  static std::optional<int> offset_of(const Known& k, WholeNumber::Part part, bool flipped) {
    std::optional<int> offset;
    for (int i = 0; i < 256; ++i) {
      int byte = flipped ? i ^ 0x80 : i;
      if (part != WholeNumber::all) byte = part == WholeNumber::low ? byte % 16 : byte / 16;
      auto value = std::bit_cast<float>(static_cast<uint32_t>(k.bits[static_cast<size_t>(i)]));
      auto apart = static_cast<float>(byte) - value;
      if (!(std::fabs(apart) <= 256) || apart != std::nearbyint(apart)) return std::nullopt;
      if (!offset) offset = static_cast<int>(apart);
      if (*offset != static_cast<int>(apart)) return std::nullopt;
    }
    return offset;
  }

  static std::optional<std::array<uint32_t, 16>> half(const Known& k, bool high) {
    std::array<uint32_t, 16> entries{};
    for (size_t i = 0; i < 256; ++i) {
      size_t nibble = high ? i / 16 : i % 16, first = high ? nibble * 16 : nibble;
      if (k.bits[i] != k.bits[first]) return std::nullopt;
      entries[nibble] = static_cast<uint32_t>(k.bits[i]);
    }
    return entries;
  }

  Known of(atlas::ValueId n) const {
    const Instr& i = body_.instrs[n];
    if (i.code == Code::constant) return {Known::constant, atlas::no_value, {i.bits}};
    if (i.code == Code::index && i.expr.is_const())
      return {Known::constant, atlas::no_value, {static_cast<uint64_t>(i.expr.constant_value())}};
    if (i.code == Code::load) return loaded(n);
    if (i.code != Code::arithmetic) return {};
    return computed(i);
  }

  // The first load of the same byte stands for all of them.
  Known loaded(atlas::ValueId n) const {
    const Instr& i = body_.instrs[n];
    if (size_of(program_.buffers[static_cast<size_t>(i.buffer)].dtype) != 1 || i.type == DType::b8)
      return {};
    if (i.args[0] != atlas::no_value) {
      const Known& guard = known_[i.args[0]];
      if (guard.kind != Known::constant) return {};
      if (guard.bits[0] == 0) return {Known::constant, atlas::no_value, {0}};
    }
    Known k{Known::table, n, {}};
    for (atlas::ValueId m = 0; m < n; ++m) {
      const Instr& other = body_.instrs[m];
      if (known_[m].kind == Known::table && other.code == Code::load && other.buffer == i.buffer &&
          other.expr == i.expr)
        k.byte = known_[m].byte;
    }
    for (uint64_t x = 0; x < 256; ++x) k.bits.push_back(x);
    return k;
  }

  Known computed(const Instr& i) const {
    Known out{Known::constant, atlas::no_value, {}};
    std::vector<const Known*> args;
    for (atlas::ValueId a : i.args) {
      if (a == atlas::no_value) break;
      args.push_back(&known_[a]);
    }
    if (i.op == ir::Op::select && args[0]->kind == Known::constant)
      return args[0]->bits[0] ? *args[1] : *args[2];
    for (const Known* k : args) {
      if (k->kind == Known::nothing) return {};
      if (k->kind == Known::constant) continue;
      if (out.kind == Known::table && out.byte != k->byte) return {};
      out.kind = Known::table;
      out.byte = k->byte;
    }
    bool cast = ir::info(i.op).kind == ir::OpKind::cast;
    if (i.op == ir::Op::div || i.op == ir::Op::rem) return {};  // may raise an error
    for (size_t x = 0; x < (out.kind == Known::table ? 256 : 1); ++x) {
      std::array<uint64_t, 3> values{};
      for (size_t a = 0; a < args.size(); ++a) values[a] = args[a]->at(x);
      out.bits.push_back(ir::eval_scalar(i.op, cast ? i.from : i.type,
                                         std::span(values).first(args.size()), i.type));
    }
    return out;
  }

  const atlas::Program& program_;
  const atlas::Body& body_;
  std::vector<Known> known_;
};

}  // namespace

std::optional<WholeNumber> find_whole_number(const atlas::Program& program,
                                             const atlas::Body& body) {
  if (body.instrs.empty()) return std::nullopt;
  return Finder(program, body).last_number();
}

std::vector<NibbleTable> find_nibbles(const atlas::Program& program, const atlas::Body& body) {
  return Finder(program, body).run();
}

Value* look_up(CpuFunction& k, const NibbleTable& table, Value* bytes) {
  auto& ir = k.ir;
  std::vector<llvm::Constant*> entries;
  for (uint32_t bits : table.entries)
    entries.push_back(llvm::ConstantFP::get(
        ir.getFloatTy(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits))));
  // The instruction takes the lowest four bits of each index.
  Value* index = ir.CreateZExt(bytes, k.widen(ir.getInt32Ty(), 16));
  if (table.high) index = ir.CreateLShr(index, 4);
  return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                            {llvm::ConstantVector::get(entries), index});
}

}  // namespace hologram::cpu
