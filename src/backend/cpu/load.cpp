// backend/cpu/load.cpp: objects into executable memory, by JITLink without a session.
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Shared/MemoryFlags.h>

#include "backend/cpu/load.h"
#include "backend/cpu/target.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using namespace llvm::jitlink;

constexpr uint64_t page_bytes = 4096;

// Every kernel keeps the manager alive: kernels that static objects hold are freed after it would
// be.
std::shared_ptr<InProcessMemoryManager> memory_manager() {
  static auto manager = std::make_shared<InProcessMemoryManager>(page_bytes);
  return manager;
}

class Loaded final : public LoadedKernel {
 public:
  ~Loaded() override {
    if (allocation) llvm::consumeError(manager->deallocate(std::move(allocation)));
  }
  std::shared_ptr<InProcessMemoryManager> manager = memory_manager();
  JITLinkMemoryManager::FinalizedAlloc allocation;
};

// Links one object synchronously; it may not need any other.
class Link final : public JITLinkContext {
 public:
  Link(Loaded& loaded, std::string& error)
      : JITLinkContext(nullptr), loaded_(loaded), error_(error) {}

  JITLinkMemoryManager& getMemoryManager() override { return *loaded_.manager; }
  void notifyFailed(llvm::Error e) override { error_ = llvm::toString(std::move(e)); }
  void lookup(const LookupMap& names,
              std::unique_ptr<JITLinkAsyncLookupContinuation> then) override {
    std::string first = names.empty() ? "" : names.begin()->first.str();
    then->run(llvm::createStringError("the object needs the symbol " + first));
  }
  llvm::Error notifyResolved(LinkGraph& graph) override {
    for (Symbol* s : graph.defined_symbols())
      if (s->hasName() && s->getName() == kernel_symbol)
        loaded_.function = s->getAddress().toPtr<atlas::KernelFn>();
    auto sizes = BasicLayout(graph).getContiguousPageBasedLayoutSizes(page_bytes);
    if (!sizes) return sizes.takeError();
    loaded_.bytes = sizes->StandardSegs;
    return llvm::Error::success();
  }
  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc a) override {
    loaded_.allocation = std::move(a);
  }
  bool shouldAddDefaultTargetPasses(const llvm::Triple&) const override { return false; }
  llvm::Error modifyPassConfig(LinkGraph&, PassConfiguration& passes) override {
    passes.PrePrunePasses.push_back([](LinkGraph& graph) {
      for (Symbol* s : graph.defined_symbols())
        if (s->hasName() && s->getName() == kernel_symbol) s->setLive(true);
      return llvm::Error::success();
    });
    return llvm::Error::success();
  }

 private:
  Loaded& loaded_;
  std::string& error_;
};

}  // namespace

std::shared_ptr<LoadedKernel> load(std::string_view object) {
  auto loaded = std::make_shared<Loaded>();
  std::string error;
  auto graph = createLinkGraphFromObject(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
  if (!graph) fail(ErrorCode::corrupt, "kernel object: {}", llvm::toString(graph.takeError()));
  link(std::move(*graph), std::make_unique<Link>(*loaded, error));
  if (!error.empty()) fail(ErrorCode::corrupt, "kernel object: {}", error);
  if (!loaded->function)
    fail(ErrorCode::corrupt, "kernel object: it has no function {}", kernel_symbol);
  return loaded;
}

}  // namespace hologram::cpu
