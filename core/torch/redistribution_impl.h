// SPDX-License-Identifier: Apache-2.0
// The tensor side of a redistribution: pack, exchange, unpack. Only for core/torch (it includes ATen).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/base/result.h"
#include "core/dist/collectives.h"
#include "core/torch/redistribution.h"

namespace spscope::exec {

/// Flat, contiguous: what goes to rank 0, then to rank 1 ... Shares memory with `input` where nothing has to move.
at::Tensor packForSend(const Redistribution& r, const at::Tensor& input);
/// An uninitialised flat buffer for what comes in.
at::Tensor makeReceiveBuffer(const Redistribution& r, const at::Tensor& like);
/// The result from the filled receive buffer; shares its memory where nothing has to move. Contiguous.
at::Tensor unpackReceived(const Redistribution& r, at::Tensor received);
/// slice and vary: no traffic.
at::Tensor runLocal(const Redistribution& r, const at::Tensor& input);
/// Error "sp-op" when the tensor's shape is not what the program says.
Status checkInput(const Redistribution& r, const at::Tensor& input);

/// The whole thing on one real rank. `collectives` may be null where r.ranks == 1.
Result<at::Tensor> redistribute(const Redistribution& r, const at::Tensor& input, dist::Collectives* collectives);

/// The same for all ranks in one process, in lockstep. `inputs` and `descriptions` have one entry per rank;
/// enter(rank) is called before memory is allocated on behalf of a rank.
template <typename Enter>
std::vector<at::Tensor> redistributeTogether(const std::vector<const Redistribution*>& descriptions,
                                             const std::vector<at::Tensor>& inputs, Enter&& enter);

/// dst[begin, begin+count) += or = src[from, from+count), flat tensors.
void moveFlat(at::Tensor& dst, std::int64_t begin, const at::Tensor& src, std::int64_t from, std::int64_t count, bool add);

template <typename Enter>
std::vector<at::Tensor> redistributeTogether(const std::vector<const Redistribution*>& descriptions,
                                             const std::vector<at::Tensor>& inputs, Enter&& enter) {
  const int ranks = static_cast<int>(inputs.size());
  const SpKind kind = descriptions.front()->kind;
  std::vector<at::Tensor> results(inputs.size());
  if (!descriptions.front()->communicates()) {
    for (int r = 0; r < ranks; ++r) {
      auto scope = enter(r);
      results[static_cast<std::size_t>(r)] = runLocal(*descriptions[static_cast<std::size_t>(r)], inputs[static_cast<std::size_t>(r)]);
    }
    return results;
  }
  std::vector<at::Tensor> send(inputs.size()), recv(inputs.size());
  std::vector<ir::Dims> send_at(inputs.size());
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    auto scope = enter(r);
    send[i] = packForSend(*descriptions[i], inputs[i]);
    recv[i] = makeReceiveBuffer(*descriptions[i], inputs[i]);
    send_at[i] = ir::offsetsOf(descriptions[i]->sendCounts());
  }
  for (int to = 0; to < ranks; ++to) {
    const auto t = static_cast<std::size_t>(to);
    if (kind == SpKind::kAllReduce) {  // every rank adds in rank order: the same bits everywhere
      for (int from = 0; from < ranks; ++from)
        moveFlat(recv[t], 0, send[static_cast<std::size_t>(from)], 0, recv[t].numel(), from > 0);
      continue;
    }
    const ir::Dims counts = descriptions[t]->recvCounts();
    const ir::Dims recv_at = ir::offsetsOf(counts);
    for (int from = 0; from < ranks; ++from) {
      const auto f = static_cast<std::size_t>(from);
      if (kind == SpKind::kReduceScatter)
        moveFlat(recv[t], 0, send[f], send_at[f][t], recv[t].numel(), from > 0);
      else
        moveFlat(recv[t], recv_at[f], send[f], kind == SpKind::kAllGather ? 0 : send_at[f][t], counts[f], false);
    }
  }
  send.clear();
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    auto scope = enter(r);
    results[i] = unpackReceived(*descriptions[i], std::move(recv[i]));
  }
  return results;
}

}  // namespace spscope::exec
