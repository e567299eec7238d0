// backend/cpu/image.cpp: objects laid out as code that runs wherever it lies.
//
// A kernel's references are distances within its own object (R_X86_64_PC32), so that sections
// side by side and four bytes filled in for each reference are all there is to link.
#include "backend/cpu/image.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "backend/cpu/entry.h"
#include "backend/cpu/units.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using namespace llvm::object;

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
    const auto* elf = llvm::dyn_cast<ELFObjectFileBase>(object_.get());
    if (!elf || elf->getEMachine() != llvm::ELF::EM_X86_64)
      fail(ErrorCode::unsupported, "only code for x86-64 can leave the process");
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
    if (!(section.getFlags() & llvm::ELF::SHF_ALLOC) || s.getSize() == 0) return;
    if (section.getType() == llvm::ELF::SHT_X86_64_UNWIND || checked(s.getName()) == ".eh_frame")
      return;
    if ((section.getFlags() & llvm::ELF::SHF_WRITE) || s.isBSS())
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
    if (r.getType() != llvm::ELF::R_X86_64_PC32 && r.getType() != llvm::ELF::R_X86_64_PLT32)
      fail(ErrorCode::unsupported, "kernel object: a reference of type {}", r.getType());
    const uint64_t at = place + r.getOffset();
    check(at + 4 <= out_.size(), "lay_out: a reference outside its section");
    const auto distance = static_cast<int64_t>(address_of(*r.getSymbol())) +
                          checked(ELFRelocationRef(r).getAddend()) - static_cast<int64_t>(at);
    const auto value = static_cast<int32_t>(distance);
    check(value == distance, "lay_out: a distance beyond 32 bits");
    std::memcpy(out_.data() + at, &value, sizeof value);
  }

  std::string& out_;
  std::unique_ptr<ObjectFile> object_;
  std::unordered_map<uint64_t, uint64_t> places_;  // of sections, by index
};

}  // namespace

CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> stored,
                  std::span<const atlas::EntryStep> steps, const Target& target) {
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
