// capi/archives.h: archives and sessions behind handles.
#pragma once

#include <atomic>
#include <map>
#include <utility>

#include "archive/function.h"
#include "capi/objects.h"

namespace hologram::capi {

struct ArchiveObject {
  std::shared_ptr<const archive::Archive> archive;
  std::shared_ptr<archive::Weights> weights;
  std::atomic<bool> trusted{false};  ///< machine code in it may run

  /// The method compiled for a runtime, once while somebody uses it.
  std::shared_ptr<archive::Function> function(const archive::Method& method,
                                              const std::shared_ptr<runtime::Runtime>& runtime);

 private:
  std::mutex mutex_;
  std::map<std::pair<const archive::Method*, runtime::Runtime*>, std::weak_ptr<archive::Function>>
      functions_;
};

struct SessionObject {
  std::shared_ptr<archive::Session> session;
};

extern HandleTable archives, sessions;

inline Pin<ArchiveObject> need_archive(hologram_handle handle) {
  return need<ArchiveObject>(archives, handle, "archive");
}
inline Pin<SessionObject> need_session(hologram_handle handle) {
  return need<SessionObject>(sessions, handle, "session");
}

}  // namespace hologram::capi
