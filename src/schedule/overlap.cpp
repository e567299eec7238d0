// schedule/overlap.cpp: the order of steps around host calls that go on while others run.
#include "schedule/overlap.h"

#include <cstddef>
#include <set>
#include <utility>

namespace hologram::schedule {
namespace {

size_t at(int k) { return static_cast<size_t>(k); }

// Whether a step is early or needed, however indirectly, by one that is.
std::vector<char> lead_to_early(const std::vector<int>& order,
                                const std::vector<std::vector<int>>& needs,
                                const std::vector<Timing>& timing) {
  std::vector<char> leads(needs.size(), 0);
  for (auto k = order.rbegin(); k != order.rend(); ++k) {
    if (timing[at(*k)] == Timing::early) leads[at(*k)] = 1;
    if (!leads[at(*k)]) continue;
    for (int d : needs[at(*k)]) leads[at(d)] = 1;
  }
  return leads;
}

}  // namespace

std::vector<int> overlapped(const std::vector<int>& order, std::vector<std::vector<int>> needs,
                            const std::vector<Timing>& timing) {
  int last = -1;
  for (int k : order) {
    if (timing[at(k)] != Timing::early) continue;
    if (last >= 0) needs[at(k)].push_back(last);
    last = k;
  }
  const std::vector<char> leads = lead_to_early(order, needs, timing);
  std::vector<std::vector<int>> users(needs.size());
  std::vector<int> missing(needs.size(), 0), position(needs.size(), 0);
  for (size_t k = 0; k < needs.size(); ++k)
    for (int d : std::set<int>(needs[k].begin(), needs[k].end())) {
      users[at(d)].push_back(static_cast<int>(k));
      ++missing[k];
    }
  for (size_t i = 0; i < order.size(); ++i) position[at(order[i])] = static_cast<int>(i);
  std::set<std::pair<int, int>> ready;  // (how late, position in `order`)
  auto add = [&](int k) {
    const int rank = timing[at(k)] == Timing::early  ? 0
                     : timing[at(k)] == Timing::late ? 3
                     : leads[at(k)]                  ? 1
                                                     : 2;
    ready.emplace(rank, position[at(k)]);
  };
  for (int k : order)
    if (missing[at(k)] == 0) add(k);
  std::vector<int> out;
  while (!ready.empty()) {
    const int k = order[at(ready.extract(ready.begin()).value().second)];
    out.push_back(k);
    for (int u : users[at(k)])
      if (--missing[at(u)] == 0) add(u);
  }
  return out;
}

}  // namespace hologram::schedule
