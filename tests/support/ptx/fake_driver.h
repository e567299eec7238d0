// tests/support/ptx/fake_driver.h: what the fake libcuda offers beside the driver's functions.
//
// The library is opened at run time, as the driver is; tests find these two in it by dlsym.
#pragma once

#include <cstdint>

extern "C" {

/// Makes the driver say or do something from now on; all of it ends with what = "nothing".
///   "init"        cuInit returns `value`
///   "version"     cuDriverGetVersion says `value`
///   "devices"     so many are found
///   "capability"  of the device, 75 for 7.5
///   "allocate"    the allocation behind `value` others has no memory
///   "launch"      the launch behind `value` others fails
///   "kernel"      the kernel behind `value` others fails when it runs
void fakecuda_inject(const char* what, int64_t value);

/// "launches", "waits" (for a stream), "cubins" (that were loaded), "instructions" (of warps) or
/// "blocks" (of memory that live).
int64_t fakecuda_count(const char* what);
}
