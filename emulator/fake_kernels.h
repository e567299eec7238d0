// emulator/fake_kernels.h: launches and graphs of the fake libcuda, as they are kept until
// they run.
#pragma once

#include "emulator/fake_device.h"

namespace fakecuda {

struct KernelWork {
  Function kernel;
  ptx::Dim3 grid, block;
  std::vector<uint8_t> parameters;
  int64_t shared_bytes = 0;
};

/// A kernel that was added to a graph, behind others.
struct Node {
  std::vector<const Node*> after;
  KernelWork work;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Queues::Work> captured;
};
struct GraphExec {
  std::map<const Node*, Node> nodes;
};

KernelWork kernel_work(const Function& f, ptx::Dim3 grid, ptx::Dim3 block, void** parameters,
                       unsigned shared_bytes);
/// The error of a launch that the device cannot run: of no threads, or with more of them, or more
/// shared memory, than the kernel may have; or 0.
int misfit(const Function& f, ptx::Dim3 grid, ptx::Dim3 block, int64_t shared);
Queues::Work work_of(Device* d, KernelWork work);

}  // namespace fakecuda
