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

/// Whether a key is seen, as a body without accumulators whose last value is b8: the conditions of
/// the selections of -inf that a score body ends with, but those that ask for the score. Empty where
/// none of them reads memory: then find_key_bounds() says what there is to know.
Body seen_keys(const Body& score);

/// How many neighbours along the last batch axis, query heads, read the same keys and values: 1
/// where that is not seen. `undivided`: all heads, where keys and values do not know of them.
int64_t heads_sharing(const AttentionBlock& block, bool undivided = false);

}  // namespace hologram::atlas
