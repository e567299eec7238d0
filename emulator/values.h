// emulator/values.h: what instructions compute, lane by lane.
#pragma once

#include <array>

#include "emulator/module.h"

namespace ptx {

enum Code {
  code_unknown,
  code_bra,
  code_ret,
  code_bar,
  code_warp,
  code_ld,
  code_st,
  code_atom,
  code_red,
  code_mov,
  code_cvta,
  code_add,
  code_sub,
  code_mul,
  code_mad,
  code_div,
  code_rem,
  code_neg,
  code_abs,
  code_min,
  code_max,
  code_and,
  code_or,
  code_xor,
  code_not,
  code_shl,
  code_shr,
  code_shf,
  code_prmt,
  code_bfe,
  code_bfi,
  code_popc,
  code_clz,
  code_brev,
  code_setp,
  code_selp,
  code_cvt,
  code_fma,
  code_sqrt,
  code_rcp,
  code_ex2,
  code_copysign,
  code_unpack,
  code_pack,
  code_mma,
  code_ldmatrix,
  code_wgmma,
  code_mbarrier,
  code_fence,
  code_copy,
  code_setmaxnreg,
};

/// The number of an instruction's name, or code_unknown.
Code code_of(const Instr& i);

/// One number of mma.m16n8k16's result: the sum of 16 products and c. As Hopper's tensor cores were
/// seen to do it: numbers are cut to two bits below the last one of the largest, towards zero,
/// added exactly, and the sum is cut to 24 bits.
float tensor_sum(const double* products, int count, float c);
/// The number that 16 bits stand for.
double number_of(uint16_t bits, bool bf16);

/// The results of the lanes in `on`, each masked to its register later; false for an instruction
/// that is not known.
bool compute(const Instr& i, const uint64_t* const* from, uint32_t on, uint64_t* out);

}  // namespace ptx
