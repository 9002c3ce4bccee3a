// SPDX-License-Identifier: Apache-2.0
#include "core/torch/redistribution.h"

#include <numeric>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"

namespace spscope::exec {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// No element in front of `dim` but one: its blocks lie one after the other.
bool outermost(const ir::Dims& shape, std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d)
    if (shape[at(d)] != 1) return false;
  return true;
}

Error fault(const ir::Node& node, std::string message) {
  Error error = makeError("sp-op", node.op.str() + ": " + std::move(message));
  error.node = "%" + node.name;
  if (node.location) error.source = node.location->source;
  return error;
}

Status readDim(const ir::Node& node, Symbol name, std::size_t rank_of_tensor, std::int64_t* out) {
  const std::int64_t n = static_cast<std::int64_t>(rank_of_tensor);
  std::int64_t dim = ir::intArg(node, name, n);
  if (dim < 0) dim += n;
  if (dim < 0 || dim >= n)
    return fault(node, strf("%s is not a dimension of a tensor with %lld", name.str().c_str(), static_cast<long long>(n)));
  *out = dim;
  return {};
}

Status readBlocks(const ir::Node& node, Symbol name, int ranks, ir::Dims* out) {
  const auto blocks = ir::intListArg(node, name);
  if (!blocks || blocks->size() != at(ranks))
    return fault(node, strf("%s has %zu entries for %d ranks", name.str().c_str(), blocks ? blocks->size() : 0, ranks));
  for (const std::int64_t block : *blocks)
    if (block < 0) return fault(node, name.str() + " holds a negative size");
  *out = *blocks;
  return {};
}

Status wantSize(const ir::Node& node, const ir::Dims& shape, std::int64_t dim, std::int64_t size) {
  if (shape[at(dim)] != size)
    return fault(node, strf("dimension %lld has %lld elements on this rank, its blocks say %lld",
                            static_cast<long long>(dim), static_cast<long long>(shape[at(dim)]),
                            static_cast<long long>(size)));
  return {};
}

}  // namespace

bool isRedistribution(Symbol op) {
  using namespace ir::sp;
  return op == kVary || op == kSlice || op == kAllReduce || op == kAllGather || op == kReduceScatter || op == kAllToAll;
}

Result<Redistribution> describe(const ir::Node& node, const ir::Dims& input, int rank, int ranks) {
  using namespace ir::sp;
  Redistribution r;
  r.axis = ir::axisOf(node);
  r.rank = rank;
  r.ranks = ranks;
  r.input = r.output = input;
  const auto total = [](const ir::Dims& blocks) { return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}); };
  const auto mine = [&](const ir::Dims& blocks) { return blocks[at(rank)]; };

  if (node.op == kVary) {
    r.kind = SpKind::kVary;
    return r;
  }
  if (node.op == kAllReduce) {
    r.kind = SpKind::kAllReduce;
    return r;
  }
  if (node.op == kAllGather) {
    r.kind = SpKind::kAllGather;
    SP_TRY(readDim(node, "dim", input.size(), &r.gather_dim));
    SP_TRY(readBlocks(node, "blocks", ranks, &r.gather_blocks));
    SP_TRY(wantSize(node, input, r.gather_dim, mine(r.gather_blocks)));
    r.output[at(r.gather_dim)] = total(r.gather_blocks);
    return r;
  }
  if (node.op == kSlice || node.op == kReduceScatter) {
    r.kind = node.op == kSlice ? SpKind::kSlice : SpKind::kReduceScatter;
    SP_TRY(readDim(node, "dim", input.size(), &r.scatter_dim));
    SP_TRY(readBlocks(node, "blocks", ranks, &r.scatter_blocks));
    SP_TRY(wantSize(node, input, r.scatter_dim, total(r.scatter_blocks)));
    r.output[at(r.scatter_dim)] = mine(r.scatter_blocks);
    return r;
  }
  if (node.op == kAllToAll) {
    r.kind = SpKind::kAllToAll;
    SP_TRY(readDim(node, "gather_dim", input.size(), &r.gather_dim));
    SP_TRY(readDim(node, "scatter_dim", input.size(), &r.scatter_dim));
    if (r.gather_dim == r.scatter_dim) return fault(node, "gather_dim and scatter_dim are the same");
    SP_TRY(readBlocks(node, "gather_blocks", ranks, &r.gather_blocks));
    SP_TRY(readBlocks(node, "scatter_blocks", ranks, &r.scatter_blocks));
    SP_TRY(wantSize(node, input, r.gather_dim, mine(r.gather_blocks)));
    SP_TRY(wantSize(node, input, r.scatter_dim, total(r.scatter_blocks)));
    r.output[at(r.gather_dim)] = total(r.gather_blocks);
    r.output[at(r.scatter_dim)] = mine(r.scatter_blocks);
    return r;
  }
  return fault(node, "is not an op that can be executed");
}

Result<Redistribution> describeUnpack(const ir::Node& node, const ir::Dims& output, int rank, int ranks) {
  Redistribution r;
  r.axis = ir::axisOf(node);
  r.kind = SpKind::kUnpack;
  r.rank = rank;
  r.ranks = ranks;
  r.input = {ir::numel(output)};
  r.output = output;
  SP_TRY(readDim(node, "dim", output.size(), &r.gather_dim));
  SP_TRY(readBlocks(node, "blocks", ranks, &r.gather_blocks));
  SP_TRY(wantSize(node, output, r.gather_dim, std::accumulate(r.gather_blocks.begin(), r.gather_blocks.end(), std::int64_t{0})));
  return r;
}

ir::Dims Redistribution::sendPart(int peer) const {
  ir::Dims part = input;
  if (kind == SpKind::kAllToAll || kind == SpKind::kReduceScatter) part[at(scatter_dim)] = scatter_blocks[at(peer)];
  return part;
}

ir::Dims Redistribution::recvPart(int peer) const {
  ir::Dims part = output;
  if (kind == SpKind::kAllToAll || kind == SpKind::kAllGather || kind == SpKind::kUnpack)
    part[at(gather_dim)] = gather_blocks[at(peer)];
  return part;
}

ir::Dims Redistribution::sendCounts() const {
  ir::Dims counts;
  for (int peer = 0; peer < ranks; ++peer) counts.push_back(ir::numel(sendPart(peer)));
  return counts;
}

ir::Dims Redistribution::recvCounts() const {
  ir::Dims counts;
  for (int peer = 0; peer < ranks; ++peer) counts.push_back(ir::numel(recvPart(peer)));
  return counts;
}

bool Redistribution::packFree() const {
  if (kind == SpKind::kAllToAll || kind == SpKind::kReduceScatter) return outermost(input, scatter_dim);
  return true;
}

bool Redistribution::unpackFree() const {
  if (kind == SpKind::kAllToAll || kind == SpKind::kAllGather || kind == SpKind::kUnpack) return outermost(output, gather_dim);
  return true;
}

std::int64_t Redistribution::bytesSent(std::int64_t element_size) const {
  if (!communicates() || ranks == 1) return 0;
  const std::int64_t whole = ir::numel(input);
  switch (kind) {
    case SpKind::kAllToAll:
    case SpKind::kReduceScatter: return (whole - ir::numel(sendPart(rank))) * element_size;
    case SpKind::kAllGather: return whole * (ranks - 1) * element_size;
    // What a bandwidth-optimal all-reduce (reduce-scatter + all-gather) sends: 2 (P-1)/P of the tensor.
    case SpKind::kAllReduce: return 2 * whole * (ranks - 1) / ranks * element_size;
    default: return 0;
  }
}

}  // namespace spscope::exec
