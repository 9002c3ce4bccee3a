// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/spikes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/debug/node_query.h"
#include "core/session/debug/training.h"
#include "core/session/value_map.h"
#include "core/torch/value_join.h"
#include "core/torch/value_window.h"

namespace spscope::session::debug {
namespace {

constexpr std::size_t kAround = 8;
constexpr double kDeparts = 2.0;      ///< a magnitude that is not twice the usual is none that departs
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double median(std::vector<double> of) {
  if (of.empty()) return 0.0;
  std::sort(of.begin(), of.end());
  const std::size_t half = of.size() / 2;
  return of.size() % 2 == 1 ? of[half] : (of[half - 1] + of[half]) / 2;
}

/// Values of the steps around `at`, without it.
std::vector<double> around(const std::vector<double>& series, std::size_t at) {
  std::vector<double> out;
  for (std::size_t i = at > kAround ? at - kAround : 0; i < std::min(series.size(), at + kAround + 1); ++i)
    if (i != at && std::isfinite(series[i])) out.push_back(series[i]);
  return out;
}

class Finder {
 public:
  Finder(std::int64_t steps, const Sides& sides, const Origin& origin, const Request& request) : wanted_(steps), sides_(sides), origin_(origin), request_(request) {
    const ir::Graph& g = *sides.programs.front();
    for (std::size_t i = 0; i < g.order.size(); ++i) place_.emplace(g.node(g.order[i]).name, i);
  }

  Result<SpikeReport> run() {
    SP_ASSIGN(Training training, Training::create(sides_, origin_));
    for (std::int64_t i = 0; i < wanted_; ++i) {
      request_.report("training step", i + 1, wanted_);
      sizes_.emplace_back(place_.size(), 0.0);
      SP_ASSIGN(const Training::Figures figures, training.step(request_, [&](const exec::VirtualRanks& ranks, int rank, const ir::Node& node) { return measure(ranks, rank, node); }));
      SpikeStep step;
      step.loss = figures.loss;
      step.gradient_norm = figures.gradient_norm;
      const auto& files = origin_.data.inputs;
      step.batch = i == 0 && files.empty() ? "seed " + std::to_string(origin_.data.seed)
                   : files.empty()         ? "seed " + std::to_string(origin_.data.seed + static_cast<std::uint64_t>(i))
                                           : files[static_cast<std::size_t>(i) % files.size()];
      out_.steps.push_back(std::move(step));
    }
    judge();
    for (Spike& s : out_.spikes) SP_TRY(locate(s));
    return std::move(out_);
  }

 private:
  /// The largest element of the node's results in this step, over all ranks.
  Status measure(const exec::VirtualRanks& ranks, int rank, const ir::Node& node) {
    const auto at = place_.find(node.name);
    if (at == place_.end() || ir::isStart(node.op)) return {};
    double& size = sizes_.back()[at->second];
    for (const ir::ValueId v : node.outputs) {
      if (v == ir::kNone || !ir::isFloating(ranks.program(rank).graph().value(v).dtype)) continue;
      const auto bag = ranks.value(rank, v);
      if (!bag) continue;  // nobody reads it: it is gone already
      SP_ASSIGN(const exec::ValueScan scan, exec::scanValue(*bag, 0));
      size = std::max(size, scan.nan > 0 ? kInfinity : scan.abs_max);
    }
    return {};
  }

  void judge() {
    std::vector<double> losses, norms;
    for (const SpikeStep& s : out_.steps) losses.push_back(s.loss), norms.push_back(s.gradient_norm);
    const std::vector<double> of_loss = jumps(losses, 0.01), of_norm = jumps(norms, 0.1);
    for (std::size_t i = 0; i < out_.steps.size(); ++i) {
      out_.steps[i].loss_score = of_loss[i];
      out_.steps[i].norm_score = of_norm[i];
      if (!(of_loss[i] > kJump) && !(of_norm[i] > kJump)) continue;
      Spike s;
      s.step = static_cast<std::int64_t>(i);
      s.in_loss = of_loss[i] > kJump;
      s.in_gradient = of_norm[i] > kJump;
      s.usual_loss = median(around(losses, i));
      s.usual_norm = median(around(norms, i));
      departing(s);
      out_.spikes.push_back(std::move(s));
    }
  }

