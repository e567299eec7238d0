// backend/cpu/object_file.cpp: reads the relocatable ELF files that kernels are.
#include "backend/cpu/object_file.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace hologram::cpu {
namespace {

constexpr unsigned char own_order =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

}  // namespace

ObjectFile::ObjectFile(std::string_view bytes)
    : bytes_(bytes), header_(read<Elf64_Ehdr>(bytes, 0)) {
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
      header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != own_order ||
      header_.e_type != ET_REL || header_.e_shentsize != sizeof(Elf64_Shdr))
    fail(ErrorCode::corrupt, "kernel object: it is no relocatable file of ELF");
  const std::string_view table = part(bytes, header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
  for (size_t i = 0; i < header_.e_shnum; ++i)
    sections_.push_back(read<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr)));
}

std::string_view ObjectFile::part(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset)
    fail(ErrorCode::corrupt, "kernel object: it refers to bytes past its end");
  return bytes.substr(offset, size);
}

const Elf64_Shdr& ObjectFile::section(uint64_t number) const {
  if (number >= sections_.size())
    fail(ErrorCode::corrupt, "kernel object: it has no section {}", number);
  return sections_[number];
}

std::string_view ObjectFile::text(const Elf64_Shdr& strings, uint64_t offset) const {
  const std::string_view all = content(strings);
  const std::string_view rest = part(all, offset, all.size() - std::min(offset, all.size()));
  return rest.substr(0, rest.find('\0'));
}

std::string_view ObjectFile::name(const Elf64_Shdr& of) const {
  return text(section(header_.e_shstrndx), of.sh_name);
}

std::string_view ObjectFile::content(const Elf64_Shdr& of) const {
  return of.sh_type == SHT_NOBITS ? std::string_view() : part(bytes_, of.sh_offset, of.sh_size);
}

Elf64_Sym ObjectFile::symbol(const Elf64_Shdr& relocations, uint64_t number) const {
  return entry<Elf64_Sym>(section(relocations.sh_link), number);
}

Elf64_Sym ObjectFile::symbol(std::string_view wanted) const {
  for (const Elf64_Shdr& table : sections_) {
    if (table.sh_type != SHT_SYMTAB) continue;
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto found = entry<Elf64_Sym>(table, i);
      if (text(section(table.sh_link), found.st_name) == wanted) return found;
    }
  }
  fail(ErrorCode::corrupt, "kernel object: it has no function {}", wanted);
}

}  // namespace hologram::cpu
