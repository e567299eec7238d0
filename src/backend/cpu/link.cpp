// backend/cpu/link.cpp: objects as code that runs wherever it lies.
//
// A kernel's references are distances within its own object (R_X86_64_PC32; on AArch64 distances of
// pages, and places in a page), so that sections side by side and four bytes filled in for each
// reference are all there is to link.
#include "backend/cpu/link.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "backend/cpu/object_file.h"
#include "base/error.h"
#include "codegen/target.h"

namespace hologram::cpu {
namespace {

constexpr uint64_t page_bytes = 4096, line_bytes = 64;

void expect(bool holds, std::string_view fault) {
  if (!holds) fail(ErrorCode::corrupt, "kernel object: {}", fault);
}

/// The immediate operand of an instruction of AArch64, `bits` wide from bit `low` on.
uint32_t with_field(uint32_t instruction, int low, int bits, uint64_t value) {
  const uint32_t mask = ((1u << bits) - 1) << low;
  return (instruction & ~mask) | (static_cast<uint32_t>(value << low) & mask);
}

/// What `instruction` at offset `at` becomes, for a reference of AArch64 to offset `to`.
uint32_t filled_in(uint32_t instruction, uint64_t type, uint64_t at, uint64_t to) {
  // Pages keep their distance, since images are loaded at a multiple of their size.
  const uint64_t in_page = to & 4095, pages = (to >> 12) - (at >> 12);
  const auto field = [&](int shift) {
    expect(in_page % (uint64_t{1} << shift) == 0, "a reference that is not aligned");
    return with_field(instruction, 10, 12, in_page >> shift);
  };
  switch (type) {
    case R_AARCH64_ADR_PREL_PG_HI21:
      expect(pages + (1 << 20) < (2 << 20), "a distance beyond 33 bits");
      return with_field(with_field(instruction, 29, 2, pages), 5, 19, pages >> 2);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return field(0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return field(1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return field(2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return field(3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return field(4);
  }
  fail(ErrorCode::unsupported, "kernel object: a reference of type {}", type);
}

/// Lays one object behind the bytes that are there.
class Linker {
 public:
  Linker(std::string& out, std::string_view code) : out_(out), object_(code) {
    if (object_.machine() != EM_X86_64 && object_.machine() != EM_AARCH64)
      fail(ErrorCode::unsupported, "only code for x86-64 and AArch64 can leave the process");
  }

  /// Returns the offset of its function.
  uint64_t link() {
    const auto& sections = object_.sections();
    for (size_t i = 0; i < sections.size(); ++i) place(i, sections[i]);
    for (const Elf64_Shdr& relocations : sections) {
      if (relocations.sh_type != SHT_RELA) continue;
      const auto found = places_.find(relocations.sh_info);
      if (found == places_.end()) continue;
      for (uint64_t i = 0; i < relocations.sh_size / sizeof(Elf64_Rela); ++i)
        relocate(relocations, object_.entry<Elf64_Rela>(relocations, i), found->second);
    }
    const uint64_t function = address_of(object_.symbol(codegen::kernel_symbol));
    expect(function < out_.size(), "its function is not in it");
    return function;
  }

 private:
  void place(size_t number, const Elf64_Shdr& section) {
    if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) return;
    if (object_.name(section) == ".eh_frame") return;
    if ((section.sh_flags & SHF_WRITE) || section.sh_type == SHT_NOBITS)
      fail(ErrorCode::unsupported, "kernel object: it has data that can be written");
    const uint64_t alignment = std::max<uint64_t>(section.sh_addralign, line_bytes);
    if (!std::has_single_bit(alignment) || alignment > page_bytes)
      fail(ErrorCode::corrupt, "kernel object: a section is to be aligned to {}", alignment);
    out_.resize((out_.size() + alignment - 1) / alignment * alignment, '\0');
    places_[number] = out_.size();
    out_ += object_.content(section);
  }

  uint64_t address_of(const Elf64_Sym& symbol) const {
    const auto found = places_.find(symbol.st_shndx);
    if (found == places_.end())
      fail(ErrorCode::unsupported, "kernel object: it refers to something outside");
    return found->second + symbol.st_value;
  }

  void relocate(const Elf64_Shdr& relocations, const Elf64_Rela& r, uint64_t place) {
    const uint64_t at = place + r.r_offset;
    expect(r.r_offset <= out_.size() && at + 4 <= out_.size(), "a reference outside its section");
    const uint64_t to = address_of(object_.symbol(relocations, ELF64_R_SYM(r.r_info))) +
                        static_cast<uint64_t>(r.r_addend);
    const uint64_t type = ELF64_R_TYPE(r.r_info);
    uint32_t word = 0;
    std::memcpy(&word, out_.data() + at, sizeof word);
    word = object_.machine() == EM_X86_64 ? distance(type, at, to) : filled_in(word, type, at, to);
    std::memcpy(out_.data() + at, &word, sizeof word);
  }

  static uint32_t distance(uint64_t type, uint64_t at, uint64_t to) {
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
      fail(ErrorCode::unsupported, "kernel object: a reference of type {}", type);
    const auto distance = static_cast<int64_t>(to - at);
    expect(distance == static_cast<int32_t>(distance), "a distance beyond 32 bits");
    return static_cast<uint32_t>(distance);
  }

  std::string& out_;
  const ObjectFile object_;
  std::unordered_map<uint64_t, uint64_t> places_;  // of sections, by number
};

}  // namespace

uint64_t link(std::string& out, std::string_view object) { return Linker(out, object).link(); }

}  // namespace hologram::cpu
