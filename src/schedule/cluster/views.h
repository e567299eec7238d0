// schedule/cluster/views.h: what values are views of, and how these run through memory.
#pragma once

#include "schedule/machine.h"
#include "schedule/plan.h"

namespace hologram::schedule {

/// Movement that reads one operand and adds nothing of its own.
bool is_view(ir::Value v);
ir::Value below_views(ir::Value v);

/// A value's bits read as another type and back: what stands behind is computed from the value as it
/// lies in memory, in kernels of its own, although the same may have been computed beside it.
bool is_fence(ir::Value v);

/// What the last window among the views above v's elements is taken of; null if there is none.
ir::Value windowed(ir::Value v);

/// The last axis of v that has more than one element.
int last_axis(ir::Value v);

/// Whether v, a view of a parameter, runs along that parameter's memory by its axis `along`.
bool runs_along_memory(ir::Value v, int along);

/// The image [n, pixels…, channels] that v, a view of the parameter [n, channels, pixels…] whose
/// channels lie apart in memory, is taken of; nullptr if it is none.
ir::Value turned_image(ir::Value v);

/// Whether the matrix v, a view, is one in its operand's memory too: its coordinates have strides.
bool is_strided(ir::Value v);

/// Whether the matrix v is whole rows of another tensor, taken by their numbers: a product that
/// copies blocks of rows finds them wherever they lie. Few rows are read in place.
bool takes_rows(ir::Value v, const Machine& machine);

/// An image with its channels apart in memory that is put together from parts which products
/// compute (a strided convolution's kinds of pixels): what of `v`, above the parts, lies channels
/// last first; nullptr if `v` is none.
ir::Value joined_parts(ir::Value v);

}  // namespace hologram::schedule
