// SPDX-License-Identifier: Apache-2.0
// Where the debugger stops: breakpoints, their conditions and what they do.
#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/debug/debugger.h"
#include "core/torch/tensor_store.h"

namespace spscope::session::debug {
namespace {

using Kind = Condition::Kind;

std::string indexText(const ir::Dims& index) { return "[" + join(index, ", ") + "]"; }

/// "out.npy" for rank 1 of %mm: "out.rank1.npy"; "%" stands for the value's name. `several`: more values than one go to this path, and
/// none must take another's file: "out.mm.rank1.npy".
std::string pathFor(std::string path, std::string value, int rank, bool several) {
  std::replace(value.begin(), value.end(), '/', '_');
  const bool named = path.find('%') != std::string::npos;
  for (std::size_t at = path.find('%'); at != std::string::npos; at = path.find('%', at + value.size())) path.replace(at, 1, value);
  return path.insert(path.rfind('.'), (several && !named ? "." + value : "") + ".rank" + std::to_string(rank));
}

}  // namespace

Result<Breakpoint> Debugger::add(Breakpoint breakpoint) {
  if (breakpoint.rank >= ranks()) return makeError("usage", strf("there is no rank %d: they are 0 to %d", breakpoint.rank, ranks() - 1), Outcome::kUsage);
  SP_ASSIGN(std::vector<std::vector<bool>> places, placesOnSides(breakpoint.where));
  breakpoint.id = ++last_breakpoint_;
  breakpoint.hits = 0;
  breakpoints_.push_back(breakpoint);
  marks_.push_back(std::move(places));
  mark();
  return breakpoint;
}

bool Debugger::remove(int id) {
  const auto at = std::find_if(breakpoints_.begin(), breakpoints_.end(), [&](const Breakpoint& b) { return b.id == id; });
  if (at == breakpoints_.end()) return false;
  marks_.erase(marks_.begin() + (at - breakpoints_.begin()));
  breakpoints_.erase(at);
  mark();
  return true;
}

void Debugger::removeAll() {
  breakpoints_.clear();
  marks_.clear();
  mark();
}

void Debugger::mark() {
  open_.clear();
  before_.assign(sides_.size(), {});
  after_.assign(sides_.size(), {});
  for (std::size_t s = 0; s < sides_.size(); ++s) {
    before_[s].assign(sides_[s].graph->order.size(), false);
    after_[s].assign(sides_[s].graph->order.size(), false);
    for (std::size_t b = 0; b < breakpoints_.size(); ++b) {
      const bool behind = breakpoints_[b].condition.onValues() || breakpoints_[b].action == Action::kSave;
      for (std::size_t i = 0; i < marks_[b][s].size(); ++i)
        if (marks_[b][s][i]) (behind ? after_ : before_)[s][i] = true;
    }
  }
}

std::optional<Stop> Debugger::breakBefore(const Places& before, std::vector<std::string>& log) {
  std::optional<Stop> out;
  // All ranks that come to it in one move are one hit.
  for (std::size_t i = 0; i < breakpoints_.size(); ++i) {
    Breakpoint& b = breakpoints_[i];
    if (b.condition.onValues() || b.action == Action::kSave) continue;
    int at_rank = -1;
    for (int r = 0; r < ranks() && at_rank < 0; ++r) {
      const std::size_t s = side_of_[static_cast<std::size_t>(r)], at = tape_.places()[static_cast<std::size_t>(r)];
      if ((b.rank >= 0 && b.rank != r) || at == before[static_cast<std::size_t>(r)] || at >= before_[s].size() || !before_[s][at]) continue;
      if (marks_[i][s][at]) at_rank = r;
    }
    if (at_rank < 0 || ++b.hits < b.condition.hit) continue;
    const ir::Node& node = *tape_.next(at_rank);
    const std::string what = strf("breakpoint %d: %%%s is next", b.id, node.name.c_str());
    if (b.action == Action::kLog) {
      log.push_back(strf("move %zu: ", tape_.moves()) + what);
    } else if (!out) {
      out = stopAt(StopReason::kBreakpoint, 0, what);
      out->breakpoint = b.id;
      out->rank = at_rank;
      out->node = node.name;
    }
  }
  return out;
}

Result<std::optional<Stop>> Debugger::breakAfter(const Places& before, std::vector<std::string>& log) {
  std::optional<Stop> out;
  for (int r = 0; r < ranks(); ++r) {
    const std::size_t s = side_of_[static_cast<std::size_t>(r)], at = before[static_cast<std::size_t>(r)];
    if (at == tape_.places()[static_cast<std::size_t>(r)] || !after_[s][at]) continue;
    const ir::Node& node = graph(r).node(graph(r).order[at]);
    if (ir::isStart(node.op)) continue;  // its buffers mean nothing before the wait
    for (std::size_t i = 0; i < breakpoints_.size(); ++i) {
      Breakpoint& b = breakpoints_[i];
      if ((!b.condition.onValues() && b.action != Action::kSave) || !marks_[i][s][at]) continue;
      if (b.rank >= 0 && b.rank != r && !b.condition.acrossRanks()) continue;
      std::optional<Met> why;
      if (!b.condition.onValues()) why = Met{"%" + node.name + " has run", r};
      for (const ir::ValueId v : node.outputs) {
        if (why || v == ir::kNone) continue;
        SP_ASSIGN(why, b.condition.acrossRanks() ? metAcrossRanks(b.condition, r, v, before) : met(b.condition, r, v));
      }
      if (!why || ++b.hits < b.condition.hit) continue;
      const std::string what = strf("breakpoint %d: ", b.id) + why->why;
      if (b.action == Action::kSave) {
        SP_TRY(saveValues(b, r, node, log));
      } else if (b.action == Action::kLog) {
        log.push_back(strf("move %zu: ", tape_.moves()) + what);
      } else if (!out) {
        out = stopAt(StopReason::kBreakpoint, 0, what);
        out->breakpoint = b.id;
        out->rank = why->rank;
        out->node = node.name;
      }
    }
  }
  return out;
}

Result<std::optional<Debugger::Met>> Debugger::met(const Condition& condition, int rank, ir::ValueId value) {
  const ir::Value& of = graph(rank).value(value);
  if (!ir::isFloating(of.dtype)) return std::optional<Met>();
  const auto found = tape_.scan(rank, value, 1);
  if (!found && found.error().code == "value-not-live") return std::optional<Met>();  // nobody reads it: it is gone already
  if (!found) return found.error();
  const exec::ValueScan& scan = *found;
  const auto count = [](std::int64_t n) { return static_cast<long long>(n); };
  std::string what;
  if (condition.kind == Kind::kNan && scan.nan > 0) what = strf("%lld of %lld elements are NaN", count(scan.nan), count(scan.count));
  if (condition.kind == Kind::kInf && scan.inf > 0) what = strf("%lld of %lld elements are infinite", count(scan.inf), count(scan.count));
  if (condition.kind == Kind::kAbs && scan.abs_max > condition.limit) what = strf("its largest element is %g in magnitude", scan.abs_max);
  const double zeros = scan.count == 0 ? 0.0 : static_cast<double>(scan.zeros) / static_cast<double>(scan.count);
  if (condition.kind == Kind::kZeros && zeros > condition.limit) what = strf("%.3g %% of its elements are zero", 100 * zeros);
  if (what.empty()) return std::optional<Met>();
  const bool strange = condition.kind == Kind::kNan || condition.kind == Kind::kInf;
  if (strange && !scan.strange.empty()) what += ", the first that is not finite at " + indexText(scan.strange.front());
  return std::optional(Met{strf("%%%s on rank %d: ", of.name.c_str(), rank) + what, rank});
}

Result<std::optional<Debugger::Met>> Debugger::metAcrossRanks(const Condition& condition, int rank, ir::ValueId value, const Places& before) {
  const std::optional<Met> no;
  const std::string& name = graph(rank).value(value).name;
  const Counterpart c = counterpart(rank, value);
  const bool differs = condition.kind == Kind::kDiffers;
  if (differs ? c.reference == ir::kNone : (!c.how || c.how->kind != ir::PlacementKind::kReplicated)) return no;
  // Ranks may come to it in different moves: the last one that does has it compared.
  auto live = tape_.value(rank, value);
  if (!live && live.error().code != "value-not-live") return std::move(live).error();
  if (!live) return no;
  auto& of_rank = open_[name];
  of_rank[rank] = std::move(*live);
  for (int r = 0; r < ranks(); ++r) {
    const auto v = differs ? partOn(r, name, c.reference) : valueNamed(r, name);
    if (!v) return no;  // a rank without it
    if (!computed(r, *v)) return no;
    const std::size_t at = before[static_cast<std::size_t>(r)];
    const bool moved = tape_.places()[static_cast<std::size_t>(r)] != at;
    if (r > rank && moved && graph(r).value(*v).producer == graph(r).order[at]) return no;  // its turn comes in this move
  }
  std::vector<exec::TensorBag> parts(static_cast<std::size_t>(ranks()));
  for (int r = 0; r < ranks(); ++r) {
    if (!of_rank.contains(r)) {  // it came to it before the breakpoint was there, or all ranks do in this move
      const ir::ValueId part = *(differs ? partOn(r, name, c.reference) : valueNamed(r, name));
      auto now = tape_.value(r, part);
      if (!now && now.error().code != "value-not-live") return std::move(now).error();
      if (now) {
        of_rank[r] = std::move(*now);
      } else if (!differs || valueNamed(r, name)) {
        return no;
      } else {  // another value of this rank stands for it: a rank without a node of that name is ahead, and may have freed it
        SP_ASSIGN(Parts again, this->parts(graph(r).value(part).name, r));
        of_rank[r] = std::move(again.of_rank[static_cast<std::size_t>(r)]);
      }
    }
    parts[static_cast<std::size_t>(r)] = of_rank[r];
  }
  open_.erase(name);
  if (!differs) {
    for (int r = 1; r < ranks(); ++r) {
      const exec::TensorBag &first = parts.front(), &part = parts[static_cast<std::size_t>(r)];
      if (first.entry(0).shape != part.entry(0).shape)
        return std::optional(Met{strf("%%%s is [%s] on rank 0 and [%s] on rank %d", name.c_str(), join(first.entry(0).shape, ", ").c_str(), join(part.entry(0).shape, ", ").c_str(), r), r});
      SP_ASSIGN(const exec::ValueDifference d, exec::compareValue({part}, first, {}));
      if (d.error == 0.0) continue;
      return std::optional(Met{strf("%%%s is not the same on rank %d as on rank 0: %s and %s at %s", name.c_str(), r, formatDouble(d.got).c_str(), formatDouble(d.wanted).c_str(),
                                    indexText(d.worst).c_str()), r});
    }
    return no;
  }
  SP_ASSIGN(Twin* const reference, twin());
  const auto whole = reference->value(c.reference);
  if (!whole) {
    if (whole.error().code == "value-not-live") return no;
    return whole.error();
  }
  SP_ASSIGN(const std::optional<Nearest> nearest, nearestTo(*whole, parts, c.how, outers_));
  if (!nearest) return no;
  const bool is_float = ir::isFloating(graph(rank).value(value).dtype);
  const double scale = is_float ? std::max(nearest->difference.norm, reference->scale(c.reference)) : nearest->difference.norm;
  const double share = condition.limit > 0 ? condition.limit : is_float ? setup_.sides.tolerance.gradient : 0.0;
  if (nearest->difference.error <= share * scale) return no;
  const exec::ValueDifference& d = nearest->difference;
  const std::vector<int> off = offRanks(d.rank_error, share * scale, ranks());
  const std::string which = off.size() == static_cast<std::size_t>(ranks()) ? "all ranks" : off.size() == 1 ? strf("rank %d", off.front()) : strf("%zu ranks from %d on", off.size(), off.front());
  return std::optional(Met{strf("%%%s is not the unsharded value: off on %s by %.3g of its norm, %s instead of %s at %s", name.c_str(), which.c_str(),
                                scale > 0 ? d.error / scale : d.error, formatDouble(d.got).c_str(), formatDouble(d.wanted).c_str(), indexText(d.worst).c_str()),
                           off.front()});
}

Status Debugger::saveValues(const Breakpoint& breakpoint, int rank, const ir::Node& node, std::vector<std::string>& log) {
  const auto& marks = marks_[static_cast<std::size_t>(&breakpoint - breakpoints_.data())][side_of_[static_cast<std::size_t>(rank)]];
  const bool several = node.outputs.size() > 1 || std::count(marks.begin(), marks.end(), true) > 1;
  for (const ir::ValueId v : node.outputs) {
    if (v == ir::kNone) continue;
    const auto value = tape_.value(rank, v);
    if (!value && value.error().code != "value-not-live") return value.error();
    if (!value) continue;
    const std::string path = pathFor(breakpoint.path, graph(rank).value(v).name, rank, several);
    SP_TRY(path.ends_with(".npy") ? exec::saveNpy(*value, path) : exec::saveBag(*value, path));
    log.push_back(strf("move %zu: breakpoint %d: %%%s of rank %d is in ", tape_.moves(), breakpoint.id, graph(rank).value(v).name.c_str(), rank) + path);
  }
  return {};
}

}  // namespace spscope::session::debug
