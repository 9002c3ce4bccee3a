// SPDX-License-Identifier: Apache-2.0
// The graph that every stage of the pipeline is: ATen ops by name with named arguments, values with type and placement.
//
// A Graph is a plain value: copying it gives an independent graph (the pass manager keeps one per stage). Nodes and
// values are addressed by ids that are never reused, so that a node keeps its identity from stage to stage and two
// stages can be compared. `order` is the program order; a node that is not in it is dead and prints nowhere.
// Sizes are concrete: symbolic lengths are bound when the file is imported.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/base/symbol.h"
#include "core/ir/dtype.h"
#include "core/ir/placement.h"

namespace spscope::ir {

using NodeId = std::int32_t;
using ValueId = std::int32_t;
inline constexpr std::int32_t kNone = -1;

/// A device named by the file ("cpu", "cuda", "meta"); the executor remaps all of them to its own.
struct Device {
  std::string type;
  friend bool operator==(const Device&, const Device&) = default;
};
enum class MemoryFormat : std::uint8_t { kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };
enum class Layout : std::uint8_t { kStrided };

/// A tensor operand. kNone stands for Python's None in a list of optional tensors.
struct Use {
  ValueId value = kNone;
  friend bool operator==(const Use&, const Use&) = default;
};
using UseList = std::vector<Use>;

/// The value of one argument. std::monostate is Python's None.
using Attribute = std::variant<std::monostate, Use, UseList, std::int64_t, double, bool, std::string,
                               std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<std::string>, DType, MemoryFormat, Layout, Device>;

struct Argument {
  Symbol name;  ///< the schema's argument name ("self", "dim"); arguments at their default may be absent
  Attribute value;
  friend bool operator==(const Argument&, const Argument&) = default;
};

/// Where a node comes from in the user's program. Shared between nodes; immutable.
struct Location {
  std::string module_path;  ///< "model.layers.3.self_attn", "" at the top
  std::string module_type;  ///< "LlamaAttention", where known
  std::string source;       ///< "modeling_llama.py:271", where known
  std::string stack;        ///< the whole stack trace as the file has it, may be empty
  /// The user's activation checkpoint around it, numbered from 1: what is made inside is made again in the backward.
  std::int32_t checkpoint = 0;
  friend bool operator==(const Location&, const Location&) = default;
};
using LocationRef = std::shared_ptr<const Location>;

/// The layer of a module path: "model.layers.3" of "model.layers.3.mlp.up_proj", up to the first component that is a
/// number ("h.0", "encoder.layer.11"); "" where none is.
std::string_view layerOf(std::string_view module_path);

/// Which pass made or last changed a node, and from which nodes of the stage before.
struct Provenance {
  Symbol pass;
  boost::container::small_vector<NodeId, 2> from;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

enum class Phase : std::uint8_t { kForward, kBackward, kRecompute };

struct Node {
  NodeId id = kNone;
  Symbol op;         ///< "aten.mm.default", "sp.all_to_all.default"
  std::string name;  ///< unique in the graph; printed in diagnostics and as the name of a single output
  boost::container::small_vector<Argument, 4> args;
  boost::container::small_vector<ValueId, 2> outputs;  ///< kNone for an output that is undefined (not computed)
  LocationRef location;  ///< may be null
  Provenance provenance;
  Phase phase = Phase::kForward;
  NodeId forward = kNone;  ///< backward node: the forward node that it is the derivative of; recompute: the one it repeats
  bool must_save = false;  ///< the user's mark: outputs are saved, never recomputed

