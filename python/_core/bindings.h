// python/_core/bindings.h: the parts of the native module.
#pragma once

#include <nanobind/nanobind.h>

#include "base/expr.h"

namespace hologram::python {

void bind_graph(nanobind::module_& m);
void bind_executable(nanobind::module_& m);
void bind_trace(nanobind::module_& m);
void bind_torch_call(nanobind::module_& m);
void bind_device_tensors(nanobind::module_& m);
void bind_device_operators(nanobind::module_& m);
void bind_sigmatics(nanobind::module_& m);
void bind_atlas(nanobind::module_& m);
void bind_step_loop(nanobind::module_& m);
void bind_freeze_guard(nanobind::module_& m);
void bind_draws(nanobind::module_& m);
void bind_sdk(nanobind::module_& m);
void bind_array_call(nanobind::module_& m);
void bind_archive(nanobind::module_& m);

void bind_settings(nanobind::module_& m);

/// Logs the notices that wait, by the logger "hologram".
void tell_notices();

/// Numbers and expressions as sizes.
Shape to_shape(nanobind::handle list);

}  // namespace hologram::python
