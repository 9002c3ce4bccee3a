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
  if (r.kind != SpKind::kSlice) return input;
  const ir::Dims offsets = ir::offsetsOf(r.scatter_blocks);
  return input.narrow(r.scatter_dim, offsets[static_cast<std::size_t>(r.rank)],
                      r.scatter_blocks[static_cast<std::size_t>(r.rank)])
      .contiguous();
}

void moveFlat(at::Tensor& dst, std::int64_t begin, const at::Tensor& src, std::int64_t from, std::int64_t count,
              bool add) {
  if (count == 0) return;
  at::Tensor target = dst.narrow(0, begin, count);
  const at::Tensor source = src.narrow(0, from, count);
  if (add)
    target.add_(source);
  else
    target.copy_(source);
}

Result<at::Tensor> redistribute(const Redistribution& r, const at::Tensor& input, dist::Collectives* collectives) {
  SP_TRY(checkInput(r, input));
  if (!r.communicates()) return runLocal(r, input);
  if (r.kind == SpKind::kAllReduce) {
    // A copy even on one rank: the operand keeps its value.
    at::Tensor result = emptyLike(r.input, input);
    result.copy_(input);
    if (r.ranks > 1) SP_TRY(collectives->allReduceSum(bufferOf(result)));
    return result;
  }
  at::Tensor send = packForSend(r, input);
  at::Tensor recv = makeReceiveBuffer(r, input);
  if (r.ranks == 1) {
    recv.copy_(send);
  } else {
    const ir::Dims sends = r.sendCounts();
    const ir::Dims recvs = r.recvCounts();
    switch (r.kind) {
      case SpKind::kAllToAll: SP_TRY(collectives->allToAll(bufferOf(send), sends, bufferOf(recv), recvs)); break;
      case SpKind::kAllGather: SP_TRY(collectives->allGather(bufferOf(send), bufferOf(recv), recvs)); break;
      default: SP_TRY(collectives->reduceScatterSum(bufferOf(send), bufferOf(recv), sends)); break;
    }
  }
  send.reset();
  return unpackReceived(r, std::move(recv));
}

}  // namespace spscope::exec
