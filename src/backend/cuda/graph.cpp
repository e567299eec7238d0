// backend/cuda/graph.cpp: a run of launches as one of the driver's graphs.
#include "backend/cuda/graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace hologram::cuda {
namespace {

std::vector<void*> addresses(Launch& l) {
  std::vector<void*> out;
  for (uint64_t& w : l.words) out.push_back(&w);
  for (CuTensorMap& m : l.maps) out.push_back(&m);
  return out;
}

CuKernelNode node_of(const Launch& l, std::vector<void*>& parameters) {
  CuKernelNode n{};
  n.function = l.function;
  n.grid[0] = l.ctas;
  n.block[0] = l.threads;
  n.shared_bytes = l.shared_bytes;
  n.grid[1] = n.grid[2] = n.block[1] = n.block[2] = 1;
  n.parameters = parameters.data();
  return n;
}

}  // namespace

std::string Launch::str() const {
  return fmt::format("{} ({} CTAs of {} threads, {} bytes of shared memory)", symbol, ctas, threads,
                     shared_bytes);
}

CuResult Launch::start(const Driver& driver, CuStream stream) {
  std::vector<void*> parameters = addresses(*this);
  return driver.launch(function, ctas, 1, 1, threads, 1, 1, shared_bytes, stream, parameters.data(),
                       nullptr);
}

LaunchGraph::~LaunchGraph() { free(); }

void LaunchGraph::free() {
  if (!exec_ && !graph_) return;
  const Current here(device_, std::nothrow);
  if (!here.ok()) return;
  if (exec_) device_.driver.free_exec(exec_);
  if (graph_) device_.driver.free_graph(graph_);
  exec_ = nullptr;
  graph_ = nullptr;
  nodes_.clear();
  launches_.clear();
}

CuResult LaunchGraph::make(std::span<Launch> launches) {
  const Driver& d = device_.driver;
  order_ = LaunchOrder(launches);
  if (const CuResult made = d.make_graph(&graph_, 0); made != cu_success) return made;
  for (Launch& l : launches) {
    std::vector<void*> parameters = addresses(l);
    const CuKernelNode kernel = node_of(l, parameters);
    CuGraphNode node = nullptr;
    std::vector<CuGraphNode> before;
    for (const size_t b : order_.before(nodes_.size())) before.push_back(nodes_[b]);
    const CuResult added = d.add_kernel(&node, graph_, before.data(), before.size(), &kernel);
    if (added != cu_success) return added;
    nodes_.push_back(node);
    launches_.push_back(l);
  }
  return d.instantiate(&exec_, graph_, 0);
}

// What has started already keeps the words that it had.
CuResult LaunchGraph::patch(std::span<Launch> launches) {
  for (size_t k = 0; k < launches.size(); ++k) {
    if (launches[k].words == launches_[k].words && launches[k].maps == launches_[k].maps) continue;
    std::vector<void*> parameters = addresses(launches[k]);
    const CuKernelNode kernel = node_of(launches[k], parameters);
    const CuResult set = device_.driver.set_kernel(exec_, nodes_[k], &kernel);
    if (set != cu_success) return set;
    launches_[k] = launches[k];
  }
  return cu_success;
}

// Which kernel a step takes may depend on the addresses that it gets; so may who waits for whom,
// where arguments share memory.
bool LaunchGraph::fits(std::span<const Launch> launches) {
  auto like = [](const Launch& a, const Launch& b) { return a.like(b); };
  if (!std::ranges::equal(launches, launches_, like)) return false;
  if (order_.holds(launches)) return true;
  LaunchOrder now(launches);
  if (!now.has_edges_of(order_)) return false;
  order_ = std::move(now);
  return true;
}

CuResult LaunchGraph::start(std::span<Launch> launches, CuStream stream) {
  if (exec_ && !fits(launches)) free();
  const CuResult ready = exec_ ? patch(launches) : make(launches);
  return ready == cu_success ? device_.driver.launch_graph(exec_, stream) : ready;
}

}  // namespace hologram::cuda
