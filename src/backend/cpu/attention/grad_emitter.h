// backend/cpu/attention/grad_emitter.h: the emitter of one kernel of gradients, its state and its
// parts.
#pragma once

#include "backend/cpu/attention/grad.h"
#include "backend/cpu/attention/score_blocks.h"

namespace hologram::cpu {

class GradEmitter : ScoreBlocks {
 public:
  GradEmitter(CpuFunction& kernel, const AttentionGradPlan& plan);

  void run();

 private:
  enum Use { use_scores, use_values, use_dv, use_dk, use_dq };

  bool wants_dq() const { return !a_.dq.instrs.empty(); }
  bool wants_dk() const { return !a_.dk.instrs.empty(); }
  bool wants_dv() const { return !a_.dv.instrs.empty(); }
  // The keys' gradients are complete behind a block of keys: no other member adds to them.
  bool complete_by_block() const { return plan_.members.is(1); }

  void prepare();
  // Scratch of what runs in registers, but for the sums.
  Regions register_regions();
  void emit_unit(Scope& scope, Value* unit);
  void emit_member(Scope& scope, Value* member);
  // The size of a block that begins `left` before the end.
  Value* one_of(const std::vector<int64_t>& counts, Value* left, int64_t block);
  void clear_keys(Scope& scope);
  void store_keys(Scope& scope, Value* first, Value* count);
  // Runs a result's body on rows of `from`, [panels][rows][column].
  void store_rows(Scope& scope, const atlas::Body& body, Value* from, Value* rows, int row_axis,
                  Value* first, Value* count, int column_axis, Value* columns);
  Operand operand(const atlas::Body& body) const {
    return {body, a_.operand_type, type_, t_.lanes};
  }

  // Rows [begin, begin + count) of an operand, `stride` apart.
  void copy_rows(Scope& scope, const atlas::Body& body, int row_axis, Value* begin, Value* count,
                 int column_axis, Value* columns, Value* out, Value* stride);
  // The block's keys as columns: panels of [column][key].
  void copy_columns(Scope& scope, const atlas::Body& body, int column_axis, Value* columns,
                    Value* out);
  void copy_keys(Scope& scope);
  void emit_keys(Scope& scope);
  // Leaves out blocks of queries that see none of the block's keys.
  void visible_queries(Scope& scope, Value*& first, Value*& end);
  // lse and delta of the block's queries.
  void gather_numbers(Scope& scope);
  void emit_tile(Scope& scope);
  // A query's scores become probabilities, the other tile's row gradients of scores.
  void score_row(Scope& scope, Value* i);

  // grad_tiles.cpp: all products on tiles. Operands are rows of bfloat16 numbers, padded to whole
  // numbers of 32; from them come words of two numbers of a row or of two rows.
  Regions tile_regions();
  int64_t tile_depth() const { return (plan_.depth.constant_value() + 31) / 32 * 32; }
  int64_t tile_width() const { return (plan_.width.constant_value() + 31) / 32 * 32; }
  void copy_keys_to_tiles(Scope& scope);
  // Scores, gradients and sums of a block of queries and one of keys.
  void emit_score_block(Scope& scope);
  // What is missing to whole numbers of 32 rows are zeros.
  void copy_tile_rows(Scope& scope, const atlas::Body& body, int row_axis, Value* begin,
                      Value* count, int column_axis, Value* columns, int64_t width, Value* out);
  // [panel of 32 rows][pair of numbers][row]
  void turn_words(Scope& scope, Value* rows, int64_t width, Value* count, Value* out);
  // [panel of 32 columns][pair of rows][column], panels of `most` rows
  void pair_rows(Scope& scope, Value* rows, int64_t width, Value* count, int64_t most, Value* out);
  // out [query][key] = the scores that a and b make.
  void tile_scores(Scope& scope, Use use, Value* a, int64_t width, Value* b, Value* out);
  // out += a b for `count` rows of a, `height` those of a panel of out.
  void add_on_tiles(Scope& scope, Use use, Value* a, int64_t a_row, Value* count, Value* b,
                    Value* depth, int64_t most, int64_t width, Value* out, Value* height);
  // A vector of query i's p and s, 0 where there is no key.
  void store_brief(Value* i, Value* offset, Value* mask, Value* p, Value* s);
  void hide_missing_keys(Scope& scope, Value* i);
  // Rows of queries in float32 to rows of keys in bfloat16.
  void turn_scores(Scope& scope, Value* from, Value* to);

  const atlas::AttentionGradBlock& a_;
  AttentionGradPlan plan_;
  int member_axis_, query_axis_, key_axis_, depth_axis_, width_axis_;
  atlas::Body exp_;

  struct Sizes {
    Value *members, *queries, *keys, *depth, *width, *parts, *depth_panels, *width_panels;
    // Elements between rows of queries and keys, and of gradients; rows of the sums' panels.
    Value *q_row, *g_row, *dq_rows, *dk_rows;
  } size_{};
  // Columns and rows of a block of keys, rows of a block of queries, the two tiles [query][key],
  // the sums; numbers of the queries, ones, a square of a transposition.
  struct Scratch {
    Value *kt, *vt, *k_rows, *q, *g, *p, *s, *dq, *dk, *dv, *lse, *delta, *ones, *square;
  } scratch_{};
  // On tiles: words of two keys and of two queries, s as rows of queries, p and s as rows of keys.
  struct Tiles {
    Value *k_pairs, *q_pairs, *g_pairs, *s_rows, *pt, *st, *config;
  } tiles_{};
  struct Unit {
    Value *first_key, *end_key, *first_query, *end_query;
  } unit_{};
  struct Block {
    Value *begin, *count;
  } keys_{}, queries_{};  // of the tile
};

}  // namespace hologram::cpu
