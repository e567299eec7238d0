// atlas/lane.h: lane programs: the register machine layer of the Atlas ISA.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "atlas/class_graph.h"
#include "atlas/program.h"
#include "base/error.h"

namespace hologram::atlas {

enum class LaneOp : uint8_t {
#define HOLOGRAM_LANE(name, mnemonic, types, operands, doc) name,
#include "atlas/lane.def"
#undef HOLOGRAM_LANE
};

inline constexpr int num_lane_ops = 0
#define HOLOGRAM_LANE(name, mnemonic, types, operands, doc) +1
#include "atlas/lane.def"
#undef HOLOGRAM_LANE
    ;

inline constexpr int lane_registers = 256;
inline constexpr int lane_predicates = 16;
inline constexpr int lane_call_depth = 256;

/// Which element types an instruction has (see lane.def).
enum class LaneTypes : uint8_t { none, ints, all10, all12, signed10, wide, real };

/// One operand as lane.def states it.
struct LaneOperand {
  enum class Role : uint8_t { written, read, modified, optional, address, immediate, label, range };
  enum class Of : uint8_t { type, source, predicate, fixed };
  Role role;
  Of of = Of::type;
  DType fixed = DType::host;
};

struct LaneOpInfo {
  std::string_view name, mnemonic;
  LaneTypes types;
  std::vector<LaneOperand> operands;
  std::string_view doc;
  uint64_t immediate_limit;  ///< largest immediate
};

const LaneOpInfo& info(LaneOp op);
bool has_type(LaneTypes types, DType t);

enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, ltu, leu, gtu, geu };
inline constexpr int num_compares = 10;
std::string_view name_of(Compare c);

enum class FenceScope : uint8_t { thread, block, device, system };
inline constexpr int num_fence_scopes = 4;
std::string_view name_of(FenceScope s);

/// Where a load or store goes. Handles: 0 is the boundary pool (in lds and sts the block's shared
/// memory), 1… the launch's buffers, 2^64 - 96 + class that class's 12,288 bytes.
struct LaneAddress {
  enum class Kind : uint8_t {
    none,
    buffer,    ///< [buf42 + 128]: handle and byte offset
    phi,       ///< [Φ(5, 12, 200)]: class, page, byte of the boundary pool
    indirect,  ///< [r10 - 4]: the register holds a handle (u64); byte offset
    computed,  ///< [r1 + r2]: registers hold handle and byte offset (u64)
  };
  Kind kind = Kind::none;
  uint64_t handle = 0;  ///< buffer
  uint64_t offset = 0;  ///< buffer; indirect: an i32, sign-extended
  uint8_t a = 0;        ///< indirect, computed: handle register; phi: class
  uint8_t b = 0;        ///< computed: offset register; phi: page
  uint8_t c = 0;        ///< phi: byte

  bool operator==(const LaneAddress&) const = default;
};

/// Where a phi address lies in the boundary pool.
constexpr uint64_t phi_offset(const LaneAddress& a) {
  return uint64_t{a.a} * class_bytes + uint64_t{a.b} * page_bytes + a.c;
}

/// The handle of a class's bytes in the boundary pool.
constexpr uint64_t class_handle(int c) {
  return ~uint64_t{0} - (num_classes - 1) + static_cast<uint64_t>(c);
}

struct LaneInstr {
  LaneOp op;
  DType type = DType::host;       ///< the type suffix; host: none
  DType from = DType::host;       ///< cvt: source type
  uint8_t variant = 0;            ///< set: a Compare; memfence: a FenceScope; bra: 1 if conditional
  std::array<uint8_t, 4> regs{};  ///< registers and predicates in operand order; bra: the predicate
  LaneAddress address;
  uint64_t immediate = 0;  ///< also the count of a range
  uint32_t label = 0;      ///< number in LaneProgram::labels

  bool operator==(const LaneInstr&) const = default;
};

inline constexpr uint32_t undefined_target = ~0u;

struct LaneLabel {
  std::string name;
  uint32_t target =
      undefined_target;  ///< instruction number; the number of instructions is the end

  bool operator==(const LaneLabel&) const = default;
};

/// A program of the register machine. Registers r0…r255 hold one typed value each, p0…p15 truth
/// values. Preset: r252 lane x, r253 block x, r254 block size x (u32), r255 the lane's number in
/// the launch (u64).
struct LaneProgram {
  std::vector<LaneInstr> instrs;
  std::vector<LaneLabel> labels;

  /// Number of the label `name`, declared on first use.
  uint32_t label(std::string_view name);
  /// Puts `name` at the current end. Throws LaneError(duplicate_label) if it stands somewhere.
  void place(std::string_view name);

  bool operator==(const LaneProgram&) const = default;
};

/// What can be wrong with a lane program, when it is verified or when it runs.
enum class LaneFault : uint8_t {
  invalid_buffer_handle,
  invalid_pool_handle,
  buffer_out_of_bounds,
  pool_out_of_bounds,
  invalid_register,
  invalid_predicate,
  type_mismatch,
  uninitialized_register,
  uninitialized_predicate,
  division_by_zero,
  invalid_memory_address,
  program_error,
  duplicate_label,
  undefined_label,
  invalid_label_target,
  call_stack_overflow,
  call_stack_underflow,
  invalid_class_index,
  invalid_boundary_coordinates,
  execution_error,
  unsupported_operation,
  invalid_launch_config,
  out_of_memory,
};

/// "InvalidBufferHandle", …
std::string_view name_of(LaneFault f);

/// An Error whose message begins with the fault's name.
class LaneError : public Error {
 public:
  LaneError(LaneFault fault, const std::string& message);
  LaneFault fault() const noexcept { return fault_; }

 private:
  LaneFault fault_;
};

template <class... Args>
[[noreturn]] void lane_fail(LaneFault fault, fmt::format_string<Args...> format, Args&&... args) {
  throw LaneError(fault, fmt::format(format, std::forward<Args>(args)...));
}

/// Checks each instruction by itself (types, ranges, labels); what execution relies on. Throws
/// LaneError.
void check_structure(const LaneProgram& program);
/// check_structure, and: every register and predicate that is read was written with that type on
/// every path to it (the sides of sel apart, of which only one is read). Throws LaneError.
void verify(const LaneProgram& program);

/// One instruction as text, and a whole program (the assembler's input).
std::string disassemble(const LaneInstr& instr, const LaneProgram& program);
std::string disassemble(const LaneProgram& program);
/// Throws Error(invalid_argument) with line and column.
LaneProgram assemble_lane(std::string_view text);

/// Versioned binary form with a checksum, as block programs have it. decode_lane throws
/// Error(corrupt).
std::string encode(const LaneProgram& program);
LaneProgram decode_lane(std::string_view bytes);
Fingerprint fingerprint(const LaneProgram& program);

/// Either layer.
using AnyProgram = std::variant<Program, LaneProgram>;
/// By the first line ("atlas block 1", "atlas lane 1").
AnyProgram assemble_any(std::string_view text);
AnyProgram decode_any(std::string_view bytes);
/// Whether `bytes` begin as a binary program does.
bool is_binary(std::string_view bytes);

}  // namespace hologram::atlas
