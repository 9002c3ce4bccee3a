// SPDX-License-Identifier: Apache-2.0
#include "core/io/inspect.h"

#include <algorithm>
#include <string_view>

#include "core/ir/attention.h"

namespace spscope::io {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

/// Heads, masks and sizes of the attention that core/ir found.
class AttentionDescriber {
 public:
  explicit AttentionDescriber(const ir::Graph& graph) : g_(graph) {}

  std::vector<AttentionInfo> describe() const {
    std::vector<AttentionInfo> out;
    for (const ir::AttentionSite& site : ir::findAttention(g_)) {
      const ir::Node& n = g_.node(site.fused ? site.node : site.softmax);
      if (n.phase != ir::Phase::kForward || site.query == kNone || site.key == kNone) continue;
      AttentionInfo info;
      if (site.fused) fused(n, &info);
      else noteMasks(n, g_.node(site.node), &info);
      info.kind = site.fused ? "sdpa" : "eager";
      const ir::Dims& query = g_.value(site.query).shape;
      const ir::Dims& keys = g_.value(site.key).shape;
      info.heads = query.size() >= 4 ? fromBack(query, 3, 1) : 1;
      info.head_dim = fromBack(query, 1, 0);
      info.kv_heads = keys.size() >= 4 ? headsBeforeRepeat(site.key, fromBack(keys, 3, 1)) : 1;
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

  void fused(const ir::Node& n, AttentionInfo* info) const {
    ValueId mask = ir::useArg(n, "attn_mask");
    if (mask == kNone) mask = ir::useArg(n, "attn_bias");
    info->mask = mask != kNone ? "explicit" : ir::boolArg(n, "is_causal", false) ? "causal" : "none";
    if (mask != kNone) info->mask_per_head = fromBack(g_.value(mask).shape, 3, 1) > 1;
  }

  /// Follows the scores from the softmax back to the product that made them; notes what was added on the way.
  void noteMasks(const ir::Node& softmax, const ir::Node& product, AttentionInfo* info) const {
    info->mask = "none";
    const ir::Node* n = producer(ir::useArg(softmax, "self"));
    for (int hops = 0; n && n->id != product.id && hops < 24; ++hops) {
      const std::string_view op = ir::baseName(n->op);
      ValueId next = ir::useArg(*n, "self");
      if (oneOf(op, {"add", "sub"})) {
        const ValueId other = ir::useArg(*n, "other");
        // The operand that leads to the scores is followed; the other one is what was added.
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
      }
      n = producer(next);
    }
    if (ir::baseName(product.op) == "baddbmm") noteMask(ir::useArg(product, "self"), info);
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

  const ir::Graph& g_;
};

/// Buffers that an output renews, or that an op writes into directly, as in a program that is not functional yet.
std::vector<std::string> writtenBuffers(const ir::Graph& g) {
  std::vector<bool> written(g.inputs.size(), false);
  for (const ir::Output& o : g.outputs)
    if (o.kind == ir::OutputKind::kBufferUpdate && o.input != kNone) written[static_cast<std::size_t>(o.input)] = true;
  for (const NodeId id : g.order) {
    const ir::Node& n = g.node(id);
    const std::string_view op = ir::baseName(n.op);
    if (op.empty() || op.back() != '_' || op.substr(0, 2) == "__") continue;
    const ValueId self = ir::useArg(n, "self");
    for (std::size_t i = 0; self != kNone && i < g.inputs.size(); ++i)
      if (g.inputs[i].value == self) written[i] = true;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < g.inputs.size(); ++i)
    if (written[i] && g.inputs[i].kind == ir::InputKind::kBuffer) names.push_back(g.inputs[i].name);
  return names;
}

}  // namespace

Inspection inspect(const ir::Graph& graph) {
  Inspection out;
  out.nodes = static_cast<std::int64_t>(graph.order.size());
  for (const NodeId id : graph.order) ++out.ops[graph.node(id).op.str()];
  out.attention = AttentionDescriber(graph).describe();
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
  out.written_buffers = writtenBuffers(graph);
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
