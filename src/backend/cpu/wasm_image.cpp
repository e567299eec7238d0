// backend/cpu/wasm_image.cpp: kernels for WebAssembly as one module beside the runtime's.
//
// Objects of LLVM are modules whose numbers of functions, types and globals, and whose places in
// the data, are filled in by a linker (github.com/WebAssembly/tool-conventions, Linking.md): five
// bytes for each, whatever the number.
#include "backend/cpu/wasm_image.h"

#include <llvm/BinaryFormat/Wasm.h>
#include <llvm/Object/Wasm.h>

#include <algorithm>
#include <array>
#include <vector>

#include "backend/cpu/entry.h"
#include "backend/cpu/units.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using namespace llvm::object;

namespace wasm = llvm::wasm;

// In the order of their numbers.
constexpr std::array<std::string_view, 4> called = {"__multi3", "__ashlti3", "__lshrti3",
                                                    "__ashrti3"};
constexpr std::array<std::string_view, 2> globals = {"__stack_pointer", "__memory_base"};
constexpr std::string_view table = "__indirect_function_table";

template <size_t n>
int number_in(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

void put(std::string& out, uint64_t n) {
  do {
    out += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
  } while (n >>= 7);
}

void put(std::string& out, std::string_view text) {
  put(out, text.size());
  out += text;
}

/// A number in the five bytes at `at`.
void fill_in(std::string& out, size_t at, uint64_t n) {
  check(at + 5 <= out.size(), "lay_out_module: a reference outside its section");
  for (size_t i = 0; i < 5; ++i)
    out[at + i] = static_cast<char>(((n >> 7 * i) & 127) | (i < 4 ? 128 : 0));
}

std::string types_of(std::span<const wasm::ValType> types) {
  std::string out;
  put(out, types.size());
  for (const wasm::ValType t : types) out += static_cast<char>(t);
  return out;
}

class ModuleWriter {
 public:
  ModuleWriter() {
    using enum wasm::ValType;
    for (const std::string_view name : called)
      number_of_type(name == "__multi3" ? wasm::WasmSignature({}, {I32, I64, I64, I64, I64})
                                        : wasm::WasmSignature({}, {I32, I64, I64, I32}));
  }

  /// Returns the number by which the object's function is exported.
  uint64_t add(std::string_view code) {
    auto file = ObjectFile::createWasmObjectFile(
        llvm::MemoryBufferRef(llvm::StringRef(code.data(), code.size()), "kernel"));
    if (!file) fail(ErrorCode::corrupt, "kernel object: {}", llvm::toString(file.takeError()));
    return add(**file);
  }

  std::string finish() const {
    std::string out("\0asm\1\0\0\0", 8);
    std::string own;  // what the loader has to find memory for
    own += static_cast<char>(wasm::WASM_DYLINK_MEM_INFO);
    std::string sizes;
    put(sizes, data_.size());
    put(sizes, 6);  // aligned to 2^6
    put(sizes, 0);
    put(sizes, 0);
    put(own, sizes);
    std::string named;
    put(named, std::string_view("dylink.0"));
    section(out, wasm::WASM_SEC_CUSTOM, named + own);
    section(out, wasm::WASM_SEC_TYPE, counted(types_));
    section(out, wasm::WASM_SEC_IMPORT, imports());
    section(out, wasm::WASM_SEC_FUNCTION, counted(functions_));
    section(out, wasm::WASM_SEC_EXPORT, exports());
    std::string code;
    put(code, functions_.size());
    section(out, wasm::WASM_SEC_CODE, code + bodies_);
    if (!data_.empty()) section(out, wasm::WASM_SEC_DATA, data());
    return out;
  }

 private:
  uint64_t add(const WasmObjectFile& object) {
    std::vector<const WasmSymbol*> symbols;
    for (const SymbolRef& s : object.symbols()) symbols.push_back(&object.getWasmSymbol(s));
    const size_t first = functions_.size();
    const uint32_t imported = object.getNumImportedFunctions();
    for (const wasm::WasmFunction& f : object.functions()) {
      std::string type;
      put(type, number_of_type(object.types()[f.SigIndex]));
      functions_.push_back(type);
    }
    const std::vector<size_t> places = place_data(object);
    const auto function = [&](const WasmSymbol& s) -> uint64_t {
      if (s.isDefined()) return called.size() + first + (s.Info.ElementIndex - imported);
      const int number = number_in(called, s.Info.Name);
      if (number < 0) refuse(s.Info.Name);
      return static_cast<uint64_t>(number);
    };
    for (const SectionRef& s : object.sections()) {
      const WasmSection& section = object.getWasmSection(s);
      if (section.Type == wasm::WASM_SEC_DATA && !section.Relocations.empty())
        fail(ErrorCode::unsupported, "kernel object: its data hold addresses");
      if (section.Type != wasm::WASM_SEC_CODE) continue;
      std::string bodies(section.Content.begin(), section.Content.end());
      for (const wasm::WasmRelocation& r : section.Relocations)
        fill_in(bodies, r.Offset, value_of(r, object, symbols, places, function));
      size_t count = 0;  // bytes of the number of bodies
      while (bodies[count++] & 128) {
      }
      bodies_ += bodies.substr(count);
    }
    for (const WasmSymbol* s : symbols)
      if (s->isTypeFunction() && s->isDefined() && s->Info.Name == kernel_symbol) {
        exported_.push_back(function(*s));
        return exported_.size() - 1;
      }
    fail(ErrorCode::corrupt, "kernel object: it has no function {}", kernel_symbol);
  }

  template <class Function>
  uint64_t value_of(const wasm::WasmRelocation& r, const WasmObjectFile& object,
                    const std::vector<const WasmSymbol*>& symbols,
                    const std::vector<size_t>& places, const Function& function) {
    if (r.Type == wasm::R_WASM_TYPE_INDEX_LEB) return number_of_type(object.types()[r.Index]);
    const WasmSymbol& s = *symbols[r.Index];
    switch (r.Type) {
      case wasm::R_WASM_FUNCTION_INDEX_LEB:
        return function(s);
      case wasm::R_WASM_GLOBAL_INDEX_LEB:
        if (const int n = number_in(globals, s.Info.Name); n >= 0) return static_cast<uint64_t>(n);
        refuse(s.Info.Name);
      case wasm::R_WASM_TABLE_NUMBER_LEB:
        if (std::string_view(s.Info.Name) == table) return 0;
        refuse(s.Info.Name);
      case wasm::R_WASM_MEMORY_ADDR_REL_SLEB:
        if (s.isDefined())
          return places[s.Info.DataRef.Segment] + s.Info.DataRef.Offset +
                 static_cast<uint64_t>(r.Addend);
        refuse(s.Info.Name);
    }
    fail(ErrorCode::unsupported, "kernel object: a reference of type {}", r.Type);
  }

  [[noreturn]] static void refuse(llvm::StringRef name) {
    fail(ErrorCode::unsupported, "kernel object: it refers to {}, which is outside", name.str());
  }

  std::vector<size_t> place_data(const WasmObjectFile& object) {
    std::vector<size_t> places;
    for (const WasmSegment& s : object.dataSegments()) {
      const size_t alignment = std::max<size_t>(size_t{1} << s.Data.Alignment, 16);
      check(alignment <= 64, "lay_out_module: alignment of data");
      data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
      places.push_back(data_.size());
      data_.append(s.Data.Content.begin(), s.Data.Content.end());
    }
    return places;
  }

  uint64_t number_of_type(const wasm::WasmSignature& s) {
    std::string type = "\x60" + types_of(s.Params) + types_of(s.Returns);
    const auto found = std::ranges::find(types_, type);
    const auto number = static_cast<uint64_t>(found - types_.begin());
    if (found == types_.end()) types_.push_back(std::move(type));
    return number;
  }

  static void section(std::string& out, unsigned kind, std::string_view content) {
    out += static_cast<char>(kind);
    put(out, content);
  }

  static std::string counted(const std::vector<std::string>& list) {
    std::string out;
    put(out, list.size());
    for (const std::string& s : list) out += s;
    return out;
  }

  static std::string imports() {
    std::vector<std::string> list;
    const auto add = [&](std::string_view name, unsigned kind, std::string_view what) {
      std::string one;
      put(one, std::string_view("env"));
      put(one, name);
      list.push_back(one + static_cast<char>(kind) + std::string(what));
    };
    using namespace std::string_view_literals;
    add("memory", wasm::WASM_EXTERNAL_MEMORY, "\0\0"sv);
    add(table, wasm::WASM_EXTERNAL_TABLE, "\x70\0\0"sv);
    add(globals[0], wasm::WASM_EXTERNAL_GLOBAL, "\x7f\1"sv);
    add(globals[1], wasm::WASM_EXTERNAL_GLOBAL, "\x7f\0"sv);
    // The constructor made their types the first two.
    for (const std::string_view name : called)
      add(name, wasm::WASM_EXTERNAL_FUNCTION, name == "__multi3" ? "\0"sv : "\1"sv);
    return counted(list);
  }

  std::string exports() const {
    std::vector<std::string> list;
    for (size_t i = 0; i < exported_.size(); ++i) {
      std::string one;
      put(one, std::to_string(i));
      one += static_cast<char>(wasm::WASM_EXTERNAL_FUNCTION);
      put(one, exported_[i]);
      list.push_back(one);
    }
    return counted(list);
  }

  std::string data() const {
    std::string out;
    put(out, 1);
    put(out, 0);  // at an address: that of the second global
    out += {static_cast<char>(wasm::WASM_OPCODE_GLOBAL_GET), 1,
            static_cast<char>(wasm::WASM_OPCODE_END)};
    put(out, data_);
    return out;
  }

  std::vector<std::string> types_, functions_;  // distinct types; types of functions
  std::vector<uint64_t> exported_;              // numbers of functions
  std::string bodies_, data_;
};

}  // namespace

bool comes_with_modules(std::string_view symbol) {
  return symbol == table || number_in(called, symbol) >= 0 || number_in(globals, symbol) >= 0;
}

CodeImage lay_out_module(std::span<const atlas::Program> programs,
                         std::span<const std::string> stored,
                         std::span<const atlas::EntryStep> steps, const Target& target) {
  CodeImage image;
  ModuleWriter module;
  for (size_t i = 0; i < programs.size(); ++i) {
    StoredObject object = from_stored(stored[i], programs[i].num_symbols);
    image.kernels.push_back({module.add(object.code), std::move(object.launch.total),
                             std::move(object.launch.grain), std::move(object.launch.unit_work)});
  }
  image.run_all = module.add(compile_entry(steps, target));
  image.bytes = module.finish();
  return image;
}

}  // namespace hologram::cpu
