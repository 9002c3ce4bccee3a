// SPDX-License-Identifier: Apache-2.0
#include "passes/comm/simplify_joint.h"

#include <algorithm>
#include <unordered_map>

#include "core/ir/layout.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"
#include "passes/rewrite_count.h"
#include "passes/rewriter.h"
#include "passes/training/sync_gradients.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::ValueId;

const Symbol kSelf("self"), kClone("aten.clone.default");

class Simplifier {
 public:
  Simplifier(ir::Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), varying_(rankVarying(graph)), is_output_(graph.valueCount(), false), uses_(graph.valueCount(), 0) {
    for (ir::NodeId id = 0; static_cast<std::size_t>(id) < graph.nodeCount(); ++id) operand_.push_back(ir::useArg(graph.node(id), kSelf));
    for (const ir::NodeId id : graph.order) ir::forEachUse(graph.node(id), [&](const ir::Use& use) { ++uses_[static_cast<std::size_t>(use.value)]; });
    for (const ir::Output& output : graph.outputs)
      if (output.value != kNone) is_output_[static_cast<std::size_t>(output.value)] = true;
  }

  bool run() {
    Rewriter rw(graph_, "simplify-joint");
    for (const ir::NodeId id : rw.program()) {
      rw.visit(id);
      for (const ValueId out : graph_.node(id).outputs) {
        if (out == kNone) continue;
        const auto moved = owner_of_.find(graph_.value(out).storage);
        if (moved != owner_of_.end()) graph_.value(out).storage = moved->second;
      }
      const char* reason = nullptr;
      ValueId same = sameAs(graph_.node(id), &reason);
      if (same != kNone && !mayRewrite(graph_, id)) same = kNone;
      if (same != kNone && exchanges(graph_.node(id)) && !contiguous(same)) {
        // What the exchange gave lay row by row, and views may follow.
        ir::Node& n = graph_.node(id);
        n.op = kClone;
        n.args = {{kSelf, ir::Use{same}}, {"memory_format", ir::MemoryFormat::kContiguous}};
        operand_[static_cast<std::size_t>(id)] = same;
        context_.count(reason);
        rw.keepChanged(id);
      } else if (same != kNone) {
        const ValueId out = graph_.node(id).outputs[0];
        const ir::Value& v = graph_.value(same);
        owner_of_[out] = v.storage == kNone ? same : v.storage;
        rw.replace(out, same);
        context_.count(reason);
      } else if (skipView(id)) {
        context_.count("views");
        rw.keepChanged(id);
      } else if (joinSums(id)) {
        context_.count("exchanges");
        rw.keepChanged(id);
      } else {
        rw.keep(id);
      }
    }
    return rw.finish();
  }

 private:
  const Node* producerOf(ValueId v) const {
    const ir::NodeId id = v == kNone ? kNone : graph_.value(v).producer;
    return id == kNone ? nullptr : &graph_.node(id);
  }
  bool contiguous(ValueId v) const { return ir::surelyContiguous(graph_, v); }
  static bool sameArg(const Node& a, Symbol x, const Node& b, Symbol y) {
    const ir::Attribute *p = a.find(x), *q = b.find(y);
    return p != nullptr && q != nullptr && *p == *q;
  }

  static bool exchanges(const Node& n) { return n.op.str().starts_with("sp.") && n.op != ir::sp::kVary; }

  /// The value that the node's only result equals, in the same layout (of an exchange: in whatever layout); kNone where
  /// there is none.
  ValueId sameAs(const Node& n, const char** reason) const {
    const ValueId self = ir::useArg(n, kSelf);
    if (self == kNone || n.outputs.size() != 1 || n.outputs[0] == kNone || n.must_save) return kNone;
    if (is_output_[static_cast<std::size_t>(n.outputs[0])]) return kNone;
    const ir::Value& in = graph_.value(self);
    const ir::Value& out = graph_.value(n.outputs[0]);
    ValueId same = kNone;
    if (n.op == ir::sp::kVary || exchanges(n)) {
      *reason = n.op == ir::sp::kVary ? "varies" : "exchanges";
      same = n.op == ir::sp::kVary ? self : undone(n);
    } else {
      const std::string_view base = ir::baseName(n.op);
      *reason = base == "clone" || base == "_to_copy" ? "copies" : "views";
      if (base == "clone" || base == "_to_copy")
        same = in.dtype == out.dtype && contiguous(self) && keepsFormat(n) ? self : kNone;
      else if (base == "alias" || base == "detach")
        same = self;
      else if (base == "view" || base == "_unsafe_view" || base == "expand")
        same = in.local == out.local && in.dtype == out.dtype ? self : kNone;
      else
        same = turnedBack(n, base, self);
    }
    if (same == kNone || graph_.value(same).dtype != out.dtype || graph_.value(same).local != out.local) return kNone;
    return same;
  }

  static bool keepsFormat(const Node& n) {
    const ir::Attribute* format = n.find("memory_format");
    const auto* code = format != nullptr ? std::get_if<ir::MemoryFormat>(format) : nullptr;
    return code == nullptr || *code == ir::MemoryFormat::kContiguous || *code == ir::MemoryFormat::kPreserve;
  }

  /// The exchange whose result the node's operand is or copies. All ranks must take the same exchanges away, so this goes by
  /// the program as it was, and not through views: one that changes nothing here may change something on another rank,
  /// whose part has another size; and which copies go depends on that, too.
  const Node* exchangeBefore(const Node& n) const {
    for (ValueId v = operand_[static_cast<std::size_t>(n.id)];;) {
      const Node* producer = producerOf(v);
      if (producer == nullptr || exchanges(*producer)) return producer;
      const std::string_view base = ir::baseName(producer->op);
      const ValueId from = operand_[static_cast<std::size_t>(producer->id)];
      const bool copies = base == "clone" || base == "_to_copy" || base == "alias" || base == "detach" || producer->op == ir::sp::kVary;
      if (!copies || from == kNone || graph_.value(from).dtype != graph_.value(v).dtype) return nullptr;
      v = from;
    }
  }

