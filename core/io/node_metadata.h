// SPDX-License-Identifier: Apache-2.0
// Where a node comes from: reads the exporter's nn_module_stack and stack_trace strings into shared Locations.
// Metadata is optional in every respect: what cannot be read is left out and counted, never an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/ir/graph.h"

namespace spscope::io {

/// The innermost module of "key,path,type;key,path,type": path "model.layers.3.self_attn" and class "LlamaAttention".
struct ModuleRef {
  std::string path, type;
};
/// False when the text does not have that form (unbalanced brackets, too few fields).
bool parseModuleStack(std::string_view stack, ModuleRef* out);

/// "modeling_llama.py:271": the innermost frame that is not PyTorch's own, "" where there is none.
std::string sourceOfStack(std::string_view trace);

/// What the user said of a node's results, as CheckpointPolicy spells it: torch.fx.traceback.annotate({"recompute":
/// "must_save"}) around the code. Both "recompute" policies are one, as in AOTAutograd; "prefer_save" says nothing.
/// A torch.utils.checkpoint leaves its mark too: torch's exporter notes the wrapper that Dynamo does not enter.
enum class SavingMark : std::uint8_t { kNone, kSave, kRecompute };
SavingMark savingMarkOf(std::string_view custom);

/// Makes Locations; nodes with equal strings share one. The strings must outlive the reader.
class MetadataReader {
 public:
  /// nullptr where there is nothing to say. `checkpoint`: see ir::Location.
  ir::LocationRef location(std::string_view module_stack, std::string_view stack_trace, std::int32_t checkpoint = 0);
  /// savingMarkOf, each text read once.
  SavingMark savingMark(std::string_view custom);
  std::int64_t unreadable() const { return unreadable_; }
  const std::string& firstUnreadable() const { return first_unreadable_; }

 private:
  struct Key {
    std::string_view modules, trace;
    std::int32_t checkpoint = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return std::hash<std::string_view>()(k.modules) * 31 + std::hash<std::string_view>()(k.trace) +
             static_cast<std::size_t>(k.checkpoint) * 1000003;
    }
  };
  std::unordered_map<Key, ir::LocationRef, Hash> locations_;
  std::unordered_map<std::string_view, ModuleRef> modules_;
  std::unordered_map<std::string_view, SavingMark> marks_;
  std::int64_t unreadable_ = 0;
  std::string first_unreadable_;
};

}  // namespace spscope::io
