// backend/cuda/log.cpp: notes, each once.
#include "backend/cuda/log.h"

#include <algorithm>

#include "base/notices.h"

namespace hologram::cuda {
namespace {

constexpr size_t most_notes = 64;

}  // namespace

void Log::note(std::string words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  notice(words);
  std::lock_guard lock(mutex_);
  if (notes_.size() < most_notes && std::ranges::find(notes_, words) == notes_.end())
    notes_.push_back(std::move(words));
}

std::vector<std::string> Log::notes() const {
  std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace hologram::cuda
