// SPDX-License-Identifier: Apache-2.0
// 128-bit integers for products of sizes, without a warning in every line that uses them.
#pragma once

namespace spscope::io {
__extension__ typedef __int128 Int128;
}  // namespace spscope::io