  /// The first node, in the order of the program, whose magnitude stands out of the other steps as no other step's does.
  void departing(Spike& s) {
    const ir::Graph& g = *sides_.programs.front();
    const auto step = static_cast<std::size_t>(s.step);
    for (std::size_t place = 0; place < g.order.size(); ++place) {
      std::vector<double> others;
      for (std::size_t i = 0; i < sizes_.size(); ++i)
        if (i != step) others.push_back(sizes_[i][place]);
      const double usual = median(others), most = *std::max_element(others.begin(), others.end()), now = sizes_[step][place];
      if (!(now > kDeparts * usual) || !(now > most) || usual == 0.0) continue;
      const ir::Node& node = g.node(g.order[place]);
      s.node = nameOf(node, static_cast<std::int64_t>(place));
      s.largest = now;
      s.usual = usual;
      for (const ir::ValueId v : node.outputs)
        if (s.value.empty() && v != ir::kNone && ir::isFloating(g.value(v).dtype)) s.value = g.value(v).name;
      return;
    }
  }

  /// Trains again up to the step and looks at the value, whole.
  Status locate(Spike& s) {
    if (!s.node) return {};
    SP_ASSIGN(Training training, Training::create(sides_, origin_));
    std::vector<exec::TensorBag> parts(sides_.programs.size());
    std::optional<ir::Value> value;
    while (training.stepsMade() <= s.step) {
      request_.report(strf("back to step %lld", static_cast<long long>(s.step)), training.stepsMade(), s.step);
      const bool here = training.stepsMade() == s.step;
      SP_TRY(training.step(request_, !here ? Training::OnNode() : [&](const exec::VirtualRanks& ranks, int rank, const ir::Node& node) -> Status {
        if (node.name != s.node->name) return {};
        const ir::Graph& g = ranks.program(rank).graph();
        for (const ir::ValueId v : node.outputs) {
          if (v == ir::kNone || g.value(v).name != s.value) continue;
          if (rank == 0) value = g.value(v);
          if (auto bag = ranks.value(rank, v)) parts[static_cast<std::size_t>(rank)] = bag->clone();
        }
        return {};
      }));
    }
    if (!value || std::any_of(parts.begin(), parts.end(), [](const exec::TensorBag& part) { return part.empty(); })) return {};
    if (const auto how = assemblyOf(*value)) {
      SP_ASSIGN(const exec::TensorBag whole, exec::joinParts(parts, *how));
      SP_ASSIGN(s.index, exec::largestAt(whole));
      tokenOf(*value, s);
      return {};
    }
    double most = -1.0;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      SP_ASSIGN(const exec::ValueScan scan, exec::scanValue(parts[r], 0));
      const double size = scan.nan + scan.inf > 0 ? kInfinity : scan.abs_max;
      if (size <= most) continue;
      most = size;
      s.rank = static_cast<int>(r);
      SP_ASSIGN(s.index, exec::largestAt(parts[r]));
    }
    return {};
  }

  /// Row and position by the factors of the value's dimensions.
  static void tokenOf(const ir::Value& value, Spike& s) {
    for (std::size_t d = 0; d < value.factors.size() && d < s.index.size(); ++d) {
      std::int64_t left = s.index[d];
      for (auto factor = value.factors[d].rbegin(); factor != value.factors[d].rend(); ++factor) {
        if (factor->size <= 0) return;
        const std::int64_t at = left % factor->size;
        left /= factor->size;
        if (factor->tag == ir::Tag::kBatch) s.row = at;
        if (factor->tag == ir::Tag::kSequence) s.position = at;
      }
    }
  }

  std::int64_t wanted_;
  const Sides& sides_;
  const Origin& origin_;
  const Request& request_;
  std::unordered_map<std::string, std::size_t> place_;  ///< of rank 0's nodes, by name
  std::vector<std::vector<double>> sizes_;              ///< by step and place
  SpikeReport out_;
};

}  // namespace

std::vector<double> jumps(const std::vector<double>& series, double floor) {
  std::vector<double> out;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::vector<double> others = around(series, i);
    const double usual = median(others);
    std::vector<double> deviations;
    for (const double x : others) deviations.push_back(std::abs(x - usual));
    const double deviation = std::max(1.4826 * median(std::move(deviations)), floor * std::abs(usual));
    const double above = series[i] - usual;
    out.push_back(!std::isfinite(series[i]) ? kInfinity : above <= 0.0 ? 0.0 : deviation > 0.0 ? above / deviation : kInfinity);
  }
  return out;
}

Result<SpikeReport> findSpikes(std::int64_t steps, const Sides& sides, const Origin* origin, const Request& request) {
  SP_TRY(haveOrigin(origin));
  if (steps < 5) return makeError("usage", "at least 5 steps are needed to say what is usual", Outcome::kUsage);
  return Finder(steps, sides, *origin, request).run();
}

}  // namespace spscope::session::debug
