// rt/wasm/exceptions.cpp: C++ exceptions in WebAssembly: Debian's libc++abi is built without.
//
// Generated code throws a pointer with the tag of C++, catches it where a landing pad is, and asks
// _Unwind_CallPersonality which of the pad's clauses is meant; it throws on where none is. The
// tables that tell (LSDA) are those of the Itanium ABI, but with a landing pad's number in place of
// the range of addresses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

extern "C" {
// Generated code writes the first two and reads the third.
struct LandingPad {
  uintptr_t number;
  const uint8_t* table;
  uintptr_t selector;
} __wasm_lpad_context;
}

namespace {

/// As libc++abi has it, for the place of can_catch in the table of virtual functions.
class CatchType : public std::type_info {
 public:
  virtual void noop1() const;
  virtual void noop2() const;
  virtual bool can_catch(const CatchType* thrown, void*& object) const = 0;
};

/// Lies before the object that is thrown; what generated code passes on is its address.
struct alignas(16) Thrown {
  const std::type_info* type;
  void* (*destroy)(void*);  ///< destructors return the object in WebAssembly
  void* adjusted;           ///< the object as the clause wants to see it
  int handlers;             ///< that have begun and not ended
  bool again;               ///< thrown again by one of them
  Thrown* below;            ///< the one that was being handled before
};

Thrown* handled = nullptr;

void release(Thrown* thrown) {
  if (thrown->destroy) thrown->destroy(thrown + 1);
  std::free(thrown);
}

uint64_t unsigned_at(const uint8_t*& p) {
  uint64_t n = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t b = *p++;
    n |= uint64_t{b & 127u} << shift;
    if (!(b & 128)) return n;
  }
}

int64_t signed_at(const uint8_t*& p) {
  uint64_t n = 0;
  for (unsigned shift = 0;;) {
    const uint8_t b = *p++;
    n |= uint64_t{b & 127u} << shift;
    shift += 7;
    if (b & 128) continue;
    if ((b & 64) && shift < 64) n |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(n);
  }
}

/// The chain of clauses of landing pad `number`; null: none, it only cleans up.
const uint8_t* clauses_of(uintptr_t number, const uint8_t* p, const uint8_t*& types) {
  constexpr uint8_t omitted = 0xff;
  if (*p++ != omitted) std::abort();  // a base of landing pads, which WebAssembly has none of
  types = nullptr;
  if (*p++ != omitted) {
    const uint64_t distance = unsigned_at(p);
    types = p + distance;
  }
  ++p;  // how places are encoded
  const uint64_t bytes = unsigned_at(p);
  const uint8_t* const actions = p + bytes;
  for (uintptr_t n = 0; p < actions; ++n) {
    unsigned_at(p);
    const uint64_t action = unsigned_at(p);
    if (n == number) return action == 0 ? nullptr : actions + action - 1;
  }
  return nullptr;
}

bool catches(int64_t clause, const uint8_t* types, Thrown& thrown) {
  const auto* const* all = reinterpret_cast<const CatchType* const*>(types);
  const CatchType* wanted = all[-clause];
  void* object = thrown.adjusted;
  if (!wanted) return true;
  if (!wanted->can_catch(static_cast<const CatchType*>(thrown.type), object)) return false;
  thrown.adjusted = object;
  return true;
}

[[noreturn]] void raise(Thrown* thrown) { __builtin_wasm_throw(0, thrown); }

}  // namespace

extern "C" {

int _Unwind_CallPersonality(void* exception) {
  auto& thrown = *static_cast<Thrown*>(exception);
  LandingPad& pad = __wasm_lpad_context;
  pad.selector = 0;
  const uint8_t* types = nullptr;
  const uint8_t* p = clauses_of(pad.number, pad.table, types);
  thrown.adjusted = &thrown + 1;
  while (p) {
    const int64_t clause = signed_at(p);
    if (clause > 0 && catches(clause, types, thrown)) {
      pad.selector = static_cast<uintptr_t>(clause);
      break;
    }
    const uint8_t* const here = p;
    const int64_t next = signed_at(p);
    p = next == 0 ? nullptr : here + next;
  }
  return 0;
}

void* __cxa_allocate_exception(size_t bytes) noexcept {
  void* memory = std::malloc(sizeof(Thrown) + bytes);
  if (!memory) std::abort();
  return new (memory) Thrown{} + 1;
}
void __cxa_free_exception(void* object) noexcept { std::free(static_cast<Thrown*>(object) - 1); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, void* (*destroy)(void*)) {
  Thrown* thrown = static_cast<Thrown*>(object) - 1;
  thrown->type = type;
  thrown->destroy = destroy;
  raise(thrown);
}

void* __cxa_get_exception_ptr(void* exception) noexcept {
  return static_cast<Thrown*>(exception)->adjusted;
}

void* __cxa_begin_catch(void* exception) noexcept {
  auto* thrown = static_cast<Thrown*>(exception);
  ++thrown->handlers;
  thrown->again = false;
  if (handled != thrown) {
    thrown->below = handled;
    handled = thrown;
  }
  return thrown->adjusted;
}

void __cxa_end_catch() {
  Thrown* thrown = handled;
  if (!thrown || --thrown->handlers > 0) return;
  handled = thrown->below;
  if (!thrown->again) release(thrown);
}

[[noreturn]] void __cxa_rethrow() {
  if (!handled) std::terminate();
  handled->again = true;
  raise(handled);
}

}  // extern "C"
