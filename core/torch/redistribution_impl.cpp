// SPDX-License-Identifier: Apache-2.0
#include "core/torch/redistribution_impl.h"

#include <ATen/ops/empty.h>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"

namespace spscope::exec {
namespace {

dist::Buffer bufferOf(const at::Tensor& tensor) {
  return {tensor.numel() == 0 ? nullptr : tensor.mutable_data_ptr(), tensor.numel(), toDType(tensor.scalar_type())};
}

at::Tensor emptyLike(const ir::Dims& shape, const at::Tensor& like) { return at::empty(shape, like.options()); }

}  // namespace

Status checkInput(const Redistribution& r, const at::Tensor& input) {
  if (input.sizes() == at::IntArrayRef(r.input)) return {};
  return makeError("sp-op", "the tensor is [" + join(input.sizes().vec(), ", ") + "], the program says [" +
                                join(r.input, ", ") + "]", Outcome::kRunFailed);
}

at::Tensor packForSend(const Redistribution& r, const at::Tensor& input) {
  if (r.packFree()) return input.contiguous().view({-1});
  at::Tensor flat = emptyLike({input.numel()}, input);
  std::int64_t begin = 0;
  std::int64_t first = 0;
  for (int peer = 0; peer < r.ranks; ++peer) {
    const ir::Dims part = r.sendPart(peer);
    const std::int64_t count = ir::numel(part);
    const std::int64_t block = r.scatter_blocks[static_cast<std::size_t>(peer)];
    if (count > 0) flat.narrow(0, begin, count).view(part).copy_(input.narrow(r.scatter_dim, first, block));
    begin += count;
    first += block;
  }
  return flat;
}

at::Tensor makeReceiveBuffer(const Redistribution& r, const at::Tensor& like) {
  return emptyLike({ir::numel(r.output)}, like);
}

at::Tensor unpackReceived(const Redistribution& r, at::Tensor received) {
  if (r.unpackFree()) return received.view(r.output);
  at::Tensor result = emptyLike(r.output, received);
  std::int64_t begin = 0;
  std::int64_t first = 0;
  for (int peer = 0; peer < r.ranks; ++peer) {
    const ir::Dims part = r.recvPart(peer);
    const std::int64_t count = ir::numel(part);
    const std::int64_t block = r.gather_blocks[static_cast<std::size_t>(peer)];
    if (count > 0) result.narrow(r.gather_dim, first, block).copy_(received.narrow(0, begin, count).view(part));
    begin += count;
    first += block;
  }
  return result;
}

at::Tensor runLocal(const Redistribution& r, const at::Tensor& input) {
  if (r.kind == SpKind::kUnpack) return unpackReceived(r, input);
  if (r.kind != SpKind::kSlice) return input;
  const ir::Dims offsets = ir::offsetsOf(r.scatter_blocks);
  return input.narrow(r.scatter_dim, offsets[static_cast<std::size_t>(r.rank)],
                      r.scatter_blocks[static_cast<std::size_t>(r.rank)])
      .contiguous();
}

Transfer beginTransfer(const Redistribution& r, const at::Tensor& input, bool in_place) {
  Transfer t;
  if (r.kind != SpKind::kAllReduce) {
    t.send = packForSend(r, input);
    t.receive = makeReceiveBuffer(r, input);
  } else if (in_place && input.is_contiguous()) {
    t.receive = input;
  } else {  // the operand keeps its value
    t.receive = emptyLike(r.input, input);
    t.receive.copy_(input);
  }
  return t;
}

dist::CollectiveKind collectiveKind(SpKind kind) {
  switch (kind) {
    case SpKind::kAllToAll: return dist::CollectiveKind::kAllToAll;
    case SpKind::kAllGather: return dist::CollectiveKind::kAllGather;
    case SpKind::kReduceScatter: return dist::CollectiveKind::kReduceScatter;
    default: return dist::CollectiveKind::kAllReduce;
  }
}

dist::CollectivePart partOf(const Redistribution& r, const Transfer& t) {
  dist::CollectivePart part;
  part.axis = r.axis;
  part.recv = bufferOf(t.receive);
  if (r.kind == SpKind::kAllReduce) return part;
  part.send = bufferOf(t.send);
  if (r.kind != SpKind::kAllGather) part.send_counts = r.sendCounts();
  if (r.kind != SpKind::kReduceScatter) part.recv_counts = r.recvCounts();
  return part;
}

namespace {

/// out = sum over the ranks of what each has from its `begins` on, in rank order; of 16-bit types in float32, rounded once.
at::Tensor sumInOrder(const std::vector<at::Tensor>& from, const ir::Dims& begins, std::int64_t count) {
  const at::ScalarType type = from[0].scalar_type();
  const bool half = type == at::kBFloat16 || type == at::kHalf;
  at::Tensor sum = from[0].narrow(0, begins[0], count).to(half ? at::kFloat : type, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t r = 1; r < from.size(); ++r) sum.add_(from[r].narrow(0, begins[r], count));
  return half ? sum.to(type) : sum;
}

}  // namespace

void exchangeTogether(const std::vector<const Redistribution*>& descriptions, std::vector<Transfer>& transfers) {
  const std::size_t ranks = transfers.size();
  const SpKind kind = descriptions.front()->kind;
  if (kind == SpKind::kAllReduce) {
    std::vector<at::Tensor> flat;
    for (const Transfer& t : transfers) flat.push_back(t.receive.view({-1}));
    const at::Tensor sum = sumInOrder(flat, ir::Dims(ranks, 0), flat.front().numel());
    for (at::Tensor& f : flat) f.copy_(sum);
    return;
  }
  std::vector<at::Tensor> send;
  std::vector<ir::Dims> send_at;
  for (std::size_t r = 0; r < ranks; ++r) {
    send.push_back(transfers[r].send);
    send_at.push_back(ir::offsetsOf(descriptions[r]->sendCounts()));
  }
  for (std::size_t to = 0; to < ranks; ++to) {
    at::Tensor& receive = transfers[to].receive;
    if (kind == SpKind::kReduceScatter) {
      ir::Dims begins;
      for (std::size_t from = 0; from < ranks; ++from) begins.push_back(send_at[from][to]);
      receive.copy_(sumInOrder(send, begins, receive.numel()));
      continue;
    }
    const ir::Dims counts = descriptions[to]->recvCounts();
    const ir::Dims recv_at = ir::offsetsOf(counts);
    for (std::size_t from = 0; from < ranks; ++from)
      if (counts[from] > 0)
        receive.narrow(0, recv_at[from], counts[from])
            .copy_(send[from].narrow(0, kind == SpKind::kAllGather ? 0 : send_at[from][to], counts[from]));
  }
}

}  // namespace spscope::exec
