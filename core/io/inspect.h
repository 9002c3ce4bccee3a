// SPDX-License-Identifier: Apache-2.0
// What a graph holds, for people and for `spscope inspect`: ops, attention, parameters, the sequence. Works on any
// graph, as imported or as a saved stage; reads no weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/io/program.h"
#include "core/ir/graph.h"

namespace spscope::io {

struct AttentionInfo {
  std::string node;    ///< the fused op, or the softmax of an eager attention
  std::string source;
  std::string kind;    ///< "sdpa" (a fused op) or "eager"
  std::string mask;    ///< "none", "causal" or "explicit"
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  ///< kv_heads before any repetition in the graph
  bool mask_per_head = false;  ///< the explicit mask has a head dimension of its own (ALiBi)
};

struct Inspection {
  std::vector<UserInput> inputs;
  std::int64_t nodes = 0;
  std::map<std::string, std::int64_t> ops;
  std::vector<AttentionInfo> attention;
  std::int64_t parameters = 0;       ///< elements, tied ones once
  std::int64_t trainable = 0;        ///< of them
  std::int64_t parameter_bytes = 0;  ///< in the file's types
  std::vector<std::string> written_buffers;  ///< buffers that the program changes (running means)
  std::string sequence_input;        ///< "" where none was found
  int sequence_dim = 0;
  std::int64_t sequence_length = 0;
  bool dynamic = false;
};

/// Of a graph without its file: a saved stage.
Inspection inspect(const ir::Graph& graph);
/// Of a file; counts nodes and ops as the file has them.
Inspection inspect(const ImportedModel& model);

}  // namespace spscope::io
