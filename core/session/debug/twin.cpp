// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/twin.h"

#include <utility>

#include "core/base/strings.h"
#include "core/session/virtual_programs.h"

namespace spscope::session::debug {
namespace {

constexpr std::int64_t kBudget = std::int64_t{1} << 30;

}  // namespace

Twin::Twin(const Sides& sides, exec::VirtualRanks ranks)
    : graph_(sides.reference),
      inputs_(sides.inputs),
      step_(sides.step),
      budget_(sides.budget_bytes > 0 ? sides.budget_bytes : kBudget),
      ranks_(std::move(ranks)),
      scales_(*graph_, sides.tolerance.floor),
      position_(ir::positionsOf(*graph_)) {}

Result<std::unique_ptr<Twin>> Twin::create(const Sides& sides) {
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks({sides.reference}, sides.state));
  return std::unique_ptr<Twin>(new Twin(sides, std::move(ranks)));
}

Result<exec::TensorBag> Twin::value(ir::ValueId value) {
  if (const auto it = kept_.find(value); it != kept_.end()) return it->second;
  const ir::NodeId producer = graph_->value(value).producer;
  const auto makes = producer == ir::kNone ? std::size_t{0} : static_cast<std::size_t>(position_[static_cast<std::size_t>(producer)]);
  if (!begun_ || (producer != ir::kNone && ranks_.position(0) > makes)) {
    SP_TRY(ranks_.begin(inputs_, step_));
    if (!std::exchange(begun_, true)) SP_TRY(scales_.measureInputs(ranks_));
  }
  if (producer == ir::kNone) return ranks_.value(0, value);
  while (ranks_.position(0) <= makes) SP_TRY(runOn());
  if (const auto it = kept_.find(value); it != kept_.end()) return it->second;
  return ranks_.value(0, value);
}

Status Twin::runOn() {
  const std::size_t at = ranks_.position(0);
  const ir::Node& node = ranks_.program(0).node(at);
  if (auto status = ranks_.stepNode(); !status) {
    begun_ = false;
    return status;
  }
  if (at >= measured_) {
    SP_TRY(scales_.measure(ranks_, node));
    measured_ = at + 1;
  }
  for (const ir::ValueId v : node.outputs) {
    if (v == ir::kNone) continue;
    if (auto value = ranks_.value(0, v)) keep(v, std::move(*value));
  }
  return {};
}

void Twin::keep(ir::ValueId value, exec::TensorBag bag) {
  if (!kept_.emplace(value, std::move(bag)).second) return;
  age_.push_back(value);
  const auto bytesOf = [&](ir::ValueId v) { return graph_->value(v).storage == ir::kNone ? graph_->value(v).localBytes() : 0; };
  kept_bytes_ += bytesOf(value);
  while (kept_bytes_ > budget_ && age_.size() > 1) {
    kept_bytes_ -= bytesOf(age_.front());
    kept_.erase(age_.front());
    age_.pop_front();
  }
}

}  // namespace spscope::session::debug
