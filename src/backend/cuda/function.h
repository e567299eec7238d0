// backend/cuda/function.h: the kernel being generated for a GPU.
#pragma once

#include "backend/cuda/facts.h"
#include "backend/cuda/target.h"
#include "codegen/body.h"

namespace hologram::cuda {

using namespace codegen;  // the kit's names are this backend's

/// Address spaces.
inline constexpr unsigned global_space = 1, shared_space = 3;

/// A module is for the least GPU, unless it says that it is for another one.
void set_capability(llvm::Module& module, int capability);
int capability_of(const llvm::Module& module);

/// A kernel @hologram_kernel(buffers…, symbols…, i64 total, i64 teams, i64 workspace bytes of a
/// team, ptr workspace, ptr faults, tensor maps…): `Facts` says how it is launched.
class CudaFunction final : public Function {
 public:
  /// `maps`: how many tensor maps it gets; then a CTA has a multiprocessor for itself.
  CudaFunction(llvm::Module& m, const atlas::Program& p, int threads,
               const char* name = kernel_symbol, int maps = 0);

  Value* render(ir::Op, Value*, bool) override { return nullptr; }
  Value* round_to_bf16(Value*) override { return nullptr; }
  Value* truncate(Value*, int) override { return nullptr; }
  Value* extremum(bool, Value*, Value*) override { return nullptr; }
  Value* look_up(DType type, std::span<const uint64_t> table, Value* index) override;
  Value* zeros() override;
  /// Stores are jumped over instead.
  Value* sink() override;
  /// Stores 1 to the word of each fault that this thread flagged, and returns.
  void finish() override;
  bool flags() const { return flags_; }  ///< whether finish() found faults to store

  /// Leaves room for so many CTAs on a multiprocessor, and takes registers that are left.
  void fit(int ctas);

  Value* total() const { return total_; }            ///< parallel points, i64
  Value* teams() const { return teams_; }            ///< of the launch, i64
  Value* team_bytes() const { return team_bytes_; }  ///< of a team's workspace, i64
  /// The number of the thread in its CTA and of the CTA in the grid, i32.
  Value* thread() const { return thread_; }
  Value* cta() const { return cta_; }
  /// The address of a tensor map, i64.
  Value* map(int number);
  /// The piece of the workspace that team number `team` (i64) has.
  Value* workspace(Value* team);
  /// Gives every scratch buffer its place in the workspace of team number `team` (i64).
  void place_scratch(Value* team);
  static bool has_scratch(const atlas::Program& program);
  /// Bytes of all scratch buffers of a team.
  static Expr scratch_bytes(const atlas::Program& program);
  /// Memory that the threads of a CTA share: `count` values of `type`.
  Value* shared(llvm::Type* type, int count, const char* name);

 private:
  llvm::Type* global_pointer() { return ir.getPtrTy(1); }

  Value *total_, *teams_, *team_bytes_, *workspace_, *faults_, *thread_, *cta_;
  unsigned first_map_;
  Value* zeros_ = nullptr;
  bool flags_ = false;
};

}  // namespace hologram::cuda
