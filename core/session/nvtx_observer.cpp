// SPDX-License-Identifier: Apache-2.0
#include "core/session/nvtx_observer.h"

#include <optional>
#include <string>

#include "core/session/profile.h"
#include "profiler/record/nvtx_ranges.h"

namespace spscope::session {
namespace {

using Kind = trace::NvtxRanges::Kind;

class NvtxObserver final : public exec::ExecutionObserver {
 public:
  void stepBegin(int, std::int64_t step, std::int64_t) override { ranges_.push(Kind::kStep, "step " + std::to_string(step)); }
  void stepEnd(int, std::int64_t, std::int64_t) override {
    endPhase();
    ranges_.pop();
  }
  bool nodeBegin(int, const ir::Node& node, std::int64_t) override {
    if (!phase_ || *phase_ != node.phase) {
      endPhase();
      phase_ = node.phase;
      ranges_.push(Kind::kPhase, phaseName(node.phase));
    }
    ranges_.push(Kind::kModule, node.location ? node.location->module_path : std::string());
    ranges_.push(ir::isCollective(node.op) ? Kind::kCollective : Kind::kNode, node.name, node.id);
    return true;
  }
  void nodeEnd(int, const ir::Node&, std::int64_t) override {
    ranges_.pop();
    ranges_.pop();
  }

 private:
  void endPhase() {
    if (phase_) ranges_.pop();
    phase_.reset();
  }
  trace::NvtxRanges ranges_;
  std::optional<ir::Phase> phase_;
};

}  // namespace

std::unique_ptr<exec::ExecutionObserver> nvtxObserver() {
  if (!trace::NvtxRanges::toolPresent()) return nullptr;
  return std::make_unique<NvtxObserver>();
}

}  // namespace spscope::session
