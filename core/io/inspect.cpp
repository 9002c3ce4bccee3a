// SPDX-License-Identifier: Apache-2.0
#include "core/io/inspect.h"

#include <algorithm>
#include <string_view>

namespace spscope::io {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

class AttentionFinder {
 public:
  explicit AttentionFinder(const ir::Graph& graph) : g_(graph), users_(ir::usersOf(graph)) {}

  std::vector<AttentionInfo> find() {
    std::vector<AttentionInfo> out;
    for (const NodeId id : g_.order) {
      const ir::Node& n = g_.node(id);
      if (n.phase != ir::Phase::kForward) continue;
      AttentionInfo info;
      const bool found = ir::isAttention(n.op) ? fused(n, &info) : eager(n, &info);
      if (!found) continue;
      info.node = n.name;
      if (n.location) info.source = n.location->source;
      out.push_back(std::move(info));
    }
    return out;
  }

 private:
  static std::int64_t fromBack(const ir::Dims& d, std::size_t i, std::int64_t fallback) {
    return d.size() >= i ? d[d.size() - i] : fallback;
  }
  const ir::Node* producer(ValueId v) const {
    const NodeId id = v == kNone ? kNone : g_.value(v).producer;
    return id == kNone ? nullptr : &g_.node(id);
  }
  static bool oneOf(std::string_view op, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  }

  /// Heads of keys or values before unsqueeze-expand-reshape (or repeat_interleave) repeats them for the query heads.
  std::int64_t headsBeforeRepeat(ValueId v, std::int64_t heads) const {
    const ir::Node* n = producer(v);
    for (int hops = 0; n && hops < 6; ++hops) {
      const std::string_view op = ir::baseName(n->op);
      const ValueId self = ir::useArg(*n, "self");
      if (self == kNone) break;
      const ir::Dims& in = g_.value(self).shape;
      const ir::Dims& out = g_.value(n->outputs[0]).shape;
      if (op == "expand" && in.size() == out.size() && in.size() >= 4) {
        for (std::size_t d = 1; d < in.size(); ++d)
          if (in[d] == 1 && out[d] > 1 && in[d - 1] > 0 && in[d - 1] * out[d] == heads) return in[d - 1];
        break;
      }
      if (op == "repeat_interleave" && in.size() == out.size()) {
        for (std::size_t d = 0; d < in.size(); ++d)
          if (in[d] < out[d] && out[d] == heads) return in[d];
        break;
      }
      if (!oneOf(op, {"reshape", "view", "_unsafe_view", "contiguous", "clone", "transpose", "to", "_to_copy", "alias",
                      "redistribute", "all_to_all"}))
        break;
      n = producer(self);
    }
    return heads;
  }

  bool fused(const ir::Node& n, AttentionInfo* info) const {
    const ValueId q = ir::useArg(n, "query"), k = ir::useArg(n, "key");
    if (q == kNone || k == kNone) return false;
    const ir::Dims& shape = g_.value(q).shape;
    info->kind = "sdpa";
    info->heads = shape.size() >= 4 ? fromBack(shape, 3, 1) : 1;
    info->head_dim = fromBack(shape, 1, 0);
    const ir::Dims& keys = g_.value(k).shape;
    info->kv_heads = keys.size() >= 4 ? headsBeforeRepeat(k, fromBack(keys, 3, 1)) : 1;
    ValueId mask = ir::useArg(n, "attn_mask");
    if (mask == kNone) mask = ir::useArg(n, "attn_bias");
    info->mask = mask != kNone ? "explicit" : ir::boolArg(n, "is_causal", false) ? "causal" : "none";
    if (mask != kNone) info->mask_per_head = fromBack(g_.value(mask).shape, 3, 1) > 1;
    return true;
  }

  /// Follows the scores from the softmax back to the product that made them; notes what was added on the way.
  const ir::Node* scoreProduct(const ir::Node& softmax, AttentionInfo* info) const {
    const ir::Node* n = producer(ir::useArg(softmax, "self"));
    for (int hops = 0; n && hops < 24; ++hops) {
      const std::string_view op = ir::baseName(n->op);
      if (oneOf(op, {"matmul", "bmm", "baddbmm"})) {
        if (op == "baddbmm") noteMask(ir::useArg(*n, "self"), info);
        return n;
      }
      ValueId next = ir::useArg(*n, "self");
      if (op == "where") next = ir::useArg(*n, "self");
      if (oneOf(op, {"add", "sub"})) {
        const ValueId other = ir::useArg(*n, "other");
        // The operand of the scores' own shape is followed; the other one is what was added.
        if (other != kNone && next != kNone && !leadsToProduct(next) && leadsToProduct(other)) {
          noteMask(next, info);
          next = other;
        } else if (other != kNone) {
          noteMask(other, info);
        }
      } else if (oneOf(op, {"masked_fill", "masked_fill_"})) {
        noteMask(ir::useArg(*n, "mask"), info);
      } else if (op == "where") {
        noteMask(ir::useArg(*n, "condition"), info);
        if (next == kNone || !leadsToProduct(next)) next = ir::useArg(*n, "other");
      } else if (op == "cat") {  // sinks: an extra column beside the scores
        const auto* list = n->find("tensors") ? std::get_if<ir::UseList>(n->find("tensors")) : nullptr;
        next = list && !list->empty() ? (*list)[0].value : kNone;
      } else if (!oneOf(op, {"mul", "mul_", "div", "div_", "add_", "tanh", "to", "_to_copy", "type_as", "view", "reshape",
                             "clamp", "contiguous", "alias", "clone", "float"})) {
        return nullptr;
      }
      n = producer(next);
    }
    return nullptr;
  }

