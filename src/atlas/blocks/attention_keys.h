// atlas/blocks/attention_keys.h: what an attention block says of the keys that its queries see.
#pragma once

#include <optional>

#include "atlas/blocks/attention.h"

namespace hologram::atlas {

/// A bound on the keys that a query sees: at = query * (1 or 0) + offset, offset without axes.
struct KeyBound {
  bool by_query;
  Expr offset;
};

/// What a score body hides for certain: keys before the first bound and behind the last.
struct KeyBounds {
  std::optional<KeyBound> first, last;
};
/// The key axis follows the query axis.
KeyBounds find_key_bounds(const Body& score, int query_axis);

/// How many neighbours along the last batch axis, query heads, read the same keys and values: 1
/// where that is not seen. `undivided`: all heads, where keys and values do not know of them.
int64_t heads_sharing(const AttentionBlock& block, bool undivided = false);

}  // namespace hologram::atlas
