// SPDX-License-Identifier: Apache-2.0
#include "core/ir/verify_collectives.h"

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "core/ir/verifier.h"

namespace spscope::ir {
namespace {

const Symbol kSelf("self"), kDim("dim"), kBlocks("blocks"), kGatherDim("gather_dim"), kGatherBlocks("gather_blocks"),
    kScatterDim("scatter_dim"), kScatterBlocks("scatter_blocks");

/// One dimension that changes between "this rank's block" and "whole".
struct Exchange {
  std::int64_t dim = 0;
  Dims blocks;
  std::int64_t whole = 0;
};

class SpNode {
 public:
  SpNode(const Graph& graph, const Node& node)
      : g_(graph), n_(node), axis_(axisOf(node)), ranks_(axisSize(graph.mesh, axis_)),
        index_(static_cast<std::size_t>(axisRank(graph.mesh, graph.rank, axis_))) {}

  Status check(bool local);
  Result<std::string> line();
  /// Reads the arguments; the local shape that they give.
  Result<Dims> result();

 private:
  Error wrong(const std::string& message) const {
    return nodeError("verify-collective", g_, n_, n_.op.str() + ": " + message);
  }
  Result<Exchange> exchange(Symbol dim_name, Symbol blocks_name, const Dims& shape) const;
  Status operands();
  Result<Dims> shape(const Dims& operand) const;
  Status placements() const;
  /// Reads the exchanged dimensions; `gathered_` becomes whole, `scattered_` becomes a block.
  Status readExchanges();

