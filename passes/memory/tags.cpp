// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/tags.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace spscope::passes {
namespace {

using ir::Dims;
using Mask = std::uint32_t;  ///< bit d: dimension d holds (part of) the sequence

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
Mask bit(std::int64_t d) { return d < 0 || d >= 32 ? 0 : Mask{1} << d; }
std::int64_t wrap(std::int64_t dim, std::size_t rank) {
  return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
}
Mask allDims(std::size_t rank) { return rank >= 32 ? ~Mask{0} : (Mask{1} << rank) - 1; }

bool oneOf(std::string_view base, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), base) != names.end();
}

/// view, reshape: the smallest groups of dimensions with equal products correspond.
Mask throughView(const Dims& in, Mask mask, const Dims& out) {
  Mask result = 0;
  std::size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    Mask from = 0, to = 0;
    std::int64_t have = 1, want = 1;
    const auto takeIn = [&] { from |= bit(static_cast<std::int64_t>(i)); have *= in[i++]; };
    const auto takeOut = [&] { to |= bit(static_cast<std::int64_t>(o)); want *= out[o++]; };
    if (i < in.size()) takeIn();
    if (o < out.size()) takeOut();
    while (have != want) {
      if (have < want && i < in.size()) {
        takeIn();
      } else if (o < out.size()) {
        takeOut();
      } else if (i < in.size()) {
        takeIn();
      } else {
        break;
      }
    }
    if (mask & from) result |= to;
  }
  return result;
}

class Follower {
 public:
  explicit Follower(const ir::Graph& graph) : graph_(graph), mask_(graph.valueCount(), 0), long_(graph.valueCount(), false) {}

  std::vector<bool> run() {
    for (const ir::Input& input : graph_.inputs)
      if (input.value != ir::kNone) fromFactors(graph_.value(input.value));
    for (const ir::NodeId id : graph_.order) {
      const ir::Node& node = graph_.node(id);
      if (node.phase != ir::Phase::kForward) continue;
      for (const ir::ValueId out : node.outputs) {
        if (out == ir::kNone || fromFactors(graph_.value(out))) continue;
        const Mask mask = follow(node, graph_.value(out));
        mask_[at(out)] = mask;
        long_[at(out)] = mask != 0;
      }
    }
    return std::move(long_);
  }

 private:
  bool fromFactors(const ir::Value& value) {
    if (value.factors.size() != value.local.size() || value.factors.empty()) return false;
    Mask mask = 0;
    for (std::size_t d = 0; d < value.factors.size(); ++d)
      if (ir::hasTag(value.factors[d], ir::Tag::kSequence)) mask |= bit(static_cast<std::int64_t>(d));
    mask_[at(value.id)] = mask;
    long_[at(value.id)] = mask != 0;
    return true;
  }
  Mask maskOf(ir::ValueId id) const { return id == ir::kNone ? 0 : mask_[at(id)]; }
  const Dims& local(ir::ValueId id) const { return graph_.value(id).local; }
  Mask follow(const ir::Node& node, const ir::Value& out) const;
  Mask contraction(const ir::Node& node, std::string_view base, std::size_t rank) const;
  Mask reduction(const ir::Node& node, ir::ValueId self, std::size_t rank) const;
  Mask union_(const ir::Node& node, const ir::Value& out) const;

  const ir::Graph& graph_;
  std::vector<Mask> mask_;
  std::vector<bool> long_;
};

Mask Follower::contraction(const ir::Node& node, std::string_view base, std::size_t rank) const {
  const bool add = base == "addmm" || base == "baddbmm";
  const Symbol left_name = base == "addmm" ? Symbol("mat1") : base == "baddbmm" ? Symbol("batch1") : Symbol("self");
  const Symbol right_name = base == "mm" || base == "bmm" ? Symbol("mat2") : base == "addmm" ? Symbol("mat2") : Symbol("batch2");
  const ir::ValueId left = ir::useArg(node, left_name), right = ir::useArg(node, right_name);
  const auto n = static_cast<std::int64_t>(rank);
  Mask mask = 0;
  const Mask last = bit(n - 1), before = bit(n - 2), batch = allDims(rank) & ~last & ~before;
  mask |= maskOf(left) & (batch | before);
  mask |= maskOf(right) & (batch | last);
  if (add) {
    const ir::ValueId self = ir::useArg(node, "self");
    if (self != ir::kNone && local(self).size() == rank) mask |= maskOf(self);
  }
  return mask;
}

