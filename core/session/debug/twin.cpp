// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/twin.h"

#include <utility>

#include "core/session/virtual_programs.h"

namespace spscope::session::debug {
namespace {

constexpr std::int64_t kBudget = std::int64_t{1} << 30;

}  // namespace

Twin::Twin(Reference reference, exec::VirtualRanks ranks)
    : reference_(std::move(reference)),
      budget_(reference_.budget_bytes > 0 ? reference_.budget_bytes : kBudget),
      ranks_(std::move(ranks)),
      scales_(graph(), reference_.tolerance.floor) {
  for (const auto& program : reference_.programs) position_.push_back(ir::positionsOf(*program));
}

Result<std::unique_ptr<Twin>> Twin::create(Reference reference) {
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(reference.programs, reference.state));
  return std::unique_ptr<Twin>(new Twin(std::move(reference), std::move(ranks)));
}

Result<exec::TensorBag> Twin::value(ir::ValueId value, int rank) {
  const Key key{rank, value};
  if (const auto it = kept_.find(key); it != kept_.end()) return it->second;
  const ir::NodeId producer = graph(rank).value(value).producer;
  const auto makes = producer == ir::kNone ? std::size_t{0} : static_cast<std::size_t>(position_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(producer)]);
  if (!begun_ || (producer != ir::kNone && ranks_.position(rank) > makes)) {
    SP_TRY(ranks_.begin(reference_.inputs, reference_.step));
    if (!std::exchange(begun_, true) && !reference_.by_rank) SP_TRY(scales_.measureInputs(ranks_));
  }
  if (producer == ir::kNone) return ranks_.value(rank, value);
  while (ranks_.position(rank) <= makes) SP_TRY(runOn());
  if (const auto it = kept_.find(key); it != kept_.end()) return it->second;
  return ranks_.value(rank, value);
}

Status Twin::runOn() {
  std::vector<std::size_t> before;
  for (int r = 0; r < ranks_.ranks(); ++r) before.push_back(ranks_.position(r));
  if (auto status = ranks_.stepNode(); !status) {
    begun_ = false;
    return status;
  }
  for (int r = 0; r < ranks_.ranks(); ++r) {
    const std::size_t at = before[static_cast<std::size_t>(r)];
    if (ranks_.position(r) == at) continue;
    const ir::Node& node = ranks_.program(r).node(at);
    if (!reference_.by_rank && at >= measured_) {
      SP_TRY(scales_.measure(ranks_, node));
      measured_ = at + 1;
    }
    for (const ir::ValueId v : node.outputs) {
      if (v == ir::kNone) continue;
      // What several ranks exchange later may land in this memory.
      if (auto value = ranks_.value(r, v)) keep({r, v}, reference_.by_rank ? value->clone() : std::move(*value));
    }
  }
  return {};
}

void Twin::keep(Key key, exec::TensorBag bag) {
  if (!kept_.emplace(key, std::move(bag)).second) return;
  age_.push_back(key);
  const auto bytesOf = [&](Key k) {
    const ir::Value& v = graph(k.first).value(k.second);
    return v.storage == ir::kNone ? v.localBytes() : 0;
  };
  kept_bytes_ += bytesOf(key);
  while (kept_bytes_ > budget_ && age_.size() > 1) {
    kept_bytes_ -= bytesOf(age_.front());
    kept_.erase(age_.front());
    age_.pop_front();
  }
}

}  // namespace spscope::session::debug
