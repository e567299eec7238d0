// capi/archive.cpp: models in files.
#include "archive/describe.h"
#include "archive/trust.h"
#include "capi/archives.h"
#include "capi/graphs.h"

namespace hologram::capi {

constinit HandleTable archives{Kind::archive,
                               [](void* object) { delete static_cast<ArchiveObject*>(object); }};
constinit HandleTable sessions{Kind::session,
                               [](void* object) { delete static_cast<SessionObject*>(object); }};

std::shared_ptr<archive::Function> ArchiveObject::function(
    const archive::Method& method, const std::shared_ptr<runtime::Runtime>& runtime) {
  std::lock_guard lock(mutex_);  // who wants the same one waits for it
  std::weak_ptr<archive::Function>& place = functions_[{&method, runtime.get()}];
  std::shared_ptr<archive::Function> found = place.lock();
  if (!found) {
    found = std::make_shared<archive::Function>(weights, method, runtime, trusted);
    place = found;
  }
  return found;
}

}  // namespace hologram::capi

using namespace hologram;
using namespace hologram::capi;

namespace {

archive::Verify checked_flags(uint32_t flags) {
  require((flags & ~HOLOGRAM_VERIFY) == 0, "flags {:#x} are unknown", flags);
  return flags & HOLOGRAM_VERIFY ? archive::Verify::full : archive::Verify::index;
}

hologram_handle opened(std::shared_ptr<const archive::Archive> archive) {
  auto object = std::make_unique<ArchiveObject>();
  object->trusted = archive::is_trusted(archive->fingerprint());
  object->weights = std::make_shared<archive::Weights>(archive);
  object->archive = std::move(archive);
  return insert(archives, std::move(object));
}

}  // namespace

extern "C" {

hologram_status hologram_archive_open(const char* path, uint32_t flags, hologram_handle* archive) {
  return guarded(__func__, [&] {
    require_out(archive, "archive");
    require(path != nullptr, "path must not be NULL");
    *archive = opened(archive::Archive::open(path, checked_flags(flags)));
  });
}
hologram_status hologram_archive_open_memory(const void* bytes, size_t size, uint32_t flags,
                                             hologram_handle* archive) {
  return guarded(__func__, [&] {
    require_out(archive, "archive");
    require(bytes != nullptr || size == 0, "bytes must not be NULL");
    std::string copy(static_cast<const char*>(bytes), size);
    *archive = opened(archive::Archive::from_bytes(std::move(copy), checked_flags(flags)));
  });
}
hologram_status hologram_archive_info(hologram_handle archive, char* json, size_t capacity,
                                      size_t* needed) {
  return guarded(__func__, [&] {
    give_text(archive::describe(*need_archive(archive)->archive), json, capacity, needed);
  });
}
hologram_status hologram_archive_fingerprint(hologram_handle archive, char* digits, size_t capacity,
                                             size_t* needed) {
  return guarded(__func__, [&] {
    give_text(need_archive(archive)->archive->fingerprint().hex(), digits, capacity, needed);
  });
}
hologram_status hologram_archive_trust(hologram_handle archive, const char* fingerprint) {
  return guarded(__func__, [&] {
    auto a = need_archive(archive);
    if (fingerprint && archive::parse_fingerprint(fingerprint) != a->archive->fingerprint())
      fail(ErrorCode::corrupt, "{}: its fingerprint is {}, expected {}", a->archive->name(),
           a->archive->fingerprint().hex(), fingerprint);
    a->trusted = true;
  });
}
hologram_status hologram_archive_replace(hologram_handle archive, const char* name,
                                         hologram_dtype dtype, const int64_t* shape, size_t rank,
                                         const void* elements) {
  return guarded(__func__, [&] {
    auto a = need_archive(archive);
    require(name != nullptr, "name must not be NULL");
    require(shape != nullptr || rank == 0, "shape must not be NULL");
    require(elements != nullptr, "elements must not be NULL");
    a->weights->replace(name, checked_dtype(dtype), {shape, rank},
                        static_cast<const std::byte*>(elements));
  });
}
hologram_status hologram_archive_verify(hologram_handle archive) {
  return guarded(__func__, [&] { need_archive(archive)->archive->verify_all(); });
}
hologram_status hologram_archive_method(hologram_handle archive, hologram_handle executor,
                                        const char* name, hologram_handle session,
                                        hologram_handle* executable) {
  return guarded(__func__, [&] {
    require_out(executable, "executable");
    require(name != nullptr, "name must not be NULL");
    auto a = need_archive(archive);
    auto pin = need_executor(executor);
    auto object = std::make_unique<ExecutableObject>();
    if (session) object->session = need_session(session)->session;
    const archive::Method& method = a->archive->method(name);
    object->function = a->function(method, pin->state->operations->shared_runtime());
    require(!object->function->has_state() || session,
            "method \"{}\" keeps state between calls: it needs a session", name);
    require(!session || &object->session->archive() == a->archive.get(),
            "the session is another archive's");
    for (const archive::Signature& s : method.inputs)
      object->parameters.push_back({s.dtype, s.shape, contiguous_strides(s.shape), true, false});
    for (const archive::Signature& s : method.results)
      object->results.push_back({s.dtype, s.shape, contiguous_strides(s.shape), true, false});
    object->num_symbols = static_cast<int>(method.symbols.size());
    object->executor = pin->state;
    *executable = publish(executables, std::move(object));
  });
}
hologram_status hologram_archive_session(hologram_handle archive, hologram_handle* session) {
  return guarded(__func__, [&] {
    require_out(session, "session");
    auto object = std::make_unique<SessionObject>();
    object->session = std::make_shared<archive::Session>(need_archive(archive)->archive);
    *session = insert(sessions, std::move(object));
  });
}
hologram_status hologram_archive_cleanup(hologram_handle archive) {
  return guarded(__func__, [&] {
    if (!archives.remove(archive)) report_handle(archives, archive, "archive");
  });
}
hologram_status hologram_session_reset(hologram_handle session) {
  return guarded(__func__, [&] { need_session(session)->session->reset(); });
}
hologram_status hologram_session_cleanup(hologram_handle session) {
  return guarded(__func__, [&] {
    if (!sessions.remove(session)) report_handle(sessions, session, "session");
  });
}

}  // extern "C"
