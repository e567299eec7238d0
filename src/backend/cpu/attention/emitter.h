// backend/cpu/attention/emitter.h: the emitter of one attention kernel, its state and its parts.
#pragma once

#include "backend/cpu/attention/plan.h"
#include "backend/cpu/attention/score_blocks.h"
#include "backend/cpu/operands/pack.h"

namespace hologram::cpu {

class AttentionEmitter : ScoreBlocks {
 public:
  AttentionEmitter(CpuFunction& kernel, const AttentionPlan& plan);

  void run();

 private:
  bool by_queries() const { return plan_.lanes == ScoreLanes::queries; }
  bool pairs() const { return plan_.dots != Dots::none; }
  bool rows_in_place() const { return !by_queries() && !plan_.on_tiles && plan_.k_load; }
  bool few_on_tiles() const { return plan_.on_tiles && !by_queries(); }
  bool splits() const { return plan_.terms > 1; }

  // NaN scores need no care here: their own exponential is NaN.
  Value* larger(Value* x, Value* y) { return k_.ir.CreateSelect(k_.ir.CreateFCmpOGT(x, y), x, y); }

  Operand operand(const atlas::Body& body) const {
    return {body, a_.operand_type, type_, t_.lanes};
  }
  Value* scaled(Value* score) { return ScoreBlocks::scaled(score, a_.scale); }
  // The score body on a vector of scaled scores.
  Value* final_score(Scope& scope, Value* score) {
    return a_.score.instrs.empty() ? score : score_of(scope, a_.score, score);
  }
  Value* exponential(Scope& scope, const atlas::Body& body, LaneValue x, LaneValue max) {
    return combine(scope, body, x, max);
  }
  // Pairs of keys, or on tiles whole steps of 16.
  Value* key_pairs() {
    if (plan_.on_tiles) return k_.ir.CreateLShr(tile_keys(), 1);
    return k_.ir.CreateLShr(add(block_.count, 1), 1);
  }
  int64_t depth_pairs() const;

  // emit.cpp: units, what lanes along queries compute, values and results.
  void prepare();
  void emit_unit(Scope& scope, Value* unit);
  // The axes of a unit's batch point; its first head, where units have several.
  Value* set_unit_axes(Scope& scope, Value* batch);
  Expr batch_points() const;
  // Of the next batch point, the share of its query block number `block`.
  void fetch_ahead(Scope& scope, Value* batch, Value* block);
  // Groups of heads whose rows are in one unit.
  int64_t groups() const;
  // Behind the last key from `first` on and before `end` that a row of the unit sees.
  Value* end_of_seen(Scope& scope, Value* first, Value* end);
  // Fixes the query, and the head where a unit has several, of row r; gives the query.
  Value* set_row(Scope& scope, Value* r);
  void clear(Scope& scope);
  // q as depth x queries (lanes along queries) or as rows.
  void pack_queries(Scope& scope);
  // The new running maximum, made finite where every score so far is -inf; updates max and shrink
  // at `index`.
  Value* update_maximum(Scope& scope, Value* index, Value* maximum, llvm::Type* type);
  // scores[key][query] → probabilities; lanes along queries.
  void scores_by_queries(Scope& scope);
  // scores[key][query] by products in registers.
  void register_scores(Scope& scope);
  void softmax_columns(Scope& scope, Value* offset, Value* last_key);
  // out = shrink * out + p v
  void add_values(Scope& scope);
  void epilogue(Scope& scope);
  // log(sum) + maximum of each query, with lanes along the queries.
  void log_sums(Scope& scope);

