// SPDX-License-Identifier: Apache-2.0
// Turns the node list of an exported program into nodes of our graph: arguments to attributes, scalars on sizes
// computed away, sub-graphs inlined, autocast and no-grad regions made explicit. Inputs and signature: program.cpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/cancel.h"
#include "core/io/autocast.h"
#include "core/io/json.h"
#include "core/io/node_metadata.h"
#include "core/io/sym_scalars.h"
#include "core/io/tensor_meta.h"
#include "core/ir/graph.h"

namespace spscope::io {

/// What a name of the file stands for: Python's None, a tensor, a list of tensors, or a number.
using Binding = std::variant<std::monostate, ir::ValueId, std::vector<ir::ValueId>, Scalar>;
/// Names of one (sub-)graph. The keys are views of the JSON text.
using Scope = std::unordered_map<std::string_view, Binding>;

class GraphBuilder {
 public:
  GraphBuilder(ir::Graph& graph, SymbolTable& symbols, MetadataReader& metadata, CancelToken cancel)
      : graph_(graph), symbols_(symbols), metadata_(metadata), cancel_(std::move(cancel)) {}

  /// Appends the nodes of a graph object to the order; `scope` holds its inputs and gets every value.
  Status addNodes(const Json& graph, Scope& scope);
  /// What an argument ({"as_tensor":{"name":…}} …) stands for in the scope.
  Result<Binding> resolve(const Json& argument, const Scope& scope, const std::string& what);

  bool sawAutocast() const { return saw_autocast_; }
  std::int64_t nodesRead() const { return nodes_read_; }
  /// How often each target occurs in the file ("aten.linear.default"), checks and wrappers included.
  std::map<std::string, std::int64_t> targets() const;

 private:
  struct RawNode;
  struct Region {
    AutocastState autocast;
    std::int32_t checkpoint = 0;  ///< of the sub-graph that is being read
  };
  using TensorValues = std::unordered_map<std::string_view, Json>;

  static Result<RawNode> readNode(const Json& json);
  std::int32_t checkpointOf(const RawNode& raw, SavingMark mark);
  Status addNode(const RawNode& raw, Scope& scope, const TensorValues& tensors, const Json& graph);
  Status addOperation(const RawNode& raw, Scope& scope, const TensorValues& tensors, const ir::LocationRef& location);
  Status addScalar(const RawNode& raw, Scope& scope, const Json& graph, const ir::LocationRef& location);
  Status inlineSubgraph(const RawNode& raw, Scope& scope, const ir::LocationRef& location);
  Status addOutputs(ir::NodeId node, const RawNode& raw, Scope& scope, const TensorValues& tensors);
  Result<ir::Attribute> attribute(const Json& argument, const Scope& scope, const std::string& what);
  Result<ir::UseList> useList(const Json& list, const Scope& scope, const std::string& what);
  Result<Scalar> scalarOf(const Json& sym, const Scope& scope, const std::string& what);
  void applyAutocast(ir::Node& pending, ir::DType result, const ir::LocationRef& location);
  ir::ValueId cast(ir::ValueId value, ir::DType to, const ir::LocationRef& location);
  Symbol interned(std::string_view text);
  static Error fail(std::string_view code, std::string message, const RawNode& raw, const ir::LocationRef& location);

  ir::Graph& graph_;
  SymbolTable& symbols_;
  MetadataReader& metadata_;
  CancelToken cancel_;
  Region region_;
  std::unordered_map<std::string_view, Symbol> interned_;
  std::map<std::pair<ir::ValueId, ir::DType>, ir::ValueId> weight_casts_;
  std::unordered_map<std::string_view, std::int64_t> targets_;
  std::int64_t nodes_read_ = 0;
  std::int32_t checkpoints_ = 0;        ///< regions so far
  bool marked_before_ = false;          ///< the node before carries a mark of its own,
  std::string marked_layer_;            ///< in this layer
  bool saw_autocast_ = false;
};

/// Names of files may hold any text; names of graphs are identifiers ("a b" -> "a_b").
std::string identifier(std::string_view text);

}  // namespace spscope::io
