// backend/cuda/graph.cpp: a run of launches as one of the driver's graphs.
#include "backend/cuda/graph.h"

namespace hologram::cuda {
namespace {

std::vector<void*> addresses(std::vector<uint64_t>& words) {
  std::vector<void*> out;
  for (uint64_t& w : words) out.push_back(&w);
  return out;
}

CuKernelNode node_of(const Launch& l, std::vector<void*>& parameters) {
  CuKernelNode n{};
  n.function = l.function;
  n.grid[0] = l.ctas;
  n.block[0] = l.threads;
  n.grid[1] = n.grid[2] = n.block[1] = n.block[2] = 1;
  n.parameters = parameters.data();
  return n;
}

}  // namespace

CuResult Launch::start(const Driver& driver, CuStream stream) {
  std::vector<void*> parameters = addresses(words);
  return driver.launch(function, ctas, 1, 1, threads, 1, 1, 0, stream, parameters.data(), nullptr);
}

LaunchGraph::~LaunchGraph() {
  if (!exec_ && !graph_) return;
  const Current here(device_, std::nothrow);
  if (!here.ok()) return;
  if (exec_) device_.driver.free_exec(exec_);
  if (graph_) device_.driver.free_graph(graph_);
}

// A chain: each launch behind the one before it, as on a stream.
CuResult LaunchGraph::make(std::span<Launch> launches) {
  const Driver& d = device_.driver;
  if (const CuResult made = d.make_graph(&graph_, 0); made != cu_success) return made;
  for (Launch& l : launches) {
    std::vector<void*> parameters = addresses(l.words);
    const CuKernelNode kernel = node_of(l, parameters);
    CuGraphNode node = nullptr;
    const CuResult added = d.add_kernel(&node, graph_, nodes_.empty() ? nullptr : &nodes_.back(),
                                        nodes_.empty() ? 0 : 1, &kernel);
    if (added != cu_success) return added;
    nodes_.push_back(node);
    words_.push_back(l.words);
  }
  return d.instantiate(&exec_, graph_, 0);
}

// What has started already keeps the words that it had.
CuResult LaunchGraph::patch(std::span<Launch> launches) {
  for (size_t k = 0; k < launches.size(); ++k) {
    if (launches[k].words == words_[k]) continue;
    std::vector<void*> parameters = addresses(launches[k].words);
    const CuKernelNode kernel = node_of(launches[k], parameters);
    const CuResult set = device_.driver.set_kernel(exec_, nodes_[k], &kernel);
    if (set != cu_success) return set;
    words_[k] = launches[k].words;
  }
  return cu_success;
}

CuResult LaunchGraph::start(std::span<Launch> launches, CuStream stream) {
  const CuResult ready = exec_ ? patch(launches) : make(launches);
  return ready == cu_success ? device_.driver.launch_graph(exec_, stream) : ready;
}

}  // namespace hologram::cuda
