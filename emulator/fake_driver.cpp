// emulator/fake_driver.cpp: a libcuda whose device is the PTX machine: devices, contexts,
// streams and events, and what tests ask of it.
#include "emulator/fake_driver.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "emulator/fake_device.h"

using namespace fakecuda;

namespace {

using Event = hologram::null::LateEvent;

int devices() { return static_cast<int>(common().injected("devices", 1)); }

// What a wait found, or what broke the context before. The pool gives back what it does not keep.
int waited(Device* d, int status) {
  d->trim();
  return status ? status : d->broken();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void fakecuda_inject(const char* what,
                                                                       int64_t value) {
  const std::string word = what;
  if (word == "nothing" || word == "context")
    for (int n = 0; n < Device::most; ++n) Device::number(n).mend();
  if (word != "context") common().inject(word, value);
}
extern "C" __attribute__((visibility("default"))) int64_t fakecuda_count(const char* what) {
  const std::string word = what;
  if (word == "waits") return common().waits;
  if (word == "cubins") return common().cubins;
  if (word == "graphs") return common().graphs;
  if (word == "patches") return common().patches;
  if (word == "edges") return common().edges;
  if (word == "roots") return common().roots;
  if (word == "fills") return common().fills;
  if (word == "bytes to hosts") return common().to_host;
  if (word == "bytes to devices") return common().to_device;
  if (word == "bytes within devices") return common().within;
  if (word == "injected") return common().pending();
  if (word == "pinned") return common().pinned;
  if (word == "maps") return common().maps;
  if (word == "modules") return common().modules;
  if (word == "allocations") return common().allocations;
  if (word.back() == '0' || word.back() == '1')
    return Device::number(word.back() - '0').count(word.substr(0, word.size() - 1));
  int64_t sum = 0;
  for (int n = 0; n < Device::most; ++n) sum += Device::number(n).count(word);
  return sum;
}

EXPORT cuInit(unsigned) { return static_cast<int>(common().injected("init", success)); }
EXPORT cuDriverGetVersion(int* version) {
  *version = static_cast<int>(common().injected("version", 13030));
  return success;
}
EXPORT cuDeviceGetCount(int* count) {
  *count = devices();
  return success;
}
EXPORT cuDeviceGet(int* out, int number) {
  *out = number;
  return number >= 0 && number < devices() ? success : invalid_device;
}
EXPORT cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  const auto capability = static_cast<int>(Device::number(device).capability());
  constexpr int has_pools = 115;
  if (attribute == has_pools) {
    *value = static_cast<int>(common().injected("pools", 1));
    return success;
  }
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 4;
  return success;
}
EXPORT cuDeviceGetName(char* name, int room, int device) {
  std::snprintf(name, static_cast<size_t>(room), "Fake GPU %d", device);
  return success;
}
EXPORT cuDeviceTotalMem_v2(size_t* bytes, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  *bytes = space / 2;
  return success;
}
EXPORT cuDevicePrimaryCtxRetain(Device** context, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  *context = &Device::number(device);
  return success;
}
EXPORT cuCtxSetCurrent(Device* context) {
  current() = context;
  return success;
}
EXPORT cuCtxGetCurrent(Device** context) {
  *context = current();
  return success;
}
EXPORT cuCtxSynchronize() {
  if (const int no = refused(current())) return no;
  if (const int no = forbidden_in_captures()) return no;
  return waited(current(), current()->queues().wait_for_all());
}

EXPORT cuStreamCreate(Stream** stream, unsigned) {
  if (const int no = refused(current())) return no;
  *stream = new Stream{current(), current()->queues().make()};
  return success;
}
EXPORT cuStreamDestroy_v2(Stream* stream) {
  stream->device->queues().free(stream->queue);
  delete stream;
  return success;
}
EXPORT cuStreamSynchronize(Stream* stream) {
  Device* d = device_of(stream);
  if (const int no = refused(d)) return no;
  ++common().waits;
  if (stream && stream->capture) return forbidden_in_captures();
  return waited(d, d->queues().wait(queue_of(stream)));
}
EXPORT cuLaunchHostFunc(Stream* stream, void (*call)(void*), void* data) {
  return push(stream, [=] {
    call(data);
    return success;
  });
}

EXPORT cuEventCreate(Event** event, unsigned) {
  if (const int no = refused(current())) return no;
  *event = new Event;
  return success;
}
EXPORT cuEventDestroy_v2(Event* event) {
  delete event;
  return success;
}
EXPORT cuEventRecord(Event* event, Stream* stream) {
  Device* d = device_of(stream);
  if (const int no = refused(d)) return no;
  event->record(d->queues(), queue_of(stream));
  return success;
}
EXPORT cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  Device* d = device_of(stream);
  if (const int no = refused(d)) return no;
  event->hold_up(d->queues(), queue_of(stream));
  return success;
}
EXPORT cuEventQuery(Event* event) {
  if (const int no = refused(current())) return no;
  return event->reached() ? success : not_ready;
}
EXPORT cuEventSynchronize(Event* event) {
  while (!event->reached()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return refused(current());
}

EXPORT cuGetErrorString(int error, const char** text) {
  thread_local std::string words;
  words = error == out_of_memory     ? "out of memory"
          : error == no_device       ? "no CUDA-capable device is detected"
          : error == invalid_device  ? "invalid device ordinal"
          : error == invalid_value   ? "invalid argument"
          : error == invalid_context ? "invalid device context"
          : error == invalid_handle  ? "invalid resource handle"
          : error == not_found       ? "named symbol not found"
          : error == invalid_image   ? "device kernel image is invalid"
          : error == no_binary       ? "no kernel image is available for execution on the device"
          : error == not_supported   ? "operation not supported"
          : error == capture_unsupported ? "operation not permitted when stream is capturing"
          : error == capture_invalidated ? "operation failed due to a previous error during capture"
                                         : common().report();
  *text = words.c_str();
  return success;
}