  // masks.cpp: what the score body reads along the keys, while lanes run along the
  // queries: squares of it are turned over in registers.
  struct Turned {
    atlas::ValueId load;
    DType dtype;
    Value* memory;  // [keys of a square][lanes]
  };
  void find_turned();
  // The square of the queries from `query` of the unit on and the keys from `key` of the block on,
  // of which `keys` are left.
  void turn_over(Scope& scope, const Turned& turned, Value* query, Value* key, Value* keys);
  // Gives the score body what was turned over for key number `key` of the square.
  void preset_turned(Scope& scope, Value* key);
  // Runs `each` for the keys of the block in order and carries a value through; `offset` is the
  // first query of the lanes.
  Value* for_keys(Scope& scope, Value* offset, Value* initial,
                  const std::function<Value*(Scope&, Value* key, Value* carried)>& each);

  // rows.cpp: the scores of a few queries, lanes along keys.
  // Row-major scores of a few queries. Keys with contiguous elements stay where they are: lanes run
  // along the depth, in as many partial sums on every instruction set.
  void dots_in_place(Scope& scope);
  // The cache lines of a row that is fetched before it is read; 0: it is not.
  int lines_of(const Expr& columns) const;
  void fetch_rows(Value* key);
  // What of the next unit is fetched beside the values of this one.
  enum class Beside : uint8_t { none, keys, values };
  Beside beside_values() const {
    if (!rows_in_place() || !plan_.v_load) return Beside::none;
    if (size_of(a_.operand_type) == 2) return Beside::values;
    return plan_.depth == plan_.values ? Beside::keys : Beside::none;
  }
  void dots_of_panels(Scope& scope);
  // scores[query][key] → probabilities; lanes along keys.
  void softmax_rows(Scope& scope);
  // k^T of the keys from key_begin_ + first on.
  void pack_key_panel(Scope& scope, Value* first, Value* count, Value* out);
  Value* horizontal_maximum(Value* v);
  void softmax_row(Scope& scope, Value* r, Value* query);

  // pairs.cpp: both products by the dot instruction of bfloat16.
  // Row i of q becomes words of rows 2 i and 2 i + 1, which hold numbers of 16 bits.
  void pair_queries(Scope& scope);
  // Rows of k as words of two values.
  Matrix paired_keys(Scope& scope);
  // Probabilities of two keys side by side, rounded to bfloat16, in the place of scores; the sum of
  // the ones before rounding.
  Value* paired_exponentials(Scope& scope, Value* offset, Value* maximum, Value* start);
  // The panel of v from `column` on, as words of two keys.
  void pair_values(Scope& scope, Value* column);
  // v of two keys, 2 * pair and the one behind it: `lanes` columns of each, and as words.
  std::pair<Value*, Value*> value_pair(Scope& scope, Value* pair, Value* column, int lanes,
                                       Value* mask);
  Value* value_words(Scope& scope, Value* pair, Value* column, int lanes, Value* mask);

  // tiles.cpp: both products on tiles. A unit has several panels of queries.
  void prepare_tiles(Regions& regions);
  // Runs `each` for the panels of the unit's queries; rows_ are those of the panel then.
  void for_query_panels(Scope& scope, const std::function<void(Scope&)>& each);
  // Scores, probabilities and values of one block of keys.
  void tile_block(Scope& scope);
  // The block's keys from `first` to `end` as rows of tiles.
  void copy_tile_keys(Scope& scope, Value* first, Value* end);
  // The values of a block as rows of columns of v, 32 keys a step.
  void copy_tile_values(Scope& scope);
  void tile_scores(Scope& scope);
  // Probabilities of what is missing to whole steps of keys are 0, for the queries from `offset`
  // on.
  void hide_missing_keys(Scope& scope, Value* offset);
  // columns_ = shrink * columns_ + v^T p
  void add_tile_values(Scope& scope);
  // columns_ of a panel, turned over, to where the epilogue reads them.
  void turn_columns(Scope& scope);
  int64_t tile_depth() const { return (plan_.depth.constant_value() + 31) / 32 * 32; }
  Value* tile_keys() { return round_up(block_.count, 32); }
  // Of a key, where tiles read it.
  Value* key_row_bytes();
  Value* keys_in_place();
  RowsOfTiles rows_of_attention_tiles() const;

