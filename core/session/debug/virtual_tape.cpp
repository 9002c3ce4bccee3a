// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/virtual_tape.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/session/virtual_programs.h"

namespace spscope::session::debug {
namespace {

constexpr std::int64_t kBudget = std::int64_t{1} << 30;

std::size_t sumOf(const Places& places) { return std::accumulate(places.begin(), places.end(), std::size_t{0}); }

bool atOrBefore(const Places& a, const Places& b) {
  for (std::size_t r = 0; r < a.size(); ++r)
    if (a[r] > b[r]) return false;
  return true;
}

const ir::Node* nodeAt(const exec::VirtualRanks& ranks, int rank, std::size_t place) {
  const exec::Program& program = ranks.program(rank);
  return place < program.nodeCount() ? &program.node(place) : nullptr;
}

/// Whether something begins at `place` of rank 0 that one may want to come back to.
bool isBoundary(const exec::VirtualRanks& ranks, std::size_t place) {
  const ir::Node* now = nodeAt(ranks, 0, place);
  const ir::Node* last = place > 0 ? nodeAt(ranks, 0, place - 1) : nullptr;
  if (now == nullptr || last == nullptr) return false;
  if ((now->phase == ir::Phase::kForward) != (last->phase == ir::Phase::kForward)) return true;
  const auto layer = [](const ir::Node& n) { return n.location ? ir::layerOf(n.location->module_path) : std::string_view(); };
  return layer(*now) != layer(*last);
}

}  // namespace

Result<std::unique_ptr<VirtualTape>> VirtualTape::create(Setup setup) {
  SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(setup.programs, setup.state));
  SP_TRY(ranks.begin(setup.inputs, setup.step));
  if (setup.budget_bytes <= 0) setup.budget_bytes = kBudget;
  return std::unique_ptr<VirtualTape>(new VirtualTape(std::move(setup), std::move(ranks)));
}

void VirtualTape::readPlaces() {
  for (int r = 0; r < size(); ++r) places_[static_cast<std::size_t>(r)] = ranks_.position(r);
}

Status VirtualTape::recover(Status failed) {
  if (failed.error().code == "rank-waits") return failed;  // nothing has happened
  setup_.step.cancel = {};  // the one that stopped it must not stop the way back
  SP_ASSIGN(Places from, nearestBefore(ranks_, places_));
  SP_TRY(runTo(ranks_, std::move(from), places_));
  return failed;
}

Status VirtualTape::move() {
  Status status = ranks_.stepNode();
  if (!status) return recover(std::move(status));
  trail_.push_back(places_);
  readPlaces();
  return {};
}

Status VirtualTape::move(int rank) {
  Status status = ranks_.stepNode(rank);
  if (!status) return recover(std::move(status));
  trail_.push_back(places_);
  readPlaces();
  return {};
}

Status VirtualTape::backTo(std::size_t index) {
  if (index >= trail_.size()) return {};
  const Places target = trail_[index];
  SP_ASSIGN(Places from, nearestBefore(ranks_, target));
  SP_TRY(runTo(ranks_, std::move(from), target));
  trail_.resize(index);
  places_ = target;
  return {};
}

Result<Places> VirtualTape::nearestBefore(exec::VirtualRanks& ranks, const Places& target) {
  const Kept* best = nullptr;
  for (const Kept& k : kept_)
    if (atOrBefore(k.places, target)) best = &k;
  if (best == nullptr) {
    SP_TRY(ranks.begin(setup_.inputs, setup_.step));
    return Places(target.size(), 0);
  }
  SP_TRY(ranks.restore(*best->snapshot, setup_.inputs, setup_.step));
  return best->places;
}

Status VirtualTape::runTo(exec::VirtualRanks& ranks, Places now, const Places& target) {
  while (now != target) {
    if (isBoundary(ranks, now[0])) keep(ranks, now);
    bool alone = false;
    int waiting = -1;
    for (int r = 0; r < ranks.ranks(); ++r) {
      if (now[static_cast<std::size_t>(r)] >= target[static_cast<std::size_t>(r)]) continue;
      if (ranks.meets(r)) {
        waiting = r;
        continue;
      }
      SP_TRY(ranks.stepNode(r));
      alone = true;
    }
    if (!alone) SP_TRY(ranks.stepNode(waiting));  // all have come: the target was reached once before
    ++run_again_;
    for (int r = 0; r < ranks.ranks(); ++r) now[static_cast<std::size_t>(r)] = ranks.position(r);
  }
  return {};
}

void VirtualTape::keep(const exec::VirtualRanks& ranks, const Places& places) {
  for (const Kept& k : kept_)
    if (k.places == places) return;
  auto snapshot = ranks.snapshot();
  if (snapshot == nullptr || exec::bytesOf(*snapshot) > setup_.budget_bytes) return;
  const auto later = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return sumOf(k.places) > sumOf(places); });
  kept_.insert(later, {places, std::move(snapshot)});
  while (figures().snapshot_bytes > setup_.budget_bytes && !kept_.empty()) {
    std::size_t drop = 0, least = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < kept_.size(); ++i) {  // its loss costs what lies between the one before it and the next
      const std::size_t before = i == 0 ? 0 : sumOf(kept_[i - 1].places);
      const std::size_t after = i + 1 < kept_.size() ? sumOf(kept_[i + 1].places) : std::numeric_limits<std::size_t>::max() / 2;
      if (after - before < least) least = after - before, drop = i;
    }
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(drop));
  }
}

VirtualTape::Figures VirtualTape::figures() const {
  Figures out;
  out.snapshots = kept_.size();
  for (const Kept& k : kept_) out.snapshot_bytes += exec::bytesOf(*k.snapshot);  // what several hold counts for each: at most that
  out.run_again = run_again_;
  return out;
}

Result<std::vector<exec::TensorBag>> VirtualTape::again(const std::vector<ir::ValueId>& values) {
  if (!other_) {
    SP_ASSIGN(exec::VirtualRanks ranks, prepareRanks(setup_.programs, setup_.state));
    other_ = std::make_unique<exec::VirtualRanks>(std::move(ranks));
  }
  // Of each rank, the place of the node that computes it.
  Places makes(values.size(), 0);
  std::size_t missing = 0;
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] == ir::kNone) continue;
    SP_ASSIGN(makes[r], makerOf(static_cast<int>(r), values[r]));
    ++missing;
  }
  // A rank that is not asked for may stand anywhere before: those that are need it only for collectives.
  Places limit = makes;
  for (std::size_t r = 0; r < values.size(); ++r)
    if (values[r] == ir::kNone) limit[r] = std::numeric_limits<std::size_t>::max();
  SP_ASSIGN(Places now, nearestBefore(*other_, limit));
  std::vector<exec::TensorBag> out(values.size());
  while (missing > 0 && !other_->done()) {
    if (isBoundary(*other_, now[0])) keep(*other_, now);
    SP_TRY(other_->stepNode());
    ++run_again_;
    for (std::size_t r = 0; r < values.size(); ++r) {
      const std::size_t at = other_->position(static_cast<int>(r));
      if (values[r] != ir::kNone && now[r] == makes[r] && at > now[r]) {
        SP_ASSIGN(exec::TensorBag value, other_->value(static_cast<int>(r), values[r]));
        out[r] = value.clone();  // what runs on other ranks meanwhile may receive in its memory
        --missing;
      }
      now[r] = at;
    }
  }
  return out;
}

}  // namespace spscope::session::debug
