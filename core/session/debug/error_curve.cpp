// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/error_curve.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/ir/pending.h"
#include "core/session/debug/node_query.h"
#include "core/session/debug/twin.h"
#include "core/session/value_map.h"
#include "core/session/virtual_programs.h"
#include "core/torch/value_join.h"
#include "core/torch/value_precision.h"

namespace spscope::session::debug {
namespace {

constexpr double kRoundings = 4.0;    ///< an op that is off by no more than so many roundings loses nothing worth naming
constexpr double kLoses = 2.0;        ///< and to double an error is a binary digit
constexpr double kOutOfLine = 16.0;   ///< so many times the others' error

double median(std::vector<double> of) {
  if (of.empty()) return 0.0;
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

class Curve {
 public:
  Curve(const Sides& sides, const Origin& origin, Reference exact, const Request& request) : sides_(sides), request_(request), exact_(std::move(exact)) {
    out_.working = origin.model->computing_dtype;
    out_.roundoff = exec::rangeOf(out_.working).value_or(exec::TypeRange{}).roundoff;
  }

  Result<ErrorCurve> run() {
    const ir::Graph& exact = *exact_.programs.front();
    for (const auto& program : sides_.programs) maps_.push_back(counterpartsOf(*program, exact, exact_.wider));
    outers_ = shardOuters(*sides_.programs.front());
    for (const auto& program : sides_.programs) errors_.emplace_back(program->valueCount(), 0.0), norms_.emplace_back(program->valueCount(), 0.0);
    exact_.step.cancel = request_.cancel;
    SP_ASSIGN(twin_, Twin::create(exact_));
    SP_ASSIGN(exec::VirtualRanks ranks, beginRanks(sides_, request_));
    SP_TRY(inputs(ranks));
    const auto nodes = static_cast<std::int64_t>(ranks.program(0).nodeCount());
    while (!ranks.done()) {
      if (ranks.position(0) % 64 == 0) request_.report("error against float64", static_cast<std::int64_t>(ranks.position(0)), nodes);
      std::vector<std::size_t> before;
      for (int r = 0; r < ranks.ranks(); ++r) before.push_back(ranks.position(r));
      SP_TRY(ranks.stepNode());
      for (int r = 0; r < ranks.ranks(); ++r) {
        const std::size_t at = before[static_cast<std::size_t>(r)];
        if (ranks.position(r) != at) SP_TRY(look(ranks, r, at));
      }
    }
    rank();
    return std::move(out_);
  }

 private:
  double& error(int rank, ir::ValueId v) { return errors_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(v)]; }
  double& norm(int rank, ir::ValueId v) { return norms_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(v)]; }

  /// What the step begins with is exact: the twin was given the same numbers. Its size counts where large terms cancel.
  Status inputs(const exec::VirtualRanks& ranks) {
    for (int r = 0; r < ranks.ranks(); ++r) {
      const ir::Graph& g = ranks.program(r).graph();
      for (const ir::Input& input : g.inputs) {
        if (!ir::isFloating(g.value(input.value).dtype)) continue;
        if (r > 0) {
          norm(r, input.value) = norm(0, g.inputs[static_cast<std::size_t>(&input - g.inputs.data())].value);
          continue;
        }
        if (const auto bag = ranks.value(r, input.value); bag) {
          SP_ASSIGN(norm(r, input.value), exec::normOfValue(*bag));
        }
      }
    }
    return {};
  }

  Status look(const exec::VirtualRanks& ranks, int rank, std::size_t place) {
    const ir::Graph& g = ranks.program(rank).graph();
    const ir::Node& node = ranks.program(rank).node(place);
    double before = 0.0, largest = 0.0;
    ir::forEachUse(node, [&](const ir::Use& use) {
      before = std::max(before, error(rank, use.value));
      largest = std::max(largest, norm(rank, use.value));
    });
    for (const ir::ValueId v : node.outputs) {
      if (v == ir::kNone || !ir::isFloating(g.value(v).dtype)) continue;
      error(rank, v) = before;  // until it is measured; what has no counterpart hands on what it got
      norm(rank, v) = largest;
      if (ir::isStart(node.op) || node.phase == ir::Phase::kRecompute) continue;
      const Counterpart& c = maps_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(v)];
      if (c.reference == ir::kNone) {
        out_.alone += rank == 0;
        continue;
      }
      auto bag = ranks.value(rank, v);
      if (!bag) continue;  // nobody reads it: it is gone already
      auto& parts = open_[g.value(v).name];
      parts[rank] = {v, std::move(*bag), before, largest};
      if (parts.size() < static_cast<std::size_t>(ranks.ranks())) continue;
      SP_TRY(measure(node, static_cast<std::int64_t>(place), g.value(v), c, parts));
      open_.erase(g.value(v).name);
    }
    return {};
  }

