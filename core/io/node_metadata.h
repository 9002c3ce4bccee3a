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

/// Makes Locations; nodes with equal strings share one. The strings must outlive the reader.
class MetadataReader {
 public:
  /// nullptr where both are empty.
  ir::LocationRef location(std::string_view module_stack, std::string_view stack_trace);
  std::int64_t unreadable() const { return unreadable_; }
  const std::string& firstUnreadable() const { return first_unreadable_; }

 private:
  struct Key {
    std::string_view modules, trace;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return std::hash<std::string_view>()(k.modules) * 31 + std::hash<std::string_view>()(k.trace);
    }
  };
  std::unordered_map<Key, ir::LocationRef, Hash> locations_;
  std::unordered_map<std::string_view, ModuleRef> modules_;
  std::int64_t unreadable_ = 0;
  std::string first_unreadable_;
};

}  // namespace spscope::io
