// emulator/module.h: PTX as it was read: registers numbered, labels found, operands
// decoded.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// What the reader does not understand, or what a kernel must not do.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Type : uint8_t { none, pred, b, u, s, f, bf };
struct Scalar {
  Type type = Type::none;
  int bits = 0;
  bool is_float() const { return type == Type::f; }
  bool is_signed() const { return type == Type::s; }
};

enum class Space : uint8_t { generic, global, shared, local, constant, parameter };

/// A register, or a constant; vectors of loads and stores have several.
struct Operand {
  int reg = -1;
  uint64_t imm = 0;
};

struct Instr {
  std::string op;                 ///< "add", "ld"
  std::vector<std::string> mods;  ///< all that follows it, types too
  int code = 0;                   ///< number of `op` in the machine's table
  Scalar type, from;              ///< the last type, and for cvt the one before: `from` → `type`
  Space space = Space::generic;
  int guard = -1;  ///< predicate register
  bool guard_not = false;
  std::vector<Operand> operands;  ///< destination first; addresses are their base
  int vector = 1;                 ///< elements of a load or a store
  std::vector<int> groups;        ///< how many operands each of the text's has: {a, b} two
  int64_t offset = 0;             ///< of an address
  int target = -1;                ///< of a branch
  int line = 0;
  bool has(std::string_view mod) const;
};

struct Variable {
  Space space;
  int64_t offset = 0, bytes = 0, align = 1;
  std::vector<uint8_t> init;  ///< as far as it is initialised; zeros follow
};

struct Kernel {
  std::string name;
  std::vector<int> parameters;  ///< bytes of each
  std::vector<int64_t> places;  ///< of them in the parameter space
  int64_t parameter_bytes = 0;
  std::vector<Instr> code;
  std::vector<int> widths;  ///< bits of each register
  std::map<std::string, int, std::less<>> registers;
  int64_t shared_bytes = 0, local_bytes = 0;
  int64_t own_shared_bytes = 0;  ///< of those, what this kernel uses
  bool dynamic_shared = false;   ///< more of it comes with the launch, behind shared_bytes
  int max_threads = 256;         ///< of a CTA; without .maxntid each may have 255 registers
};

struct Module {
  int version = 0;  ///< 80 of ".version 8.0"
  std::string target;
  std::map<std::string, Variable, std::less<>> globals;  ///< and shared ones of the module
  int64_t global_bytes = 0;  ///< of the block that holds .global and .const variables
  std::map<std::string, Kernel, std::less<>> kernels;
};

/// Special registers, numbered before all others.
enum Special {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  lane_id,
  specials
};

/// Reads a module. `globals`: address at which its variables will stand. Throws Fault naming the
/// line.
Module read(std::string_view text, uint64_t globals);

/// Windows of generic addresses.
inline constexpr uint64_t shared_window = uint64_t{1} << 60, local_window = uint64_t{1} << 61,
                          parameter_window = uint64_t{1} << 62;

/// The operand "_": a result that nobody wants.
inline constexpr int nowhere = -2;

}  // namespace ptx
