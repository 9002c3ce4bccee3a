// SPDX-License-Identifier: Apache-2.0
#include "passes/training/widen_gradients.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/ir/sp_ops.h"
#include "passes/rewriter.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

class Widener {
 public:
  Widener(ir::Graph& graph, const PassContext& context)
      : g_(graph), context_(context), rw_(graph, "widen-gradients"), uses_(graph.valueCount(), 0), sum_(graph.nodeCount(), false),
        wide_(graph.nodeCount(), false) {}

  bool run() {
    for (const NodeId id : rw_.program()) ir::forEachUse(g_.node(id), [&](const ir::Use& use) { ++uses_[at(use.value)]; });
    for (const ir::Output& o : g_.outputs)
      if (o.value != kNone && o.kind != ir::OutputKind::kGradient) ++uses_[at(o.value)];  // somebody else reads it
    for (const NodeId id : rw_.program()) sum_[at(id)] = completes(g_.node(id));
    for (const ir::Output& o : g_.outputs)
      if (o.kind == ir::OutputKind::kGradient && o.value != kNone && uses_[at(o.value)] == 0) mark(o.value);
    for (const NodeId id : rw_.program()) {
      rw_.visit(id);
      if (!wide_[at(id)]) rw_.keep(id);
      else widen(id);
    }
    return rw_.finish();
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  static bool narrow(ir::DType type) { return type == ir::DType::kBF16 || type == ir::DType::kF16; }
  /// What hands the elements on as they are, one operand in, one result out.
  static bool passesOn(const ir::Node& n) {
    static constexpr std::array<std::string_view, 9> kOps = {"view", "_unsafe_view", "reshape", "t", "transpose", "permute", "squeeze", "unsqueeze", "alias"};
    const std::string_view base = ir::baseName(n.op);
    return (n.op.str().starts_with("aten.") && std::find(kOps.begin(), kOps.end(), base) != kOps.end()) || base == "clone";
  }
  static bool adds(const ir::Node& n) { return n.op == Symbol("aten.add.Tensor") && n.find("alpha") == nullptr && ir::useArg(n, "other") != kNone; }

  /// A sum over the ranks of 16-bit numbers, or what only such sums go into. In the order of the program.
  bool completes(const ir::Node& n) const {
    if (n.phase != ir::Phase::kBackward || n.outputs.size() != 1 || n.outputs[0] == kNone || !narrow(g_.value(n.outputs[0]).dtype)) return false;
    if (n.op == ir::sp::kAllReduce) return true;
    const auto below = [&](const char* name) {
      const ValueId v = ir::useArg(n, name);
      return v != kNone && g_.value(v).producer != kNone && sum_[at(g_.value(v).producer)];
    };
    return passesOn(n) ? below("self") : adds(n) && (below("self") || below("other"));
  }

  /// Everything from a gradient down to its sums, as far as nothing else reads it.
  void mark(ValueId v) {
    const NodeId id = g_.value(v).producer;
    if (id == kNone || !sum_[at(id)] || wide_[at(id)]) return;
    wide_[at(id)] = true;
    const ir::Node& n = g_.node(id);
    if (n.op == ir::sp::kAllReduce) return;
    ir::forEachUse(n, [&](const ir::Use& use) {
      if (uses_[at(use.value)] == 1) mark(use.value);
    });
  }

  void own(ValueId v) { g_.value(v).storage_bytes = g_.value(v).localBytes(); }

  ValueId wideOf(ValueId v, NodeId origin) {
    if (!narrow(g_.value(v).dtype)) return v;
    const auto [it, fresh] = copies_.try_emplace(v, kNone);
    if (!fresh) return it->second;
    const ValueId out = rw_.emitPlain("aten._to_copy.default", {{"self", ir::Use{v}}, {"dtype", ir::DType::kF32}, {"memory_format", ir::MemoryFormat::kContiguous}}, ir::DType::kF32,
                                      g_.value(v).local, origin);
    g_.value(out).shape = g_.value(v).shape;
    own(out);
    return it->second = out;
  }

  void widen(NodeId id) {
    std::vector<ValueId> operands;
    ir::forEachUse(g_.node(id), [&](const ir::Use& use) { operands.push_back(use.value); });
    // Emitting moves nodes: first all copies, then the node.
    for (ValueId& v : operands) v = wideOf(v, id);
    ir::Node& n = g_.node(id);
    std::size_t i = 0;
    ir::forEachUse(n, [&](ir::Use& use) { use.value = operands[i++]; });
    ir::Value& out = g_.value(n.outputs[0]);
    out.dtype = ir::DType::kF32;
    if (out.storage == kNone) {
      own(n.outputs[0]);
    } else {
      const ValueId read = operands.front();
      out.storage = g_.value(read).storage == kNone ? read : g_.value(read).storage;
    }
    if (n.op == ir::sp::kAllReduce) context_.count("sums");
    rw_.keepChanged(id);
  }

  ir::Graph& g_;
  const PassContext& context_;
  Rewriter rw_;
  std::vector<int> uses_;      ///< by value; as a gradient not counted
  std::vector<bool> sum_;      ///< by node: completes()
  std::vector<bool> wide_;     ///< by node: to be made in float32
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Pass widenGradientsPass() {
  return {{"widen-gradients",
           "Sum the gradients of 16-bit parameters over the ranks in float32",
           {{"sums", "sums that are made in float32"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
            return context.settings.wide_gradients && Widener(graph, context).run();
          }};
}

}  // namespace spscope::passes
