// codegen/function.h: the function being generated and the scopes of its loop nest.
//
// Scopes nest as loops do: a scope knows where its straight-line code stands, the values of the
// axes fixed in it and, for the innermost one, how lanes are laid along one axis. emit_body
// (codegen/body.h) puts every instruction into the outermost scope in which all that it reads is
// fixed, so loop-invariant code never enters a loop. Bodies make no control flow; data-dependent
// errors are collected in a flag that Function::finish hands to the context.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "atlas/abi.h"
#include "atlas/program.h"
#include "base/error.h"
#include "codegen/target.h"

namespace hologram::codegen {

using llvm::Value;

/// A value in a body: the same for all lanes (a scalar) or a vector with an element per lane. In
/// registers b8 is i1, f16 and bf16 are their bits as i16.
struct LaneValue {
  Value* v = nullptr;
  bool varying = false;

  explicit operator bool() const { return v != nullptr; }
};

class Function;

/// One level of the loop nest.
class Scope {
 public:
  explicit Scope(
      Function& function);  ///< the function's outermost level, which stands at the builder's block
  /// A level inside `parent`, standing at the builder's block. `conditional`: its code may be
  /// skipped while the parent's runs, so what may fault stays inside.
  Scope(Scope& parent, bool conditional);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Fixes axis `axis` in this scope; for the lane axis, to lane 0's value.
  void set_axis(int axis, Value* scalar) { axes_[axis] = scalar; }
  /// Lays `count` lanes along `axis`. `mask` (vector of i1, or null) says which lanes exist.
  void set_lanes(int axis, int count, Value* mask = nullptr);
  /// Says that lane 0's coordinate is a multiple of the number of lanes; forgotten by set_lanes.
  void set_aligned() { aligned_ = true; }
  bool aligned() const { return aligned_; }
  /// Says that of each two registers of float32 lanes the first holds the even elements, the second
  /// the odd ones, and so whatever else is beside them but for bf16 (see emit_cast); forgotten by
  /// set_lanes.
  void set_alternate() { alternate_ = true; }
  bool alternate() const { return alternate_; }
  void set_accumulator(int number, LaneValue value) { accumulators_[number] = value; }
  /// Memory that holds running accumulator `number` (an element or a vector per lane count).
  void set_running(int number, Value* slot, bool varying) { running_[number] = {slot, varying}; }
  /// How an accumulate is emitted here instead: given the instruction and its operand, its value.
  using Accumulate = std::function<LaneValue(const atlas::Instr&, LaneValue)>;
  void set_accumulate(Accumulate how) { accumulate_ = std::move(how); }
  const Accumulate& accumulate() const { return accumulate_; }
  /// Gives instruction `id` of `body`, which belongs to this scope, a value made elsewhere.
  void preset(const atlas::Body* body, atlas::ValueId id, LaneValue value) {
    values_[{body, id}] = value;
  }
  /// Where `when` (i1, or null for never) holds, whole vectors stored in order go past the caches:
  /// the caller has made sure of their alignment.
  void set_streaming(Value* when) { streaming_ = when; }
  Value* streaming() const { return streaming_; }
  /// Later code of this scope goes to the end of `block`.
  void move_to(llvm::BasicBlock* block) { block_ = block; }
  /// Puts the function's builder to the end of this scope's code (before the terminator, if there
  /// is one).
  void seek();

  Function& function() const { return function_; }
  Scope* parent() const { return parent_; }
  int depth() const { return depth_; }
  bool fixes_axis(int axis) const { return axes_.count(axis) != 0; }
  /// This scope's code, or a sibling's that needs the same invariants, runs whenever the parent's
  /// does.
  void make_certain() { conditional_ = false; }
  bool is_conditional() const { return conditional_; }
  int lanes() const { return lanes_; }
  int lane_axis() const { return lane_axis_; }
  Value* mask() const { return mask_; }

 private:
  friend class IndexEmitter;
  friend std::vector<LaneValue> emit_body(Scope& scope, const atlas::Body& body);
  friend LaneValue find_accumulator(Scope& scope, int number, Scope** where);
  friend LaneValue find_running(Scope& scope, int number);
  struct Key {
    const atlas::Body* body;
    atlas::ValueId id;
    auto operator<=>(const Key&) const = default;
  };
  struct Address {
    int buffer;
    Expr index;
    bool operator==(const Address&) const = default;
  };
  struct AddressHash {
    size_t operator()(const Address& a) const {
      return a.index.hash() * 31 + static_cast<size_t>(a.buffer);
    }
  };

  Function& function_;
  Scope* parent_ = nullptr;
  int depth_ = 0;
  bool conditional_ = false;
  Value* streaming_ = nullptr;
  llvm::BasicBlock* block_;
  int lane_axis_ = -1;
  int lanes_ = 1;
  Value* mask_ = nullptr;
  bool aligned_ = false;
  bool alternate_ = false;
  std::map<int, Value*> axes_;
  std::map<int, LaneValue> accumulators_, running_;
  Accumulate accumulate_;
  std::map<Key, LaneValue> values_;
  std::unordered_map<Expr, LaneValue> exprs_;  ///< as the lanes see it
  std::unordered_map<Expr, LaneValue> bases_;  ///< as lane 0 sees it
  std::unordered_map<Address, Value*, AddressHash> addresses_;
};

/// The members of atlas::Context, in order.
enum class ContextField : uint8_t {
  parallel_for,
  scratch,
  call_host,
  sticky_error,
  runtime,
  launch
};

/// The function under construction: a kernel by the interface of atlas/abi.h, or one that a backend
/// opens itself. Backends derive from it to render what their instructions do best.
class Function {
 public:
  /// Creates the function `kernel_symbol` in `module`. Units [begin, end) are not empty where
  /// root() stands.
  Function(llvm::Module& module, const atlas::Program& program, const TargetTraits& traits);
  virtual ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  /// `op` on one operand, where expand_math left it to the target; null for any other. `bounded`:
  /// the operand is at most 0, or NaN.
  virtual Value* render(ir::Op op, Value* x, bool bounded) = 0;
  /// f32 → bf16 (as i16) by instructions that take subnormal numbers for 0, where that is allowed
  /// and they exist; else null.
  virtual Value* round_to_bf16(Value* x) = 0;
  /// A float cut to a signed integer of so many bits, the least one for NaN and what does not fit,
  /// by an instruction that gives just that; null if there is none.
  virtual Value* truncate(Value* x, int bits) = 0;
  /// The larger (or smaller) of two floats, NaN where one is, by fewer instructions than LLVM's
  /// intrinsic takes; null if there are none.
  virtual Value* extremum(bool larger, Value* x, Value* y) = 0;
  /// table[index mod its size] for a scalar or a vector of i32.
  virtual Value* look_up(DType type, std::span<const uint64_t> table, Value* index) = 0;

