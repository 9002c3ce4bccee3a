// SPDX-License-Identifier: Apache-2.0
// The kept dumps of tests/data/hangs, and dumps built in memory as the recorder would write them.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/io/flight_recorder.h"

namespace spscope::testing {

inline std::string hangFolder(const std::string& name) { return std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/hangs/" + name; }

inline std::string bytesOfFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// An op of a group of all ranks, not completed unless said so.
inline io::RecordedOp recorded(std::int64_t seq, const std::string& op, bool completed, std::vector<std::int64_t> shape = {8}, const std::string& group = "0") {
  io::RecordedOp out;
  out.seq = out.record = seq;
  out.group = group;
  out.group_desc = group == "0" ? "default_pg" : "loss";
  out.backend = "nccl";
  out.op = op;
  out.input_sizes = out.output_sizes = {std::move(shape)};
  out.input_dtypes = out.output_dtypes = {"Float"};
  out.state = completed ? "completed" : "started";
  out.completed = completed;
  out.created_ns = 1'000'000'000 + seq;
  return out;
}

inline io::RecorderDump dumpOf(int rank, std::vector<io::RecordedOp> ops, std::vector<int> members) {
  io::RecorderDump out;
  out.rank = rank;
  out.version = "2.10";
  out.ops = std::move(ops);
  out.groups = {{"0", members}, {"1", members}};
  return out;
}

}  // namespace spscope::testing