  const Attribute* find(Symbol argument) const;  ///< nullptr where absent
  Attribute* find(Symbol argument);
  void set(Symbol argument, Attribute value);    ///< replaces or appends
  void erase(Symbol argument);
};

/// What choose-saved decided about a value that the forward makes (kJoint graphs).
enum class Keep : std::uint8_t {
  kUnknown,    ///< not decided yet, or not made by the forward
  kSaved,      ///< kept from forward to backward
  kRecompute,  ///< made again in the backward, just before its first use
  kFreed,      ///< not needed after the forward
};

struct Value {
  ValueId id = kNone;
  std::string name;
  DType dtype = DType::kUnknown;
  bool requires_grad = false;
  NodeId producer = kNone;  ///< kNone: a graph input
  int output_index = 0;
  Dims shape;        ///< global shape, in the program as the user wrote it
  Factors factors;   ///< of `shape`; empty until plan-sequence (then one list per dimension)
  Placement placement;
  Dims local;        ///< shape on Graph::rank; equal to `shape` before shard-sequence
  ValueId storage = kNone;  ///< kJoint: the value whose storage this one shares (a view); kNone: it has its own
  std::int64_t storage_bytes = 0;  ///< kJoint, own storage only: bytes of the storage on Graph::rank
  Keep keep = Keep::kUnknown;      ///< kJoint, from choose-saved on
  std::int64_t localBytes() const { return numel(local) * sizeOf(dtype); }
};

enum class InputKind : std::uint8_t { kParameter, kBuffer, kConstant, kUser };

/// Where the bytes of a parameter, buffer or constant are: a storage of the file, and a strided window of it.
struct StorageRef {
  std::string record;  ///< archive member ("data/weights/weight_0"); equal records are one storage (tied weights)
  std::int64_t offset = 0;  ///< in elements
  Dims strides;             ///< in elements
  DType dtype = DType::kUnknown;  ///< of the bytes in the file; kUnknown: that of the value
  friend bool operator==(const StorageRef&, const StorageRef&) = default;
};

struct Input {
  ValueId value = kNone;
  InputKind kind = InputKind::kUser;
  std::string name;                 ///< parameter name or user input name
  std::vector<std::string> aliases; ///< further names of the same storage (tied weights)
  std::optional<StorageRef> storage;
  bool trainable = false;
  friend bool operator==(const Input&, const Input&) = default;
};

enum class OutputKind : std::uint8_t { kLoss, kGradient, kUser, kBufferUpdate };

struct Output {
  ValueId value = kNone;
  OutputKind kind = OutputKind::kUser;
  int input = kNone;  ///< kGradient, kBufferUpdate: index into Graph::inputs
  friend bool operator==(const Output&, const Output&) = default;
};

/// What stage of the pipeline a graph is in decides which invariants hold (see verifier.h).
enum class Form : std::uint8_t {
  kGlobal,   ///< as imported: one device's program, global shapes, may mutate
  kPlanned,  ///< placements and factors known, sp.redistribute nodes stand where placement changes; still global
  kLocal,    ///< the forward program of one rank class
  kJoint,    ///< forward and backward of one rank class
};

class Graph {
 public:
  std::string name;
  Form form = Form::kGlobal;
  Mesh mesh;
  int rank = 0;  ///< the rank (representative of its class) whose local shapes are shown; 0 before shard-sequence
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<NodeId> order;

  // --- access ---------------------------------------------------------------------------------------------------
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  std::size_t nodeCount() const { return nodes_.size(); }    ///< ids run below this; dead ones included
  std::size_t valueCount() const { return values_.size(); }

  // --- building -------------------------------------------------------------------------------------------------
  /// Adds a value without a producer (a graph input). References to values stay valid only until the next add.
  ValueId addValue(std::string name, DType dtype, Dims shape);
  /// Adds a node with its outputs, not yet in `order`. The name is made unique. References as above.
  NodeId addNode(Symbol op, std::string name);
  /// Adds an output value to the node; named after the node where `name` is empty.
  ValueId addOutput(NodeId node, DType dtype, Dims shape, std::string name = {});
  std::string uniqueName(std::string_view wanted);
  /// For readers of saved graphs: takes the node as it is, under its own id (ids skipped become dead nodes) and name.
  void adoptNode(Node node);
  /// For readers of saved graphs: appends the value as it is (its name is claimed, not made unique); sets its id.
  ValueId adoptValue(Value value);
  /// Makes ids below `count` exist, so that a graph read back never reuses the ids of its dead nodes.
  void reserveNodeIds(std::size_t count);

  /// Replaces every use of `from` by `to` in nodes of `order` and in the outputs. O(graph).
  void replaceAllUses(ValueId from, ValueId to);
  /// Drops nodes none of whose outputs is used and whose removal changes nothing. Returns how many went.
  int removeDeadNodes();

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::unordered_map<std::string, int> name_counts_;
};

/// Calls f(Use&) (or f(const Use&)) for each tensor operand, None entries left out.
template <typename NodeT, typename F>
void forEachUse(NodeT& node, F&& f) {
  for (auto& argument : node.args) {
    if (auto* use = std::get_if<Use>(&argument.value)) {
      if (use->value != kNone) f(*use);
    } else if (auto* list = std::get_if<UseList>(&argument.value)) {
      for (auto& entry : *list)
        if (entry.value != kNone) f(entry);
    }
  }
}

/// Users of each value, by value id, in program order (a node once per operand slot). O(graph).
std::vector<std::vector<NodeId>> usersOf(const Graph& graph);
/// Position of each node in `order`, kNone where it is not in it.
std::vector<std::int32_t> positionsOf(const Graph& graph);

// --- argument access with the schema's default where the argument is absent ----------------------------------------
ValueId useArg(const Node& node, Symbol name);  ///< kNone where absent, None or not a tensor
std::int64_t intArg(const Node& node, Symbol name, std::int64_t fallback);
double doubleArg(const Node& node, Symbol name, double fallback);
bool boolArg(const Node& node, Symbol name, bool fallback);
std::string stringArg(const Node& node, Symbol name, std::string_view fallback);
/// Also takes a single int as a list of one.
std::optional<Dims> intListArg(const Node& node, Symbol name);

/// "aten.add_.Tensor" -> "add_"; "sp.vary.default" -> "vary".
std::string_view baseName(Symbol op);
bool isCollective(Symbol op);  ///< an sp.* op that communicates, or begins to (its wait does not count)
bool isAttention(Symbol op);   ///< any fused attention op, forward or backward, before or after lowering
bool isRandom(Symbol op);      ///< draws random numbers

}  // namespace spscope::ir
