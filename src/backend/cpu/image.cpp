// backend/cpu/image.cpp: objects laid out as code that runs wherever it lies.
//
// A kernel's references are distances within its own object (R_X86_64_PC32; on AArch64 distances of
// pages, and places in a page), so that sections side by side and four bytes filled in for each
// reference are all there is to link.
#include "backend/cpu/image.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "backend/cpu/entry.h"
#include "backend/cpu/units.h"
#include "backend/cpu/wasm_image.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using namespace llvm::object;

namespace elf = llvm::ELF;

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
    check(in_page % (uint64_t{1} << shift) == 0, "lay_out: a reference that is not aligned");
    return with_field(instruction, 10, 12, in_page >> shift);
  };
  switch (type) {
    case elf::R_AARCH64_ADR_PREL_PG_HI21:
      check(pages + (1 << 20) < (2 << 20), "lay_out: a distance beyond 33 bits");
      return with_field(with_field(instruction, 29, 2, pages), 5, 19, pages >> 2);
    case elf::R_AARCH64_ADD_ABS_LO12_NC:
    case elf::R_AARCH64_LDST8_ABS_LO12_NC:
      return field(0);
    case elf::R_AARCH64_LDST16_ABS_LO12_NC:
      return field(1);
    case elf::R_AARCH64_LDST32_ABS_LO12_NC:
      return field(2);
    case elf::R_AARCH64_LDST64_ABS_LO12_NC:
      return field(3);
    case elf::R_AARCH64_LDST128_ABS_LO12_NC:
      return field(4);
  }
  fail(ErrorCode::unsupported, "kernel object: a reference of type {}", type);
}

template <class T>
T checked(llvm::Expected<T> value) {
  if (!value) fail(ErrorCode::corrupt, "kernel object: {}", llvm::toString(value.takeError()));
  return std::move(*value);
}

/// Lays one object behind the bytes that are there.
class Linker {
 public:
  Linker(std::string& out, std::string_view code)
      : out_(out),
        object_(checked(ObjectFile::createObjectFile(
            llvm::MemoryBufferRef(llvm::StringRef(code.data(), code.size()), "kernel")))) {
    const auto* file = llvm::dyn_cast<ELFObjectFileBase>(object_.get());
    if (file) machine_ = file->getEMachine();
    if (machine_ != elf::EM_X86_64 && machine_ != elf::EM_AARCH64)
      fail(ErrorCode::unsupported, "only code for x86-64 and AArch64 can leave the process");
  }

  /// Returns the offset of its function.
  uint64_t link() {
    for (const SectionRef& s : object_->sections()) place(s);
    for (const SectionRef& s : object_->sections()) {
      const section_iterator target = checked(s.getRelocatedSection());
      if (target == object_->section_end()) continue;
      const auto found = places_.find(target->getIndex());
      if (found == places_.end()) continue;
      for (const RelocationRef& r : s.relocations()) relocate(r, found->second);
    }
    for (const SymbolRef& symbol : object_->symbols())
      if (checked(symbol.getName()) == kernel_symbol) return address_of(symbol);
    fail(ErrorCode::corrupt, "kernel object: it has no function {}", kernel_symbol);
  }

 private:
  void place(const SectionRef& s) {
    const ELFSectionRef section(s);
    if (!(section.getFlags() & elf::SHF_ALLOC) || s.getSize() == 0) return;
    if (section.getType() == elf::SHT_X86_64_UNWIND || checked(s.getName()) == ".eh_frame") return;
    if ((section.getFlags() & elf::SHF_WRITE) || s.isBSS())
      fail(ErrorCode::unsupported, "kernel object: it has data that can be written");
    const uint64_t alignment = std::max<uint64_t>(s.getAlignment().value(), 64);
    out_.resize((out_.size() + alignment - 1) / alignment * alignment, '\0');
    places_[s.getIndex()] = out_.size();
    out_ += checked(s.getContents()).str();
  }

  uint64_t address_of(const SymbolRef& symbol) const {
    const section_iterator section = checked(symbol.getSection());
    const auto found =
        section == object_->section_end() ? places_.end() : places_.find(section->getIndex());
    if (found == places_.end())
      fail(ErrorCode::unsupported, "kernel object: it refers to something outside");
    return found->second + checked(symbol.getValue());
  }

  void relocate(const RelocationRef& r, uint64_t place) {
    const uint64_t at = place + r.getOffset();
    check(at + 4 <= out_.size(), "lay_out: a reference outside its section");
    const auto to = address_of(*r.getSymbol()) +
                    static_cast<uint64_t>(checked(ELFRelocationRef(r).getAddend()));
    uint32_t word = 0;
    std::memcpy(&word, out_.data() + at, sizeof word);
    word = machine_ == elf::EM_X86_64 ? distance(r.getType(), at, to)
                                      : filled_in(word, r.getType(), at, to);
    std::memcpy(out_.data() + at, &word, sizeof word);
  }

  static uint32_t distance(uint64_t type, uint64_t at, uint64_t to) {
    if (type != elf::R_X86_64_PC32 && type != elf::R_X86_64_PLT32)
      fail(ErrorCode::unsupported, "kernel object: a reference of type {}", type);
    const auto distance = static_cast<int64_t>(to - at);
    check(distance == static_cast<int32_t>(distance), "lay_out: a distance beyond 32 bits");
    return static_cast<uint32_t>(distance);
  }

  std::string& out_;
  std::unique_ptr<ObjectFile> object_;
  uint16_t machine_ = elf::EM_NONE;
  std::unordered_map<uint64_t, uint64_t> places_;  // of sections, by index
};

}  // namespace

CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> stored,
                  std::span<const atlas::EntryStep> steps, const Target& target) {
  if (target.isa == Isa::wasm) return lay_out_module(programs, stored, steps, target);
  CodeImage image;
  for (size_t i = 0; i < programs.size(); ++i) {
    StoredObject object = from_stored(stored[i], programs[i].num_symbols);
    image.kernels.push_back({Linker(image.bytes, object.code).link(),
                             std::move(object.launch.total), std::move(object.launch.grain),
                             std::move(object.launch.unit_work)});
  }
  const std::string entry = compile_entry(steps, target);
  image.run_all = Linker(image.bytes, entry).link();
  return image;
}

}  // namespace hologram::cpu
