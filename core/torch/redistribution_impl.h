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

/// One operand between its start and its wait. all_reduce: `send` is not defined, the sum is made in `receive`.
struct Transfer {
  at::Tensor send, receive;
};
/// Packs. all_reduce: `in_place` receives in the operand where its memory is in order, else in a copy.
Transfer beginTransfer(const Redistribution& r, const at::Tensor& input, bool in_place = false);
dist::CollectivePart partOf(const Redistribution& r, const Transfer& transfer);
dist::CollectiveKind collectiveKind(SpKind kind);

/// What real ranks' collectives do, between tensors of one process; `transfers` and `descriptions` have one entry per rank.
/// Sums are made in rank order, so that all ranks get the same bits.
void exchangeTogether(const std::vector<const Redistribution*>& descriptions, std::vector<Transfer>& transfers);

}  // namespace spscope::exec
