// backend/cuda/assembler.cpp: finding and running ptxas.
#include "backend/cuda/assembler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#endif

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/settings.h"

extern char** environ;

namespace hologram::cuda {
namespace {

namespace fs = std::filesystem;

// A folder of this process alone; goes with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "hologram-XXXXXX").string();
    if (!mkdtemp(name.data()))
      fail(ErrorCode::io, "cuda: no folder for the assembler's files can be made in {}",
           fs::temp_directory_path().string());
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!out.flush()) fail(ErrorCode::io, "cuda: {} cannot be written", path);
}

// Runs a program with its words in a file, not in a pipe: processes that other threads start may
// keep a pipe open. Whether it ended with status 0.
bool run(std::vector<std::string> command, const std::string& words) {
  posix_spawn_file_actions_t files;
  if (posix_spawn_file_actions_init(&files) != 0) return false;
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, words.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int started = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (started != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Folders of Python packages that libraries of this process come from.
std::set<std::string> package_folders() {
  std::set<std::string> folders;
#ifdef __linux__
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* data) {
        const std::string_view path = library->dlpi_name;
        for (const std::string_view part : {"/site-packages/", "/dist-packages/"})
          if (const size_t at = path.rfind(part); at != path.npos)
            static_cast<std::set<std::string>*>(data)->emplace(path.substr(0, at + part.size()));
        return 0;
      },
      &folders);
#endif
  return folders;
}

std::vector<std::string> folders_on_path() {
  std::vector<std::string> folders;
  const std::string path = settings::foreign("PATH");
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

std::vector<std::string> candidates() {
  std::vector<std::string> all;
  for (const std::string& folder : package_folders())
    for (const char* place :
         {"nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas", "triton/backends/nvidia/bin/ptxas",
          "triton/backends/nvidia/bin/ptxas-blackwell"})
      all.push_back(folder + place);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string folder = settings::foreign(name); !folder.empty())
      all.push_back(folder + "/bin/ptxas");
  for (const std::string& folder : folders_on_path()) all.push_back(folder + "/ptxas");
  all.push_back("/usr/local/cuda/bin/ptxas");
  std::set<std::string> known;
  std::erase_if(all, [&](const std::string& path) {
    std::error_code missing;
    const fs::path file = fs::canonical(path, missing);
    return missing || access(path.c_str(), X_OK) != 0 || !known.insert(file.string()).second;
  });
  return all;
}

}  // namespace

// "…, V13.0.88": of what `ptxas --version` prints.
std::optional<Assembler> ask_assembler(const std::string& path) {
  TemporaryFolder folder;
  const std::string words = folder / "words";
  if (!run({path, "--version"}, words)) return std::nullopt;
  const std::string text = read_file(words);
  const size_t at = text.find(", V");
  if (at == text.npos) return std::nullopt;
  Assembler found;
  found.path = path;
  found.version = text.substr(at + 3, text.find_first_not_of("0123456789.", at + 3) - at - 3);
  if (std::sscanf(found.version.c_str(), "%d.%d", &found.major, &found.minor) != 2)
    return std::nullopt;
  return found;
}

std::string gpu_name(int capability) {
  return fmt::format("sm_{}{}", capability, capability == 90 ? "a" : "");
}

// Before 12.0 PTX 8.0 is unknown; up to 12.6.2 wrong code for Hopper is known
// (https://github.com/openxla/xla/pull/19927). Machine code needs a driver of its major version. Of
// those before 13.3 kernels that multiply from registers need a witness (witness.h).
bool serves(const Assembler& a, int capability, int driver_version) {
  if (a.major < 12 || a.major > driver_version / 1000) return false;
  return capability != 90 || a.major > 12 || a.minor > 6;
}

std::optional<Assembler> find_assembler(int capability, int driver_version) {
  const std::string named = settings::text("HOLOGRAM_CUDA_ASSEMBLER").value_or("");
  if (named == "driver") return std::nullopt;
  if (!named.empty()) {
    auto found = ask_assembler(named);
    if (!found)
      fail(ErrorCode::unavailable,
           "HOLOGRAM_CUDA_ASSEMBLER: {} is no ptxas that runs here; expected a path or \"driver\"",
           named);
    return found;
  }
  std::optional<Assembler> best;
  for (const std::string& path : candidates()) {
    auto found = ask_assembler(path);
    if (!found || !serves(*found, capability, driver_version)) continue;
    if (!best || std::pair(found->major, found->minor) > std::pair(best->major, best->minor))
      best = std::move(found);
  }
  return best;
}

Assembled assemble(const Assembler& assembler, std::string_view ptx, int capability) {
  TemporaryFolder folder;
  const std::string in = folder / "kernel.ptx", out = folder / "kernel.cubin",
                    words = folder / "words";
  write_file(in, ptx);
  const bool well = run({assembler.path, "-arch=" + gpu_name(capability), in, "-o", out}, words);
  Assembled made{well ? read_file(out) : std::string(), read_file(words)};
  // Registers that a kernel was promised and does not get: it would spill.
  if (made.words.find("C7504") != made.words.npos) made.cubin.clear();
  return made;
}

std::string disassemble(const Assembler& assembler, std::string_view cubin) {
  std::vector<std::string> places = folders_on_path();
  places.insert(places.begin(), fs::path(assembler.path).parent_path().string());
  TemporaryFolder folder;
  const std::string in = folder / "kernel.cubin", words = folder / "words";
  write_file(in, cubin);
  for (const std::string& place : places) {
    const std::string path = place + "/nvdisasm";
    if (access(path.c_str(), X_OK) != 0) continue;
    if (run({path, in}, words)) return read_file(words);
    fail(ErrorCode::unavailable, "cuda: {} failed: {}", path, read_file(words));
  }
  fail(ErrorCode::unavailable,
       "cuda: there is no nvdisasm beside {} or on PATH to show machine code", assembler.path);
}

}  // namespace hologram::cuda
