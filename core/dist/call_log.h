// SPDX-License-Identifier: Apache-2.0
// What a rank remembers of its last collectives: kind, number, type, sizes, group, node, since when. Lies in the block that its launcher
// reads (rank_state.h), so that it is there after the rank has been killed, or while it does not run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/dtype.h"

namespace spscope::dist {

/// A collective begins, or has ended well, as the group tells it. Views: valid during the call.
struct CallNotice {
  std::string_view op;            ///< "all_reduce"
  std::string_view group;         ///< "": all ranks
  std::span<const int> members;   ///< of the group, by rank of the run; empty: all ranks
  std::int64_t sequence = 0;      ///< in the group
  ir::DType dtype = ir::DType::kUnknown;
  std::int64_t sent = -1, received = -1;  ///< elements of this rank's buffers; -1: the op has none
  bool even = true;               ///< all ranks have blocks of one size
  bool inside = true;             ///< false: it has ended
};

/// One that a rank remembers.
struct RecordedCall {
  std::int64_t record = 0;        ///< counts all of the rank
  std::string op, group, node;    ///< node: that had begun last
  std::vector<int> members;       ///< empty: all ranks
  std::int64_t sequence = 0, step = -1;
  ir::DType dtype = ir::DType::kUnknown;
  std::int64_t sent = -1, received = -1;
  bool even = true;
  std::int64_t begin_ns = 0, end_ns = 0;  ///< wall clock; end 0: it has not ended
};

/// One writer at a time. All zero is a valid beginning; nothing is allocated.
class CallLog {
 public:
  static constexpr std::size_t kCalls = 128;
  void begin(const CallNotice& call, std::string_view node, std::int64_t step) noexcept;
  /// The newest one of that group and number.
  void end(std::string_view group, std::int64_t sequence) noexcept;
  /// The last kCalls, oldest first; one that is being written is left out.
  std::vector<RecordedCall> read() const;

 private:
  static constexpr std::size_t kGroups = 4;
  struct Group {
    char name[32];
    char members[480];  ///< "0,2,4"; what does not fit is cut at a comma
  };
  struct Slot {
    std::atomic<std::int64_t> record;  ///< counted from 1; 0: empty, or being written
    char op[24], node[104];
    std::int32_t group, even;
    std::int64_t sequence, step, dtype, sent, received, begin_ns;
    std::atomic<std::int64_t> end_ns;
  };
  int groupOf(std::string_view name, std::span<const int> members) noexcept;

  std::atomic<std::int64_t> count_{0};
  std::array<Group, kGroups> groups_{};
  std::array<Slot, kCalls> slots_{};
};

}  // namespace spscope::dist