  struct Part {
    ir::ValueId value = ir::kNone;
    exec::TensorBag bag;
    double before = 0.0, largest = 0.0;
  };

  Status measure(const ir::Node& node, std::int64_t place, const ir::Value& value, const Counterpart& c, const std::map<int, Part>& parts) {
    const auto whole = twin_->value(c.reference);
    if (!whole) {
      if (whole.error().code == "value-not-live") return {};
      return whole.error();
    }
    std::vector<exec::TensorBag> bags;
    CurvePoint p;
    double largest = 0.0;
    for (const auto& [rank, part] : parts) {
      bags.push_back(part.bag);
      p.before = std::max(p.before, part.before);
      largest = std::max(largest, part.largest);
    }
    SP_ASSIGN(const std::optional<Nearest> nearest, nearestTo(*whole, bags, c.how, outers_));
    if (!nearest) return {};
    const exec::ValueDifference& d = nearest->difference;
    p.node = nameOf(node, place);
    p.value = value.name;
    p.dtype = value.dtype;
    p.placement = placementWords(nearest->how);
    p.error = d.error == 0.0 ? 0.0 : d.norm > 0.0 ? d.error / d.norm : INFINITY;
    p.growth = std::max(p.error, out_.roundoff) / std::max(p.before, out_.roundoff);
    p.cancels = largest > 0.0 && d.norm > 0.0 ? d.norm / largest : 1.0;
    if (d.rank_error.size() == bags.size())
      for (std::size_t r = 0; r < bags.size(); ++r)
        p.rank_error.push_back(d.rank_error[r] == 0.0 ? 0.0 : d.rank_norm[r] > 0.0 ? d.rank_error[r] / d.rank_norm[r] : INFINITY);
    if (value.dtype == ir::DType::kF16 || value.dtype == ir::DType::kBF16) {
      SP_ASSIGN(const exec::TensorBag joined, exec::joinParts(bags, nearest->how));
      SP_ASSIGN(const exec::RangeLoss lost, exec::rangeLossOf(joined, *whole));
      p.elements = lost.count;
      p.saturated = lost.saturated;
      p.flushed = lost.flushed;
      p.subnormal = lost.subnormal;
    }
    for (const auto& [rank, part] : parts) error(rank, part.value) = p.error, norm(rank, part.value) = d.norm;
    outOfLine(p);
    out_.points.push_back(std::move(p));
    return {};
  }

  /// A rank whose part is far worse than the others', by more than the precision allows.
  void outOfLine(const CurvePoint& p) {
    for (std::size_t r = 0; r < p.rank_error.size() && p.rank_error.size() > 1; ++r) {
      if (std::any_of(out_.out_of_line.begin(), out_.out_of_line.end(), [&](const RankOutOfLine& known) { return known.rank == static_cast<int>(r); })) continue;
      std::vector<double> others = p.rank_error;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(r));
      const double usual = median(std::move(others));
      if (p.rank_error[r] <= sides_.tolerance.gradient || !(p.rank_error[r] > kOutOfLine * std::max(usual, out_.roundoff))) continue;
      out_.out_of_line.push_back({static_cast<int>(r), p.node.name, p.value, p.rank_error[r], usual});
    }
  }

  void rank() {
    const auto& points = out_.points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].growth >= kLoses && points[i].error > kRoundings * out_.roundoff) out_.losers.push_back(i);
      if (points[i].saturated + points[i].flushed > 0) out_.out_of_range.push_back(i);
    }
    std::stable_sort(out_.losers.begin(), out_.losers.end(), [&](std::size_t a, std::size_t b) { return points[a].growth > points[b].growth; });
    const auto share = [&](std::size_t i) { return static_cast<double>(points[i].saturated + points[i].flushed) / static_cast<double>(points[i].elements); };
    std::stable_sort(out_.out_of_range.begin(), out_.out_of_range.end(), [&](std::size_t a, std::size_t b) { return share(a) > share(b); });
  }

  const Sides& sides_;
  const Request& request_;
  Reference exact_;
  std::unique_ptr<Twin> twin_;
  std::vector<std::vector<Counterpart>> maps_;  ///< by rank
  std::vector<std::int64_t> outers_;
  std::vector<std::vector<double>> errors_, norms_;  ///< by rank and value
  std::map<std::string, std::map<int, Part>> open_;  ///< by value's name: parts that have come so far
  ErrorCurve out_;
};

}  // namespace

Result<ErrorCurve> errorCurve(const Sides& sides, const Origin* origin, const Request& request) {
  ReferenceChoice choice;
  choice.kind = ReferenceChoice::Kind::kFloat64;
  SP_ASSIGN(Reference exact, makeReference(choice, sides, origin, request));
  return Curve(sides, *origin, std::move(exact), request).run();
}

}  // namespace spscope::session::debug
