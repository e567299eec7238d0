// emulator/fake_driver.h: what the fake libcuda offers beside the driver's functions.
//
// The library is opened at run time, as the driver is; tests find these two in it by dlsym.
#pragma once

#include <cstdint>

extern "C" {

/// Makes the driver say or do something from now on; all of it ends with what = "nothing".
///   "init"        cuInit returns `value`
///   "version"     cuDriverGetVersion says `value`
///   "pools"       whether devices have memory pools
///   "devices"     so many are found, 1 or 2
///   "capability"  of the devices, 75 for 7.5; "capability1" of the second alone
///   "pin", "instantiate", "patch", "graph"   of the calls that pin memory, make a graph, change a
///                 node of one, or start one, the one behind `value` others fails
///   "edge"        graphs leave out the edge between two nodes behind `value` others
///   "allocate"    the allocation behind `value` others has no memory
///   "launch"      the launch behind `value` others fails
///   "load"        loading machine code gives the error `value`
///   "map"         tensor maps are refused, if `value` is not 0
///   "kernel"      the kernel behind `value` others fails when it runs: the device's context is
///                 broken, and all calls fail
///   "context"     devices whose context is broken get a new one; so they do by "nothing"
void fakecuda_inject(const char* what, int64_t value);

/// "waits" (for a stream), "cubins" (that were loaded), "graphs" (that were started), "patches" (of
/// their nodes), "edges" (between them, ever), "roots" (nodes without one that they wait for,
/// ever), "maps" (tensor maps that were encoded), "modules" (loaded now), "pinned" (blocks, ever),
/// "allocations" (of device memory, ever) or "bytes to hosts", "bytes to devices", "bytes within
/// devices" (that copies took); "reserved" (bytes that the pools hold), "grown" (how often they
/// took some), "launches", "instructions" (of warps) or "blocks" (of memory that live), of a device
/// with its number behind, else of both.
int64_t fakecuda_count(const char* what);

/// Puts the work that cuStreamEndCapture gave on a stream, as often as it is called.
void fakecuda_replay(void* graph, void* stream);
}
