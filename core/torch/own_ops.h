// SPDX-License-Identifier: Apache-2.0
// Kernels of our own under the dispatcher's library "spscope": attention whose mask is a rule (core/ir/mask_rule.h), and
// cross entropy that makes the logits a block of rows at a time (core/ir/tiled_loss.h). Unlike the sp.* ops they run as
// any ATen op does, have derivatives, and are recorded by the capture.
#pragma once

#include <cstdint>

namespace spscope::exec {

/// Registers the library, once per process. Any thread.
void registerOwnOps();

/// Queries, and keys, that are looked at together: seen by all, by none, or by some. A block of a mask has so many rows and
/// columns: 256 KiB in float32.
inline constexpr std::int64_t kMaskStep = 256;
/// Keys of one call of the kernel, at most.
inline constexpr std::int64_t kKeyRun = 4096;

}  // namespace spscope::exec
