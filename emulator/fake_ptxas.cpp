// emulator/fake_ptxas.cpp: stands in for ptxas where the fake driver stands in for libcuda
//
// usage: fake_ptxas --version
//        fake_ptxas -arch=GPU IN.ptx -o OUT.cubin
//
// Its cubins are PTX in an envelope that the fake driver opens (fake_cubin.h). FAKE_PTXAS_VERSION
// is the version it says, 12.4.131 by default; with FAKE_PTXAS_FAILS it refuses all PTX, with
// FAKE_PTXAS_BREAKS its cubins are not what the driver takes, with FAKE_PTXAS_SPOILS products from
// registers read one of these twice. Each PTX that it reads adds a line to
// the file FAKE_PTXAS_LOG.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "emulator/fake_cubin.h"

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    const char* version = std::getenv("FAKE_PTXAS_VERSION");
    std::printf("fake tools, release 0.0, V%s\n", version ? version : "12.4.131");
    return 0;
  }
  if (argc != 5 || std::strncmp(argv[1], "-arch=", 6) != 0 || std::strcmp(argv[3], "-o") != 0) {
    std::fprintf(stderr, "fake_ptxas: arguments\n");
    return 2;
  }
  if (const char* log = std::getenv("FAKE_PTXAS_LOG"))
    std::ofstream(log, std::ios::app) << argv[1] << "\n";
  if (std::getenv("FAKE_PTXAS_FAILS")) {
    std::fprintf(stderr, "fake_ptxas: error: refused\n");
    return 1;
  }
  std::ifstream in(argv[2], std::ios::binary);
  std::string ptx((std::istreambuf_iterator<char>(in)), {});
  if (std::getenv("FAKE_PTXAS_SPOILS"))
    ptx = std::regex_replace(
        ptx, std::regex("\\}, \\{(%r[0-9]+), (%r[0-9]+), (%r[0-9]+), (%r[0-9]+)\\}, %rd"),
        "}, {$2, $2, $3, $4}, %rd");
  std::string cubin = ptx::to_fake_cubin(argv[1] + 6, ptx);
  if (std::getenv("FAKE_PTXAS_BREAKS")) cubin.back() ^= 1;
  std::ofstream out(argv[4], std::ios::binary);
  out << cubin;
  return out.flush() ? 0 : 1;
}
