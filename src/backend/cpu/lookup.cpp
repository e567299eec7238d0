// backend/cpu/lookup.cpp: elements of small constant tables, by the permutations of a register's
// lanes.
//
// A permutation serves tables of up to 16 entries on AVX-512 and NEON, 8 on AVX2, 4 on SSE4.2 and
// WebAssembly; longer ones are two halves and a selection. A single lane reads the table from
// memory. AVX2's permutation takes two cycles of a table in memory and one of a register's: so each
// table is loaded before it, by a load that may neither become its operand nor leave the loop,
// where it would keep a register or come back from the stack.
#include "backend/cpu/lookup.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsWebAssembly.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

namespace hologram::cpu {
namespace {

namespace Intrinsic = llvm::Intrinsic;

using Table = std::span<const uint64_t>;

llvm::GlobalVariable* constant_memory(CpuFunction& k, llvm::Constant* value, uint64_t alignment) {
  auto* memory = new llvm::GlobalVariable(k.module, value->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, value, "table");
  memory->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  memory->setAlignment(llvm::Align(alignment));
  return memory;
}

class Permuter {
 public:
  explicit Permuter(CpuFunction& k) : k_(k), ir_(k.ir), isa_(k.target.isa) {}

  /// Entries as floats for a vector of any number of indices.
  Value* find(Table table, Value* index) {
    // kernels for tiles count in 16 lanes, whichever instructions they may use beside them
    int lanes = lanes_of(index);
    int whole = std::min(k_.target.vector_bytes / 4, isa_ == Isa::avx2 ? 8 : 16);
    if (lanes > whole) {
      int half = lanes / 2;
      Value *low = find(table, part(index, 0, half, half)),
            *high = find(table, part(index, half, half, half));
      return ir_.CreateShuffleVector(low, high, order(0, lanes, lanes));
    }
    if (lanes < whole) return part(find(table, part(index, 0, lanes, whole)), 0, lanes, lanes);
    return registers(table, index);
  }

 private:
  static int lanes_of(Value* v) {
    return static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
  }
  /// first, first + 1, …; `count` of them, then anything up to `length`.
  static std::vector<int> order(int first, int count, int length) {
    std::vector<int> o;
    for (int l = 0; l < length; ++l) o.push_back(l < count ? first + l : -1);
    return o;
  }
  Value* part(Value* v, int first, int count, int length) {
    return ir_.CreateShuffleVector(v, order(first, count, length));
  }

  size_t entries_of_register() const {
    return isa_ == Isa::sse42 || isa_ == Isa::wasm ? 4 : isa_ == Isa::avx2 ? 8 : 16;
  }

  Value* registers(Table table, Value* index) {
    if (table.size() > entries_of_register()) {
      size_t half = table.size() / 2;
      Value *low = registers(table.first(half), index),
            *high = registers(table.subspan(half), index);
      // the bit that chooses becomes the sign, which blends look at
      auto bit = static_cast<unsigned>(__builtin_ctzll(half));
      Value* sign = ir_.CreateShl(index, 31 - bit);
      Value* upper = ir_.CreateICmpSLT(sign, llvm::Constant::getNullValue(sign->getType()));
      return ir_.CreateSelect(upper, high, low);
    }
    switch (isa_) {
      case Isa::avx512:
        return ir_.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {},
                                   {constant(table, 16), index});
      case Isa::avx2:
        return ir_.CreateIntrinsic(Intrinsic::x86_avx2_permps, {}, {in_register(table), index});
      case Isa::sse42:
        return by_bytes(index, 4, [&](Value* bytes) {
          return ir_.CreateIntrinsic(Intrinsic::x86_ssse3_pshuf_b_128, {},
                                     {as_bytes(constant(table, 4)), bytes});
        });
      case Isa::wasm:
        return by_bytes(index, 4, [&](Value* bytes) {
          return ir_.CreateIntrinsic(Intrinsic::wasm_swizzle, {},
                                     {as_bytes(constant(table, 4)), bytes});
        });
      case Isa::neon:
        break;
    }
    size_t entries = std::max<size_t>(4, table.size());
    return by_bytes(index, entries, [&](Value* bytes) -> Value* {
      std::vector<Value*> operands;
      for (size_t first = 0; first < entries; first += 4)
        operands.push_back(
            as_bytes(constant(table.size() < 4 ? table : table.subspan(first, 4), 4)));
      operands.push_back(bytes);
      auto tbl = entries == 4   ? Intrinsic::aarch64_neon_tbl1
                 : entries == 8 ? Intrinsic::aarch64_neon_tbl2
                                : Intrinsic::aarch64_neon_tbl4;
      return ir_.CreateIntrinsic(tbl, {bytes->getType()}, operands);
    });
  }

  /// A permutation of bytes that takes entry index mod `entries` of four bytes.
  template <class Permute>
  Value* by_bytes(Value* index, size_t entries, Permute permute) {
    auto splat = [&](uint64_t c) { return llvm::ConstantInt::get(index->getType(), c); };
    Value* element = ir_.CreateAnd(index, splat(entries - 1));
    Value* bytes = ir_.CreateAdd(ir_.CreateMul(element, splat(0x04040404)), splat(0x03020100));
    return ir_.CreateBitCast(permute(as_bytes(bytes)), k_.widen(ir_.getFloatTy(), 4));
  }

  Value* as_bytes(Value* v) { return ir_.CreateBitCast(v, k_.widen(ir_.getInt8Ty(), 16)); }

  /// The table in a register of its own, loaded where it is used.
  Value* in_register(Table table) {
    llvm::Constant* entries = constant(table, 8);
    auto* memory = constant_memory(k_, entries, 32);
    Value* loaded = ir_.CreateAlignedLoad(entries->getType(), memory, llvm::Align(32), true);
    return ir_.CreateUnaryIntrinsic(Intrinsic::arithmetic_fence, loaded);
  }

  /// The table, repeated to `length` entries.
  llvm::Constant* constant(Table table, size_t length) {
    std::vector<llvm::Constant*> entries;
    for (size_t i = 0; i < length; ++i)
      entries.push_back(llvm::ConstantFP::get(
          ir_.getFloatTy(),
          llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, table[i % table.size()]))));
    return llvm::ConstantVector::get(entries);
  }

  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  Isa isa_;
};

Value* load_entry(CpuFunction& k, DType type, Table table, Value* index) {
  auto& ir = k.ir;
  std::vector<uint32_t> words(table.begin(), table.end());
  auto* memory = constant_memory(k, llvm::ConstantDataArray::get(k.context, words), 4);
  Value* at = ir.CreateZExt(ir.CreateAnd(index, table.size() - 1), ir.getInt64Ty());
  return ir.CreateLoad(k.type_of(type), ir.CreateGEP(ir.getInt32Ty(), memory, at));
}

}  // namespace

Value* emit_lookup(CpuFunction& k, DType type, std::span<const uint64_t> table, Value* index) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  if (!vector) return load_entry(k, type, table, index);
  Value* found = Permuter(k).find(table, index);
  return k.ir.CreateBitCast(found, k.lane_type(type, static_cast<int>(vector->getNumElements())));
}

}  // namespace hologram::cpu
