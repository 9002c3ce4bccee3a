// SPDX-License-Identifier: Apache-2.0
// A dump of PyTorch's Flight Recorder: what one rank of somebody's run remembers of its last collectives. JSON and the
// pickled form (torch 2.2 to 2.15: versions 2.0 to 2.10 of the format); a pickle is read as plain data, nothing in it runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::io {

struct RecordedFrame {
  std::string name, file;
  std::int64_t line = 0;
};

/// One call of a collective, a send or a recv. Sizes: a list of shapes, one a tensor.
struct RecordedOp {
  std::int64_t record = 0;      ///< counts all ops that the rank has recorded; a gap before the first: overwritten
  std::int64_t seq = 0;         ///< number of the collective in its group; p2p ops have one of their own
  std::int64_t pg_id = -1;      ///< key of RecorderDump::status
  std::string group, group_desc;
  std::string backend;          ///< "nccl", "gloo" …
  std::string op;               ///< "all_reduce", "send"
  bool is_p2p = false;
  int source = -1, target = -1;  ///< of p2p ops: ranks within the group; -1: not known (recv from any)
  std::vector<std::vector<std::int64_t>> input_sizes, output_sizes;
  std::vector<std::string> input_dtypes, output_dtypes;
  std::string state;            ///< "scheduled", "started", "completed", as the recorder writes it
  bool retired = false;         ///< the process group has done with it: completed, or timed out
  std::int64_t created_ns = 0;  ///< wall clock of the rank's machine; 0: not known
  std::int64_t started_ns = 0, completed_ns = 0;  ///< when that was noticed; 0: not, or not known
  std::int64_t timeout_ms = 0;
  std::vector<RecordedFrame> frames;  ///< innermost first

  /// Gloo's ops have no state of their own: theirs is over when it is retired.
  bool completed = false;
};

struct RecorderDump {
  std::string path;
  int rank = 0;
  std::string version, comm_lib_version, host;
  std::vector<RecordedOp> ops;  ///< in the order of `record`
  /// name → global ranks, ascending. What the recorder did not say is not there. Gloo's files every group under "", one over
  /// the other: those ranks exist, and that is all it says.
  std::map<std::string, std::vector<int>> groups;
  std::int64_t unreadable_ops = 0;  ///< entries without what is needed to place them
};

/// `rank` holds where the dump does not name its own. Errors: recorder-format, pickle-not-plain, pickle-corrupt, json-syntax.
Result<RecorderDump> readFlightRecorder(std::span<const std::byte> bytes, const std::string& path, std::optional<int> rank);

/// Files, and folders of files whose names end in a rank (rank_3, nccl_trace_rank_3.json); of a folder only those that begin
/// with `prefix`. Sorted by rank. Errors: those above, of files; recorder-ranks (two of one rank, no rank in the name, several
/// prefixes in a folder).
Result<std::vector<RecorderDump>> readFlightRecorders(const std::vector<std::string>& paths, const std::string& prefix);

}  // namespace spscope::io