  bool leadsToProduct(ValueId v) const {
    const ir::Node* n = producer(v);
    for (int hops = 0; n && hops < 12; ++hops) {
      const std::string_view op = ir::baseName(n->op);
      if (oneOf(op, {"matmul", "bmm", "baddbmm"})) return true;
      if (!oneOf(op, {"mul", "mul_", "div", "div_", "tanh", "to", "_to_copy", "view", "reshape", "add"})) return false;
      n = producer(ir::useArg(*n, "self"));
    }
    return false;
  }

  void noteMask(ValueId mask, AttentionInfo* info) const {
    if (mask == kNone) return;
    info->mask = "explicit";
    if (fromBack(g_.value(mask).shape, 3, 1) > 1) info->mask_per_head = true;
  }

  /// Does the softmax's result, maybe dropped out and sliced, become the first operand of a product?
  bool feedsProduct(const ir::Node& n, int depth) const {
    if (depth > 10 || n.outputs.empty()) return false;
    for (const NodeId user : users_[static_cast<std::size_t>(n.outputs[0])]) {
      const ir::Node& u = g_.node(user);
      const std::string_view op = ir::baseName(u.op);
      if (oneOf(op, {"matmul", "bmm"})) return true;
      if (oneOf(op, {"dropout", "to", "_to_copy", "type_as", "slice", "view", "reshape", "expand", "contiguous", "alias", "clone", "mul"}) &&
          feedsProduct(u, depth + 1))
        return true;
    }
    return false;
  }

  bool eager(const ir::Node& n, AttentionInfo* info) const {
    if (!oneOf(ir::baseName(n.op), {"softmax", "_softmax"})) return false;
    info->mask = "none";
    const ir::Node* product = scoreProduct(n, info);
    if (!product || !feedsProduct(n, 0)) return false;
    info->kind = "eager";
    const bool addend = ir::baseName(product->op) == "baddbmm";
    const ValueId q = ir::useArg(*product, addend ? "batch1" : "self");
    ValueId k = ir::useArg(*product, addend ? "batch2" : ir::baseName(product->op) == "bmm" ? "mat2" : "other");
    if (q == kNone || k == kNone) return false;
    const ir::Dims& shape = g_.value(q).shape;
    info->heads = shape.size() >= 4 ? fromBack(shape, 3, 1) : 1;
    info->head_dim = fromBack(shape, 1, 0);
    info->kv_heads = shape.size() >= 4 ? headsBeforeRepeat(k, fromBack(g_.value(k).shape, 3, 1)) : 1;
    return true;
  }

  const ir::Graph& g_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace

std::vector<AttentionInfo> findAttention(const ir::Graph& graph) { return AttentionFinder(graph).find(); }

Inspection inspect(const ir::Graph& graph) {
  Inspection out;
  out.nodes = static_cast<std::int64_t>(graph.order.size());
  for (const NodeId id : graph.order) ++out.ops[graph.node(id).op.str()];
  out.attention = findAttention(graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Input& in = graph.inputs[i];
    const ir::Value& v = graph.value(in.value);
    if (in.kind == ir::InputKind::kUser) {
      UserInput user;
      user.name = in.name;
      user.dtype = v.dtype;
      user.shape = v.shape;
      user.symbols.resize(v.shape.size());
      user.input = static_cast<int>(i);
      out.inputs.push_back(std::move(user));
    }
    if (in.kind != ir::InputKind::kParameter) continue;
    const std::int64_t n = ir::numel(v.shape);
    const ir::DType dtype = in.storage && in.storage->dtype != ir::DType::kUnknown ? in.storage->dtype : v.dtype;
    out.parameters += n;
    out.parameter_bytes += n * ir::sizeOf(dtype);
    if (in.trainable) out.trainable += n;
  }
  return out;
}

Inspection inspect(const ImportedModel& model) {
  Inspection out = inspect(model.graph);
  out.inputs = model.user_inputs;
  out.nodes = model.file_nodes;
  out.ops = model.file_ops;
  out.sequence_input = model.sequence_input;
  out.sequence_dim = model.sequence_dim;
  out.sequence_length = model.seq;
  out.dynamic = model.dynamic;
  return out;
}

}  // namespace spscope::io