Mask Follower::reduction(const ir::Node& node, ir::ValueId self, std::size_t rank) const {
  const std::size_t in_rank = local(self).size();
  auto dims = ir::intListArg(node, "dim");
  if (!dims || dims->empty()) return 0;
  Mask gone = 0;
  for (const std::int64_t d : *dims) gone |= bit(wrap(d, in_rank));
  const Mask left = maskOf(self) & ~gone;
  if (rank == in_rank) return left;
  Mask mask = 0;
  std::int64_t o = 0;
  for (std::size_t d = 0; d < in_rank; ++d) {
    if (gone & bit(static_cast<std::int64_t>(d))) continue;
    if (left & bit(static_cast<std::int64_t>(d))) mask |= bit(o);
    ++o;
  }
  return mask;
}

/// Elementwise where every long operand broadcasts to the result; otherwise anything may have happened to the dimensions.
Mask Follower::union_(const ir::Node& node, const ir::Value& out) const {
  Mask mask = 0;
  bool any = false, fits = true;
  const std::size_t rank = out.local.size();
  ir::forEachUse(node, [&](const ir::Use& use) {
    const Mask from = maskOf(use.value);
    if (from == 0) return;
    any = true;
    const Dims& in = local(use.value);
    if (in.size() > rank) {
      fits = false;
      return;
    }
    const std::size_t shift = rank - in.size();
    for (std::size_t d = 0; d < in.size(); ++d)
      if (in[d] != out.local[d + shift] && in[d] != 1) fits = false;
    mask |= from << shift;
  });
  if (!any || rank == 0) return 0;
  return fits ? mask : allDims(rank);
}

Mask Follower::follow(const ir::Node& node, const ir::Value& out) const {
  const std::string_view base = ir::baseName(node.op);
  const std::size_t rank = out.local.size();
  if (rank == 0) return 0;  // a scalar never grows
  const ir::ValueId self = ir::useArg(node, "self");
  if (self == ir::kNone) return union_(node, out);
  const Dims& in = local(self);
  const Mask mask = maskOf(self);
  if (oneOf(base, {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "_reshape_alias"}))
    return throughView(in, mask, out.local);
  if (base == "t" || base == "transpose") {
    if (in.size() < 2) return mask;
    const std::int64_t a = base == "t" ? 0 : wrap(ir::intArg(node, "dim0", 0), in.size());
    const std::int64_t b = base == "t" ? 1 : wrap(ir::intArg(node, "dim1", 0), in.size());
    Mask moved = mask & ~bit(a) & ~bit(b);
    if (mask & bit(a)) moved |= bit(b);
    if (mask & bit(b)) moved |= bit(a);
    return moved;
  }
  if (base == "permute") {
    const auto dims = ir::intListArg(node, "dims");
    if (!dims) return mask ? allDims(rank) : 0;
    Mask moved = 0;
    for (std::size_t d = 0; d < dims->size(); ++d)
      if (mask & bit(wrap((*dims)[d], in.size()))) moved |= bit(static_cast<std::int64_t>(d));
    return moved;
  }
  if (base == "expand") return mask << (rank - std::min(rank, in.size()));
  if (base == "select") {
    const std::int64_t dim = wrap(ir::intArg(node, "dim", 0), in.size());
    const Mask low = mask & (bit(dim) - 1);
    return low | ((mask & ~(bit(dim) - 1) & ~bit(dim)) >> 1);
  }
  if (oneOf(base, {"slice", "split", "split_with_sizes", "chunk", "narrow", "constant_pad_nd", "as_strided"}))
    return base == "as_strided" ? (mask ? allDims(rank) : 0) : mask;
  if (oneOf(base, {"mm", "bmm", "addmm", "baddbmm"})) return contraction(node, base, rank);
  if (oneOf(base, {"sum", "mean", "amax", "amin", "var", "std", "var_mean", "max", "min", "argmax", "argmin", "any",
                   "all", "logsumexp", "prod", "norm", "linalg_vector_norm"}))
    return reduction(node, self, rank);
  return union_(node, out);
}

}  // namespace

std::vector<bool> findLongValues(const ir::Graph& joint) { return Follower(joint).run(); }

}  // namespace spscope::passes
