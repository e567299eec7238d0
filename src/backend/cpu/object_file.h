// backend/cpu/object_file.h: reads the relocatable ELF files that kernels are. No LLVM in here.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace hologram::cpu {

/// A view of one. Whatever the bytes say, nothing outside of them is read: Error(corrupt).
class ObjectFile {
 public:
  /// Throws for what is no relocatable file of ELF, of 64 bits in this processor's order.
  explicit ObjectFile(std::string_view bytes);

  uint16_t machine() const { return header_.e_machine; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view name(const Elf64_Shdr& section) const;
  /// Its bytes in the file; a section without any has none.
  std::string_view content(const Elf64_Shdr& section) const;
  /// Of the table that a section of relocations names.
  Elf64_Sym symbol(const Elf64_Shdr& relocations, uint64_t number) const;
  /// Of all tables of symbols. The first of this name; throws where there is none.
  Elf64_Sym symbol(std::string_view name) const;

  /// Entry `number` of a table.
  template <class T>
  T entry(const Elf64_Shdr& table, uint64_t number) const {
    return read<T>(content(table), number * sizeof(T));
  }

 private:
  static std::string_view part(std::string_view bytes, uint64_t offset, uint64_t size);
  template <class T>
  static T read(std::string_view bytes, uint64_t offset) {
    T out;
    std::memcpy(&out, part(bytes, offset, sizeof(T)).data(), sizeof(T));
    return out;
  }
  const Elf64_Shdr& section(uint64_t number) const;
  std::string_view text(const Elf64_Shdr& strings, uint64_t offset) const;

  std::string_view bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace hologram::cpu
