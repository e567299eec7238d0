// backend/webgpu/kernel.cpp: shader modules and pipelines.
#include "backend/webgpu/kernel.h"

#include <map>
#include <mutex>
#include <utility>

namespace hologram::webgpu {

Pipelines::Pipelines(const DeviceContext& device, const wgsl::Module& module, bool fused)
    : device_(device) {
  const Api& api = device.api;
  const std::string text = device.subgroups ? wgsl::with_subgroups(module.text) : module.text;
  device.checked("compiling WGSL", [&] {
    WgslSource source;
    source.code = text_of(text);
    ShaderDescriptor wanted;
    wanted.next = &source.chain;
    shader_ = api.DeviceCreateShaderModule(device.gpu, &wanted);
  });
  for (const wgsl::Dispatch& d : module.dispatches)
    device.checked("making a pipeline", [&] {
      PipelineDescriptor wanted;
      wanted.compute.module = shader_;
      wanted.compute.entry = text_of(d.entry);
      Constant constant;
      constant.name = text_of("has_fma");
      constant.value = fused ? 1 : 0;
      wanted.compute.num_constants = d.asks_for_fma ? 1 : 0;
      wanted.compute.constants = &constant;
      const Pipeline made = api.DeviceCreateComputePipeline(device.gpu, &wanted);
      each.push_back({made, api.ComputePipelineGetBindGroupLayout(made, 0)});
    });
}

Pipelines::~Pipelines() {
  for (const Each& e : each) {
    if (e.layout) device_.api.BindGroupLayoutRelease(e.layout);
    if (e.pipeline) device_.api.ComputePipelineRelease(e.pipeline);
  }
  if (shader_) device_.api.ShaderModuleRelease(shader_);
}

std::shared_ptr<const Pipelines> pipelines_of(const DeviceContext& device,
                                              const wgsl::Module& module, bool fused) {
  using Key = std::pair<const DeviceContext*, std::string>;
  static std::mutex mutex;
  static auto* const made = new std::map<Key, std::weak_ptr<const Pipelines>>;
  {
    std::lock_guard lock(mutex);
    const auto at = made->find({&device, module.text});
    if (at != made->end())
      if (auto there = at->second.lock()) return there;
  }
  auto fresh =
      std::make_shared<const Pipelines>(device, module, fused);  // beside those of other threads
  std::lock_guard lock(mutex);
  std::erase_if(*made, [](const auto& kept) { return kept.second.expired(); });
  auto& slot = (*made)[{&device, module.text}];
  if (auto there = slot.lock()) return there;
  slot = fresh;
  return fresh;
}

}  // namespace hologram::webgpu
