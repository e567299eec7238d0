// emulator/fake_graphs.cpp: graphs and captures of the fake libcuda.
#include <random>
#include <set>
#include <span>

#include "backend/cuda/driver.h"
#include "emulator/fake_driver.h"
#include "emulator/fake_kernels.h"

using namespace fakecuda;

namespace {

KernelWork kernel_work(const hologram::cuda::CuKernelNode& n) {
  return fakecuda::kernel_work(*reinterpret_cast<const Function*>(n.function),
                               {n.grid[0], n.grid[1], n.grid[2]},
                               {n.block[0], n.block[1], n.block[2]}, n.parameters, n.shared_bytes);
}
// The nodes in an order left to chance in which each is behind those that it follows.
std::vector<const Node*> any_order(const GraphExec& exec) {
  static std::minstd_rand chance;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::vector<const Node*> order;
  std::set<const Node*> done;
  while (order.size() < exec.nodes.size()) {
    std::vector<const Node*> ready;
    for (const auto& [key, node] : exec.nodes)
      if (!done.contains(key) &&
          std::ranges::all_of(node.after, [&](const Node* n) { return done.contains(n); }))
        ready.push_back(key);
    const Node* next = ready[chance() % ready.size()];
    done.insert(next);
    order.push_back(next);
  }
  return order;
}

}  // namespace

EXPORT cuStreamIsCapturing(Stream* stream, int* status) {
  *status = !stream || !stream->capture ? 0 : stream->spoilt ? 2 : 1;
  return success;
}
EXPORT cuStreamBeginCapture_v2(Stream* stream, int) {
  begin_capture(stream);
  return success;
}
EXPORT cuStreamEndCapture(Stream* stream, Graph** graph) {
  *graph = end_capture(stream);
  return *graph ? success : capture_invalidated;
}
extern "C" __attribute__((visibility("default"))) void fakecuda_replay(void* graph, void* stream) {
  for (const Queues::Work& work : static_cast<Graph*>(graph)->captured)
    push(static_cast<Stream*>(stream), work);
}

EXPORT cuGraphCreate(Graph** graph, unsigned) {
  *graph = new Graph;
  return success;
}
EXPORT cuGraphDestroy(Graph* graph) {
  delete graph;
  return success;
}
EXPORT cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const* after, size_t num_after,
                               const hologram::cuda::CuKernelNode* kernel) {
  KernelWork work = kernel_work(*kernel);
  if (const int no = misfit(work.kernel, work.grid, work.block, work.shared_bytes)) return no;
  std::vector<const Node*> kept;
  for (const Node* n : std::span(after, num_after))
    if (!common().strikes("edge")) kept.push_back(n);
  common().edges += static_cast<int64_t>(kept.size());
  common().roots += num_after == 0;
  graph->nodes.push_back(std::make_unique<Node>(Node{std::move(kept), std::move(work)}));
  *node = graph->nodes.back().get();
  return success;
}
EXPORT cuGraphInstantiateWithFlags(GraphExec** exec, Graph* graph, unsigned long long) {
  if (const int no = refused(current())) return no;
  if (common().strikes("instantiate")) return out_of_memory;
  if (const int no = forbidden_in_captures()) return no;
  auto made = std::make_unique<GraphExec>();
  for (const auto& node : graph->nodes) made->nodes.emplace(node.get(), *node);
  *exec = made.release();
  return success;
}
EXPORT cuGraphExecDestroy(GraphExec* exec) {
  delete exec;
  return success;
}
EXPORT cuGraphExecKernelNodeSetParams_v2(GraphExec* exec, Node* node,
                                         const hologram::cuda::CuKernelNode* kernel) {
  auto place = exec->nodes.find(node);
  if (place == exec->nodes.end() || common().strikes("patch")) return invalid_value;
  place->second.work = kernel_work(*kernel);
  ++common().patches;
  return success;
}
EXPORT cuGraphLaunch(GraphExec* exec, Stream* stream) {
  if (const int no = refused(current())) return no;
  if (common().strikes("graph")) return out_of_memory;
  Device* d = device_of(stream);
  if (!d || current() != d) return invalid_context;
  ++common().graphs;
  for (const Node* node : any_order(*exec))
    if (const int pushed = push(stream, work_of(d, exec->nodes.at(node).work))) return pushed;
  return success;
}
