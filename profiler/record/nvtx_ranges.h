// SPDX-License-Identifier: Apache-2.0
// What runs, as NVTX ranges in the domain "spscope": steps, phases, module paths, nodes, collectives. Under `nsys profile` (or
// any other injected tool) they appear on its timeline; without one a call costs a few nanoseconds. No NVTX header here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace spscope::trace {

/// Ranges nest per thread: what is pushed is popped by the same thread. Names are registered strings, once each.
class NvtxRanges {
 public:
  NvtxRanges();
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;

  enum class Kind : std::uint32_t { kStep = 1, kPhase, kModule, kNode, kCollective };  ///< the category shown by tools
  /// `payload`: the node's id; -1: none.
  void push(Kind kind, const std::string& name, std::int64_t payload = -1);
  void pop();
  void mark(const std::string& text);

  /// Whether a tool has asked for NVTX in this process (NVTX_INJECTION64_PATH): otherwise there is nobody to tell.
  static bool toolPresent();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::trace
