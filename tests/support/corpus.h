// tests/support/corpus.h: the programs of tests/conformance/corpus, by name.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "atlas/program.h"
#include "support/paths.h"

namespace hologram::test {

inline std::map<std::string, atlas::Program> corpus() {
  std::map<std::string, atlas::Program> out;
  for (const auto& file : std::filesystem::directory_iterator(source_file("tests/conformance/corpus"))) {
    std::ifstream in(file.path());
    std::ostringstream text;
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("#")) text << line << "\n";
    out[file.path().stem().string()] = atlas::assemble(text.str());
  }
  return out;
}

}  // namespace hologram::test