  /// What stood before the exchange that this one undoes.
  ValueId undone(const Node& n) const {
    const Node* first = exchangeBefore(n);
    if (first == nullptr) return kNone;
    const ValueId before = ir::useArg(*first, kSelf);
    if (ir::axisOf(n) != ir::axisOf(*first)) return kNone;
    if (n.op == ir::sp::kAllToAll && first->op == ir::sp::kAllToAll) {
      const bool inverse = sameArg(n, "gather_dim", *first, "scatter_dim") && sameArg(n, "gather_blocks", *first, "scatter_blocks") &&
                           sameArg(n, "scatter_dim", *first, "gather_dim") && sameArg(n, "scatter_blocks", *first, "gather_blocks");
      return inverse ? before : kNone;
    }
    const bool gather_slice = n.op == ir::sp::kSlice && first->op == ir::sp::kAllGather;
    const bool slice_gather = n.op == ir::sp::kAllGather && first->op == ir::sp::kSlice && before != kNone &&
                              ir::axisOf(n) == ir::MeshAxis::kSequence &&
                              !varying_[static_cast<std::size_t>(before)];
    if (!gather_slice && !slice_gather) return kNone;
    return sameArg(n, "dim", *first, "dim") && sameArg(n, "blocks", *first, "blocks") ? before : kNone;
  }

  ValueId turnedBack(const Node& n, std::string_view base, ValueId self) const {
    const Node* first = producerOf(self);
    if (first == nullptr || ir::baseName(first->op) != base) return kNone;
    const ValueId before = ir::useArg(*first, kSelf);
    const auto rank = static_cast<std::int64_t>(graph_.value(self).local.size());
    if (base == "t") return before;
    if (base == "transpose") {
      const auto dims = [&](const Node& t) {
        const std::int64_t a = ir::intArg(t, "dim0", 0), b = ir::intArg(t, "dim1", 1);
        return std::minmax({a < 0 ? a + rank : a, b < 0 ? b + rank : b});
      };
      const auto x = dims(n), y = dims(*first);
      return x == y ? before : kNone;
    }
    if (base != "permute") return kNone;
    const auto outer = ir::intListArg(n, "dims"), inner = ir::intListArg(*first, "dims");
    if (!outer || !inner || outer->size() != inner->size()) return kNone;
    for (std::size_t i = 0; i < outer->size(); ++i) {
      const std::int64_t through = (*outer)[i] < 0 ? (*outer)[i] + rank : (*outer)[i];
      const std::int64_t from = (*inner)[static_cast<std::size_t>(through)];
      if ((from < 0 ? from + rank : from) != static_cast<std::int64_t>(i)) return kNone;
    }
    return before;
  }

  /// A sum over one axis of a sum over the other is one sum over the whole mesh.
  bool joinSums(ir::NodeId id) {
    Node& n = graph_.node(id);
    const ValueId self = ir::useArg(n, kSelf);
    const Node* first = producerOf(self);
    if (n.op != ir::sp::kAllReduce || first == nullptr || first->op != ir::sp::kAllReduce || first->must_save || n.must_save ||
        first->phase != n.phase || uses_[static_cast<std::size_t>(self)] != 1 || is_output_[static_cast<std::size_t>(self)])
      return false;
    const ir::MeshAxis a = ir::axisOf(n), b = ir::axisOf(*first);
    if (a == b || a == ir::MeshAxis::kAll || b == ir::MeshAxis::kAll) return false;
    n.set(kSelf, ir::Use{ir::useArg(*first, kSelf)});
    ir::setAxis(n, ir::MeshAxis::kAll);
    return true;
  }

  /// view(view(x)): reads x where any view of x is one.
  bool skipView(ir::NodeId id) {
    Node& n = graph_.node(id);
    const auto isView = [](const Node& v) { return ir::baseName(v.op) == "view" || ir::baseName(v.op) == "_unsafe_view"; };
    if (!isView(n) || n.must_save || n.outputs[0] == kNone || graph_.value(n.outputs[0]).storage == kNone) return false;
    const Node* first = producerOf(ir::useArg(n, kSelf));
    if (first == nullptr || !isView(*first) || first->must_save) return false;
    const ValueId before = ir::useArg(*first, kSelf);
    if (before == kNone || graph_.value(before).dtype != graph_.value(n.outputs[0]).dtype || !contiguous(before)) return false;
    if (!mayRewrite(graph_, id)) return false;
    n.set(kSelf, ir::Use{before});
    return true;
  }

  ir::Graph& graph_;
  const PassContext& context_;
  const std::vector<bool> varying_;
  std::vector<bool> is_output_;
  std::vector<ValueId> operand_;  ///< by node: its `self` as it was
  std::vector<int> uses_;  ///< by value, of the graph as it came
  std::unordered_map<ValueId, ValueId> owner_of_;  ///< of storages that went: whose they are now
};

}  // namespace

Pass simplifyJointPass() {
  return {{"simplify-joint",
           "Remove exchanges that undo each other, copies of what lies right already, and views of views",
           {{"exchanges", "exchanges that undid each other, sums over one axis and then the other"},
            {"copies", "copies that changed neither type nor layout"},
            {"views", "views that went or were shortened"},
            {"varies", "marks for autograd that are not needed any more"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> { return Simplifier(graph, context).run(); }};
}

}  // namespace spscope::passes