  const Graph& g_;
  const Node& n_;
  const MeshAxis axis_;
  const int ranks_;
  const std::size_t index_;
  const Value* in_ = nullptr;
  const Value* out_ = nullptr;
  std::optional<Exchange> gathered_, scattered_;
};

Result<Exchange> SpNode::exchange(Symbol dim_name, Symbol blocks_name, const Dims& shape) const {
  const Attribute* dim = n_.find(dim_name);
  const Attribute* blocks = n_.find(blocks_name);
  const auto* d = dim ? std::get_if<std::int64_t>(dim) : nullptr;
  const auto* b = blocks ? std::get_if<Dims>(blocks) : nullptr;
  if (!d || !b) return wrong("the arguments " + dim_name.str() + " and " + blocks_name.str() + " are missing");
  if (*d < 0 || *d >= static_cast<std::int64_t>(shape.size())) return wrong("the operand has no dimension " + std::to_string(*d));
  if (b->size() != static_cast<std::size_t>(ranks_))
    return wrong(std::to_string(b->size()) + " blocks for " + std::to_string(ranks_) + " ranks");
  Exchange out{*d, *b, 0};
  for (std::int64_t size : *b)
    if (size < 0 || __builtin_add_overflow(out.whole, size, &out.whole)) return wrong("a block size is wrong");
  return out;
}

Status SpNode::operands() {
  const ValueId in = useArg(n_, kSelf);
  if (in == kNone) return wrong("the operand self is missing");
  if (!hasKnownAxis(n_)) return wrong("names no axis of a mesh");
  if (n_.outputs.size() != 1 || n_.outputs[0] == kNone) return wrong("has one result");
  in_ = &g_.value(in);
  out_ = &g_.value(n_.outputs[0]);
  if (in_->dtype != out_->dtype) return wrong("the result's type differs from the operand's");
  return {};
}

Status SpNode::readExchanges() {
  const Dims& shape = in_->local;
  if (n_.op == sp::kAllToAll) {
    SP_ASSIGN(gathered_, exchange(kGatherDim, kGatherBlocks, shape));
    SP_ASSIGN(scattered_, exchange(kScatterDim, kScatterBlocks, shape));
    if (gathered_->dim == scattered_->dim) return wrong("gathers and scatters the same dimension");
  } else if (n_.op == sp::kAllGather) {
    SP_ASSIGN(gathered_, exchange(kDim, kBlocks, shape));
  } else if (n_.op == sp::kSlice || n_.op == sp::kReduceScatter) {
    SP_ASSIGN(scattered_, exchange(kDim, kBlocks, shape));
  } else if (n_.op != sp::kVary && n_.op != sp::kAllReduce) {
    return wrong("is not an op of this stage");
  }
  return {};
}

Result<Dims> SpNode::shape(const Dims& operand) const {
  Dims wanted = operand;
  const auto at = [](Dims& d, const Exchange& e) -> std::int64_t& { return d[static_cast<std::size_t>(e.dim)]; };
  if (gathered_) {
    if (at(wanted, *gathered_) != gathered_->blocks[index_])
      return wrong("dimension " + std::to_string(gathered_->dim) + " of the operand is not this rank's block");
    at(wanted, *gathered_) = gathered_->whole;
  }
  if (scattered_) {
    if (at(wanted, *scattered_) != scattered_->whole)
      return wrong("dimension " + std::to_string(scattered_->dim) + " of the operand is not the sum of the blocks");
    at(wanted, *scattered_) = scattered_->blocks[index_];
  }
  return wanted;
}

Result<Dims> SpNode::result() {
  SP_TRY(operands());
  SP_TRY(readExchanges());
  return shape(in_->local);
}

Status SpNode::placements() const {
  using K = PlacementKind;
  struct Row {
    Symbol op;
    K from, to;
  };
  static const Row kRows[] = {{sp::kVary, K::kReplicated, K::kReplicated},     {sp::kSlice, K::kReplicated, K::kSharded},
                              {sp::kAllGather, K::kSharded, K::kReplicated},   {sp::kAllReduce, K::kPartial, K::kReplicated},
                              {sp::kReduceScatter, K::kPartial, K::kSharded},  {sp::kAllToAll, K::kSharded, K::kSharded}};
  static const char* const kNames[] = {"replicated", "sharded", "partial"};
  for (const Row& row : kRows) {
    if (row.op != n_.op) continue;
    if (in_->placement.kind != row.from || out_->placement.kind != row.to)
      return wrong(std::string("takes a ") + kNames[static_cast<std::size_t>(row.from)] + " operand and gives a " +
                   kNames[static_cast<std::size_t>(row.to)] + " result; met " +
                   kNames[static_cast<std::size_t>(in_->placement.kind)] + " and " +
                   kNames[static_cast<std::size_t>(out_->placement.kind)]);
  }
  return {};
}

Status SpNode::check(bool local) {
  SP_TRY(operands());
  if (n_.op == sp::kRedistribute) {
    // Exchanges and sums stay abstract in kLocal until their passes have run; build-joint cannot run them.
    if (g_.form == Form::kJoint) return wrong("is lowered before this stage");
    if (in_->shape != out_->shape) return wrong("changes the shape");
    return {};
  }
  if (!local) return {};  // planned: local shapes are still the global ones
  SP_ASSIGN(const Dims given, result());
  if (out_->local != given)
    return wrong("the result's local shape is [" + join(out_->local, ", ") + "], the blocks give [" + join(given, ", ") + "]");
  // Placements are those on the sequence axis; on the others an op is one of this rank's own program.
  if (g_.form == Form::kLocal && axis_ == MeshAxis::kSequence) SP_TRY(placements());
  return {};
}

Result<std::string> SpNode::line() {
  SP_TRY(operands());
  SP_TRY(readExchanges());
  Dims whole = in_->local;
  std::string out(baseName(n_.op));
  if (axis_ != MeshAxis::kSequence) out += " over " + std::string(axisName(axis_));
  out += n_.phase == Phase::kForward ? " forward " : n_.phase == Phase::kBackward ? " backward " : " recompute ";
  const auto add = [&](const char* what, const Exchange& e) {
    whole[static_cast<std::size_t>(e.dim)] = e.whole;
    out += std::string(what) + "=" + std::to_string(e.dim) + "(" + join(e.blocks, ", ") + ") ";
  };
  if (gathered_) add("gather", *gathered_);
  if (scattered_) add("scatter", *scattered_);
  out += std::string(shortName(in_->dtype)) + "[" + join(whole, ", ") + "]\n";
  return out;
}

}  // namespace

Status verifySpNode(const Graph& graph, const Node& node, bool local) {
  if (isStart(node.op) || node.op == sp::kWait || node.op == sp::kUnpack) return verifyPendingNode(graph, node);
  return SpNode(graph, node).check(local);
}

Result<Dims> collectiveResult(const Graph& graph, const Node& plain) { return SpNode(graph, plain).result(); }

Result<std::string> collectiveSequence(const Graph& graph) {
  std::string out;
  for (NodeId id : graph.order) {
    const Node& n = graph.node(id);
    if (!isCollective(n.op)) continue;
    if (!isStart(n.op)) {
      SP_ASSIGN(const std::string line, SpNode(graph, n).line());
      out += line;
      continue;
    }
    out += "start of " + std::to_string(partCount(n)) + "\n";
    for (std::size_t i = 0; i < partCount(n); ++i) {
      const Node part = partOf(graph, n, i);
      SP_ASSIGN(const std::string line, SpNode(graph, part).line());
      out += line;
    }
  }
  return out;
}

}  // namespace spscope::ir
