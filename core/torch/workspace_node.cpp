// SPDX-License-Identifier: Apache-2.0
#include "core/torch/workspace_node.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/ir/tiled_loss.h"

namespace spscope::exec {

using ir::DType;
using std::int64_t;

Operand WorkspaceNode::operand(Symbol name) const {
  const ir::ValueId id = ir::useArg(node_, name);
  return id == ir::kNone ? Operand() : Operand{id, &graph_.value(id)};
}

const ir::Value* WorkspaceNode::output(std::size_t index) const {
  return index < node_.outputs.size() && node_.outputs[index] != ir::kNone ? &graph_.value(node_.outputs[index]) : nullptr;
}

int64_t WorkspaceNode::copyOf(Symbol name) const {
  const Operand o = operand(name);
  return !o || ir::isContiguous(o.value->local, stridesOf(o)) ? 0 : o.bytes();
}

int64_t WorkspaceNode::copyOfHeadsInside(Symbol name) const {
  const Operand o = operand(name);
  if (!o || o.value->local.size() != 4) return 0;
  ir::Dims sizes = o.value->local, strides = stridesOf(o);
  std::swap(sizes[1], sizes[2]);
  std::swap(strides[1], strides[2]);
  return ir::isContiguous(sizes, strides) ? 0 : o.bytes();
}

bool WorkspaceNode::isMatrix(const Operand& o) const {
  const ir::Dims& sizes = o.value->local;
  const ir::Dims strides = stridesOf(o);
  const std::size_t r = sizes.size() - 2, c = sizes.size() - 1;
  const auto fits = [&](std::size_t inner, std::size_t outer) {
    return (strides[inner] == 1 || sizes[inner] == 1) && (strides[outer] >= std::max<int64_t>(1, sizes[inner]) || sizes[outer] == 1);
  };
  return fits(c, r) || fits(r, c);
}

std::pair<Operand, Operand> WorkspaceNode::productOperands() const {
  const std::string_view base = ir::baseName(node_.op);
  const Operand a = operand(base == "addmm" ? "mat1" : base == "baddbmm" ? "batch1" : "self"), b = operand(base == "baddbmm" ? "batch2" : "mat2");
  if (!a || !b || a.value->local.size() < 2 || b.value->local.size() < 2) return {};
  return {a, b};
}

int64_t WorkspaceNode::tiledLoss(bool backward) const {
  const Operand x = operand("self"), w = operand("weight");
  const auto steps = ir::parseSteps(ir::stringArg(node_, "steps", ""));
  if (!x || !w || x.value->local.size() != 2 || w.value->local.size() != 2 || !steps) return 0;
  const int64_t rows = std::min(ir::intArg(node_, "rows", 1), x.value->local[0]), element = ir::sizeOf(w.value->dtype);
  const int64_t width = x.value->local[1], logits = rows * w.value->local[0];
  // By logit: what the steps keep, the block as it is now, and the most that was held.
  int64_t kept = 0, now = element, most = element;
  bool tanh = false;  // `now` is kept anyway
  std::vector<int64_t> before;
  DType type = w.value->dtype;
  for (const ir::LogitStep& step : *steps) {
    before.push_back(now);
    const bool same = step.kind == ir::LogitStep::kTo && step.dtype == type;
    if (step.kind == ir::LogitStep::kTo) type = step.dtype;
    if (same) continue;
    const int64_t made = ir::sizeOf(type);
    most = std::max(most, kept + (tanh ? 0 : now) + made);
    now = made;
    tanh = backward && step.kind == ir::LogitStep::kTanh;
    kept += tanh ? made : 0;
  }
  if (!backward) return logits * std::max(most, 2 * now) + rows * now;  // its log-softmax; the block's losses
  const int64_t here = tanh ? 0 : now, wide = reduced(type) ? 4 : now;
  most = std::max(most, kept + here + (wide == now ? 0 : wide) + wide);  // converted first, then its softmax
  int64_t gradient = wide;
  if (!steps->empty() || wide != element) {
    if (wide != now) most = std::max(most, kept + wide + now);
    gradient = now;
    for (std::size_t i = steps->size(); i-- > 0;) {
      const ir::LogitStep& step = (*steps)[i];
      if (step.kind == ir::LogitStep::kTanh) most = std::max(most, kept + 3 * gradient), kept -= gradient;
      else if (step.kind != ir::LogitStep::kTo) most = std::max(most, kept + 2 * gradient);
      else if (before[i] != gradient) most = std::max(most, kept + gradient + before[i]);
      gradient = before[i];
    }
  }
  const int64_t product = rows * width * element, labels = rows * (1 + 8 + 8 + wide);
  int64_t total = std::max(logits * most + labels, logits * gradient + labels + product);
  if (reduced(w.value->dtype)) {  // the weight's gradient, summed in float32
    total = std::max(total, logits * gradient + labels + w.bytes()) + w.elements() * 4;
  }
  return total;
}

int64_t WorkspaceNode::safeSoftmax() const {
  const Operand self = operand("self");
  if (!self || self.value->local.empty()) return 0;
  const int64_t length = std::max<int64_t>(1, self.value->local.back());
  // First the copy of the operand, later which entries and which rows are masked.
  return std::max(copyOf("self"), self.elements() + self.elements() / length + 4);
}

int64_t WorkspaceNode::convolutionBackward() const { return 2 * bytesOf("weight") + bytesOf("grad_output") + (output(0) ? bytesOf("input") : 0); }

}  // namespace spscope::exec