  // terms.cpp: both products of float32 as bfloat16 terms.
  void prepare_terms(Regions& regions);
  int64_t depth_steps() const { return tile_depth() / atlas::tile_step; }
  // Words of a step's terms.
  int64_t step_words() const { return plan_.terms * plane_bytes / 4; }
  // Bytes of 32 columns of v, for a block.
  int64_t values_bytes() const { return key_block / atlas::tile_step * step_words() * 4; }
  // Where the first term of words number `pair` lies.
  Value* pair_place(Value* words, Value* pair);
  Value* load_panel(Value* from);
  void store_terms(const std::vector<Value*>& words, Value* to);
  // Where the first term of key number `key` of the block lies.
  Value* key_row(Value* key);
  void split_queries(Scope& scope);
  void split_keys(Scope& scope);
  void split_values(Scope& scope);
  void split_probabilities(Scope& scope);
  // Of a panel of queries: the element of `body` at first + i of `axis` times factors[i][query],
  // for i < end.
  Value* chain(Scope& scope, Value* end, const atlas::Body& body, int axis, Value* first,
               Value* factors);
  // Scores of the block, and `count` columns of values from `column` on, that terms cannot give.
  void repair_scores(Scope& scope);
  void repair_values(Scope& scope, Value* column, Value* count);

  // few.cpp: both products of few queries, rows of a tile of probabilities.
  static constexpr int64_t few_columns = 16;
  static constexpr int few_sums = 2, few_row = 5;  // tiles with as many rows as a unit
  void prepare_few(Regions& regions);
  // q as words of two values, [pair][row of the unit], 16 of them.
  void turn_few_queries(Scope& scope);
  // Scores, probabilities and values of one block of keys.
  void few_block(Scope& scope);
  void few_scores(Scope& scope);
  // Probabilities of what is missing to whole steps of keys are 0.
  void hide_missing_keys_of_row(Scope& scope, Value* row);
  // out = shrink * out + p v
  void add_few_values(Scope& scope);

  enum Use { use_scores, use_values, use_last_scores };

  const atlas::AttentionBlock& a_;
  AttentionPlan plan_;
  int query_axis_, key_axis_, depth_axis_, value_axis_;
  // Two bodies, since a scope shares the values of one body with the scopes inside it.
  atlas::Body exp_score_, exp_shrink_, log_sum_;

  struct Sizes {
    Value *queries, *keys, *depth, *values, *query_units, *value_panels, *key_stride;
    Value *k_row, *v_row;  // of operands that are read in place
  } size_{};
  // Queries of the unit, on tiles of one of its panels, and what is kept for them: packed queries,
  // sums of values [panels][query][column] and, on tiles, [panel][column][query], the running
  // maximum and sum, the factor of the last step; of terms their words, classes and the least one.
  struct Rows {
    Value *begin, *count, *q, *out, *columns, *max, *sum, *shrink;
    Value *words, *classes, *class_of_all;
  } rows_{};
  struct Unit {
    Value* first_head;       // where it has several
    Value *k_base, *v_base;  // of operands that are read in place
    Value *next_k, *next_v;  // of the next unit's, for rows_in_place()
  } unit_{};
  struct Block {
    Value *begin, *count;
  } block_{};  // of keys
  // What a block works in: the score tile, packed keys and values, a square of a transposition;
  // with lanes along keys the scores of a panel, the largest ones and partial sums; on tiles the
  // configuration, one product's sums and, with lanes along keys, rounded probabilities.
  struct Scratch {
    Value *scores, *k_block, *v_block, *square, *tile, *largest, *partials, *seen;
    Value *config, *product, *rounded;
    // Of terms: words of probabilities, classes of columns and the least ones, what is folded.
    Value *p_words, *value_classes, *key_class, *value_class, *least, *most;
  } scratch_{};
  std::vector<Turned> turned_;
  int square_lanes_ = 0;
};

}  // namespace hologram::cpu
