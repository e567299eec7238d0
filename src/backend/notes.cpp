// backend/notes.cpp: notes, each once.
#include "backend/notes.h"

#include <algorithm>

#include "base/notices.h"

namespace hologram {
namespace {

constexpr size_t most_notes = 64;

}  // namespace

void Notes::note(std::string words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  notice(words);
  std::lock_guard lock(mutex_);
  if (notes_.size() < most_notes && std::ranges::find(notes_, words) == notes_.end())
    notes_.push_back(std::move(words));
}

std::vector<std::string> Notes::notes() const {
  std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace hologram
