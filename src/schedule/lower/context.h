// schedule/lower/context.h: the lowering of one cluster, kind by kind.
#pragma once

#include <map>

#include "schedule/lower/lower.h"
#include "schedule/windows/expansion.h"
#include "schedule/lower/loop.h"

namespace hologram::schedule {

/// The parameters an expression is computed from, or nullopt when one of them is not static or a
/// buffer is read.
std::optional<std::vector<int>> static_sources(const Clustering& clustering, const Options& options,
                                               ir::Value v);

// Columns that lie side by side in the blocks of a weight kept as it is.
inline constexpr int64_t block_columns = 64;

// Axes behind any of a loop: the group of a channel and its column in the group, a tap.
inline constexpr int group_id = 1000, column_id = 1001, tap_id = 1002;

/// An index of group and column in terms of the channel, group * columns + column.
Expr of_channel(const Expr& e, const Expr& columns, const Expr& channel);

class Lowering {
 public:
  Lowering(const Cluster& cluster, const Clustering& clustering, const Options& options,
           Storage& storage)
      : c_(cluster), clustering_(clustering), options_(options), storage_(storage) {}

  std::vector<Lowered> product();
  std::vector<Lowered> depthwise();
  std::vector<Lowered> stem();
  std::vector<Lowered> tap_sums();
  std::vector<Lowered> expanded(const Expansion& expansion);
  std::vector<Lowered> attention();
  std::vector<Lowered> attention_grad();
  std::vector<Lowered> scatter();
  std::vector<Lowered> scan();
  std::vector<Lowered> sort();

 private:
  Emitter emitter(Kernel& k, atlas::Body& body, Emitter::Local local = {});

  // The cluster's axes, renumbered by position, as a substitution for its members' indices.
  Index placed(const Index& index, const std::vector<ClusterAxis>& order) const;

  void epilogue(Kernel& k, atlas::Body& body, DType acc_type,
                const std::vector<ClusterAxis>& order);
  void keep_for_tail();
  void tail(Kernel& k);
  void end_with(atlas::Body& body, atlas::Val v);
  void score(Kernel& k, atlas::Body& body, DType type, double cap, ir::Value bias,
             const Index& scores);
  Lowered join_parts(int out, int log_sum, DType type, int64_t parts,
                     const std::vector<ClusterAxis>& axes);
  void log_sum(Kernel& k, atlas::Body& body, DType type, const std::vector<ClusterAxis>& order);
  Shape panel_axes(const Expr& n, int width) const;
  Expr column_of_panel(const Index& at, size_t panel, int width, const Expr& inside,
                       Expr& in_part) const;
  Lowered pack_rhs(ir::Value rhs, const Shape& batch, int width, int group, int& slot);
  bool keep_narrow(ir::Value rhs, bool few_rows, std::vector<Lowered>& out);
  int lay_out(ir::Value v, const Shape& shape, const std::function<Index(const Index&)>& from,
              std::vector<Lowered>& out);
  int lay_taps(ir::Value weights, std::vector<Lowered>& out);
  Lowered relay(ir::Value leaf, size_t axis);
  Lowered pack_winograd(ir::Value rhs, int width, int& slot);
  Lowered pack_terms(ir::Value rhs, const Shape& batch, int width, int terms, int& slot);
  Lowered finish(Kernel& k, std::string name) {
    return {std::move(k.program), std::move(k.buffers), std::move(name), -1};
  }

  const Cluster& c_;
  const Clustering& clustering_;
  const Options& options_;
  Storage& storage_;
  // Weights in blocks of columns: the slot, and which of the weight's axes runs along the columns.
  struct Blocks {
    int slot;
    size_t axis;
  };
  std::map<ir::Value, Blocks> blocks_;
  std::map<ir::Value, int> kept_;  // slots of what the tail alone reads
};

}  // namespace hologram::schedule