  llvm::Module& module;
  const atlas::Program& program;
  const TargetTraits& traits;
  llvm::LLVMContext& context;
  llvm::IRBuilder<> ir;
  llvm::Function* function;
  /// Whether a float32 product and its sum may be rounded apart, where no instruction fuses them.
  bool rounds_twice = false;
  Value *begin, *end;  ///< the units to run, i64

  Scope& root() { return *root_; }
  /// Address of buffer k. A scratch buffer holds `scratch_lanes` interleaved copies.
  Value* buffer(int k) const { return numbered(buffers_, k, "Function::buffer"); }
  Value* symbol(int k) const { return numbered(symbols_, k, "Function::symbol"); }

  /// Sets up the scratch buffers: on the stack when small, else from the context. Lane l of element
  /// e is element e * lanes + l. Call it once, in the root scope, before any body that uses
  /// scratch.
  void make_scratch(int lanes);
  int scratch_lanes() const { return scratch_lanes_; }

  /// Memory on the stack for `count` values of `type`, allocated on entry.
  llvm::AllocaInst* slot(llvm::Type* type, const char* name, int64_t count = 1);
  /// 64 zero bytes to load from, and 64 bytes to store to, in place of memory that must not be
  /// touched.
  virtual Value* zeros();
  virtual Value* sink();
  /// What the kernel's atlas::Context has there.
  Value* context_field(ContextField field);
  /// Ors `bit` (StickyError) into the error flag where `condition` (i1) holds.
  void flag_error(Value* condition, int bit);
  /// Whether this pass over the units goes from the last to the first (i1): every other
  /// parallel_for does, so that a pass begins with what the one before it left in the caches. Only
  /// the order of independent work may depend on it.
  Value* runs_backwards();
  /// Leaves the kernel with `status` from the builder's block, which ends there.
  void leave(int status);
  /// Ends the function at the builder's block: reports flagged errors, returns 0.
  virtual void finish();

  /// Whether what is emitted belongs to a product's tail, which rounds as loops do.
  bool in_tail() const { return in_tail_; }
  void set_in_tail(bool now) { in_tail_ = now; }

  /// Whether the lanes of what is emitted are alternate (Scope::set_alternate).
  bool alternate() const { return alternate_; }
  void set_alternate(bool now) { alternate_ = now; }
  /// What bf16 lanes were before they were put into the order of memory: words whose high halves
  /// they are, in alternate lanes. Null for others.
  Value* words_of(Value* bf16) const {
    auto it = words_.find(bf16);
    return it == words_.end() ? nullptr : it->second;
  }
  void set_words(Value* bf16, Value* words) { words_[bf16] = words; }

  llvm::BasicBlock* block(const char* name);
  llvm::Type* type_of(DType t) const;      ///< in registers
  llvm::Type* memory_type(DType t) const;  ///< in memory: as in registers, but i8 for b8
  llvm::Type* lane_type(DType t, int lanes) const;
  llvm::Type* widen(llvm::Type* t, int lanes) const;
  Value* i64(int64_t value) { return ir.getInt64(static_cast<uint64_t>(value)); }
  /// The identity of a reduce_* op as a scalar in registers.
  llvm::Constant* identity(ir::Op reduce, DType type);

 protected:
  /// A function with other arguments than those of atlas/abi.h, as devices have. The builder stands
  /// in its first block; give buffers and symbols their values there, then open() it.
  Function(llvm::Module& module, const atlas::Program& program, const TargetTraits& traits,
           llvm::Function* own);
  void set_buffer(size_t k, Value* address) { buffers_[k] = address; }
  void add_symbol(Value* value) { symbols_.push_back(value); }
  /// Begins the outermost scope behind what the builder's block does now.
  void open();
  /// The flagged errors at the builder's block (i32), or null if nothing can flag one.
  Value* errors();

 private:
  static Value* numbered(const std::vector<Value*>& list, int k, const char* where) {
    check(k >= 0 && static_cast<size_t>(k) < list.size(), where);
    return list[static_cast<size_t>(k)];
  }

  std::vector<Value*> buffers_, symbols_;
  llvm::BasicBlock *entry_, *exit_;
  llvm::PHINode* status_ = nullptr;
  Value *context_arg_, *zeros_ = nullptr, *sink_ = nullptr, *errors_ = nullptr;
  int scratch_lanes_ = 1;
  bool in_tail_ = false;
  bool alternate_ = false;
  std::unordered_map<Value*, Value*> words_;
  std::unique_ptr<Scope> root_;
};

}  // namespace hologram::codegen
