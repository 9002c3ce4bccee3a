// SPDX-License-Identifier: Apache-2.0
#include "passes/shrink/narrow.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "core/base/strings.h"
#include "passes/sequence/size_literals.h"
#include "passes/sequence/size_rules.h"
#include "passes/sequence/size_seeds.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr std::int64_t kAligned = 16;  ///< kernels treat sizes with these divisors apart: heads and columns of masks are padded to multiples of them

/// A size that was chosen. Atoms have the same numbers in every attempt: the rules are stated in the same order.
struct Choice {
  Atom atom = kNone;
  std::int64_t to = 0;
};

/// The name without the number of a layer: "model.layers.*.mlp.up_proj.weight".
std::string sharedName(const std::string& name) {
  const std::string layer(ir::layerOf(name));
  const std::size_t dot = layer.rfind('.');
  return layer.empty() ? name : (dot == std::string::npos ? "" : layer.substr(0, dot + 1)) + "*" + name.substr(layer.size());
}

/// One solution of all sizes, or why there is none.
struct Attempt {
  SizeSystem system;
  SizeRules rules;
  explicit Attempt(const ir::Graph& graph) : rules(graph, system, Resizable::kAll) {}

  std::string whyNot() const {
    const auto& conflict = system.conflict();
    return !conflict ? "" : conflict->reason.empty() ? strf("a size of %lld is fixed", static_cast<long long>(conflict->size)) : conflict->reason;
  }
};

class Narrower {
 public:
  Narrower(const ir::Graph& graph, const Settings& settings, LengthChange lengths, const NarrowLimits& limits)
      : graph_(graph), settings_(settings), lengths_(lengths), limits_(limits), ranks_(settings.ranks()) {}

  Result<Narrowed> run(const CancelToken& cancel) {
    best_ = attempt();
    if (!best_) return keepAll();  // the equations do not even hold as the file is: nothing is known
    findNames();
    narrowLength(lengths_.seq_from, lengths_.seq_to, limits_.tokens_per_rank * settings_.sp, settings_.sp, "sequence");
    narrowLength(lengths_.batch_from, lengths_.batch_to, limits_.batch, settings_.dp, "batch");
    for (Atom a : batchedDims()) pinHere(a);
    std::vector<Atom> leaves = leaves_;
    std::stable_sort(leaves.begin(), leaves.end(), [&](Atom a, Atom b) { return best_->system.oldSize(a) < best_->system.oldSize(b); });
    for (Atom a : leaves) {
      SP_TRY(cancel.check());
      narrowWidth(a);
    }
    Narrowed out;
    out.graph = graph_;
    writeSizes(out.graph, best_->rules);
    out.seq = lengths_.seq_to, out.batch = lengths_.batch_to;
    out.dimensions = std::move(dimensions_);
    return out;
  }

 private:
  Narrowed keepAll() const {
    Narrowed out;
    out.graph = graph_;
    out.seq = lengths_.seq_from, out.batch = lengths_.batch_from;
    out.dimensions.push_back({"sequence", out.seq, out.seq, "sizes cannot be followed: " + why_});
    return out;
  }

  /// Everything chosen so far; null where it contradicts itself (`why_` says how).
  std::unique_ptr<Attempt> attempt(std::optional<Choice> more = std::nullopt) {
    auto a = std::make_unique<Attempt>(graph_);
    DiagnosticSink unheard;
    LengthSeeds seeds(a->system, a->rules, lengths_);
    seeds.inputs(graph_, settings_);
    for (const ir::Input& input : graph_.inputs)
      if (input.name == "position_ids" && input.kind == ir::InputKind::kUser) a->rules.assumePositions(input.value);
    a->rules.run();
    if (leaves_.empty()) leaves_ = a->system.leaves();
    seeds.marks(graph_, settings_);
    for (const Choice& c : chosen_) a->system.follow(c.atom, c.to - a->system.oldSize(c.atom), Length::kWidth);
    if (more) a->system.follow(more->atom, more->to - a->system.oldSize(more->atom), Length::kWidth);
    settle(a->system, a->rules, 0, unheard);
    why_ = a->whyNot();
    if (a->system.conflict()) return nullptr;
    for (std::size_t v = 0; v < graph_.valueCount(); ++v) {
      const ir::Dims& before = graph_.value(static_cast<ValueId>(v)).shape;
      if (a->rules.dims(static_cast<ValueId>(v)).size() != before.size()) continue;  // of a node that is gone
      const ir::Dims now = a->rules.newShape(static_cast<ValueId>(v));
      for (std::size_t d = 0; d < now.size(); ++d)
        if (before[d] > 0 && now[d] <= 0) {
          why_ = "a value would be empty";
          return nullptr;
        }
    }
    return a;
  }

  void narrowLength(std::int64_t from, std::int64_t& to, std::int64_t aim, std::int64_t ranks, const char* name) {
    if (from <= 0) return;
    std::string why;
    if (from > aim) {
      const std::int64_t step = std::lcm(kAligned, 2 * ranks);
      std::vector<std::int64_t> candidates;
      std::int64_t m = aim;
      while (m < from && m % step != from % step) ++m;
      if (m < from) candidates.push_back(m);
      for (std::int64_t half = from / 2; half >= aim && half % step == from % step; half /= 2) candidates.push_back(half);
      std::sort(candidates.begin(), candidates.end());
      for (const std::int64_t c : candidates) {
        to = c;
        auto a = attempt();
        if (a) {
          best_ = std::move(a);
          break;
        }
        if (why.empty()) why = why_;
        to = from;
      }
    }
    if (from > 1) dimensions_.push_back({name, from, to, to == from ? why : ""}), image_[from] = to, used_.insert(to);
  }

  void pinHere(Atom a) {
    const std::int64_t now = best_->system.newSize(a);
    if (auto next = attempt(Choice{a, now})) {
      best_ = std::move(next);
      chosen_.push_back({a, now});
      fixed_.push_back(a);
    }
  }

  /// The dims that a product or an attention runs over, each for itself: heads, experts.
  std::vector<Atom> batchedDims() const {
    std::vector<Atom> out;
    const auto take = [&](ValueId v, std::size_t count) {
      for (std::size_t d = 0; d < count; ++d)
        for (Atom a : best_->rules.dims(v)[d])
          if (std::none_of(out.begin(), out.end(), [&](Atom b) { return best_->system.same(a, b); })) out.push_back(a);
    };
    for (const NodeId id : graph_.order) {
      const Node& n = graph_.node(id);
      const std::string_view base = ir::baseName(n.op);
      const bool product = base == "matmul" || base == "bmm" || base == "baddbmm", grouped = base.find("grouped_mm") != std::string_view::npos;
      if (!product && !grouped && !ir::isAttention(n.op)) continue;
      if (grouped) {
        ir::forEachUse(n, [&](const ir::Use& use) {
          if (graph_.value(use.value).shape.size() == 3) take(use.value, 1);
        });
        continue;
      }
      int seen = 0;
      ir::forEachUse(n, [&](const ir::Use& use) {
        const std::size_t rank = graph_.value(use.value).shape.size();
        if (++seen <= 3 && rank >= 3) take(use.value, rank - 2);
      });
    }
    return out;
  }

  void narrowWidth(Atom a) {
    const SizeSystem& now = best_->system;
    const std::int64_t n = now.oldSize(a);
    if (n <= limits_.small || now.newSize(a) != n) {
      if (n > limits_.small && now.lengthOf({a}) == Length::kWidth) note(a, n, now.newSize(a), "");
      return;
    }
    if (std::any_of(fixed_.begin(), fixed_.end(), [&](Atom f) { return now.same(f, a); })) return note(a, n, n, "heads and experts stay as many as they are");
    std::string why = "there is no smaller size with the same divisors";
    bool first = true;
    // A table of positions has a row for each token, in the twin as well.
    const bool table = n >= lengths_.seq_from && std::any_of(tables_.begin(), tables_.end(), [&](Atom t) { return now.same(t, a); });
    for (const std::int64_t m : candidates(n, table ? lengths_.seq_to : 2)) {
      if (auto next = attempt(Choice{a, m})) {
        best_ = std::move(next);
        chosen_.push_back({a, m});
        image_.try_emplace(n, m);
        used_.insert(m);
        return note(a, n, m, "");
      }
      if (first) why = why_, first = false;
    }
    note(a, n, n, why);
  }

  std::vector<std::int64_t> candidates(std::int64_t n, std::int64_t least) const {
    const std::int64_t base = std::lcm<std::int64_t>(kAligned, ranks_);
    const auto fits = [&](std::int64_t m) { return m >= least && m < n && std::gcd(m, base) == std::gcd(n, base); };
    std::vector<std::int64_t> out;
    if (const auto it = image_.find(n); it != image_.end() && fits(it->second)) out.push_back(it->second);
    const auto aim = std::max<std::int64_t>(limits_.small / 2, static_cast<std::int64_t>(16 * std::sqrt(static_cast<double>(n) / 128)));
    std::int64_t m = std::max(aim, least);
    while (m < n && (!fits(m) || used_.count(m))) ++m;
    if (fits(m)) out.push_back(m);
    std::vector<std::int64_t> halves;
    for (std::int64_t half = n / 2; half >= aim && fits(half) && n % half == 0; half /= 2) halves.push_back(half);
    std::reverse(halves.begin(), halves.end());
    if (halves.size() > 4) halves.resize(4);
    out.insert(out.end(), halves.begin(), halves.end());
    return out;
  }

  void note(Atom a, std::int64_t from, std::int64_t to, std::string why) {
    std::string name;
    for (const auto& [atom, called] : names_)
      if (best_->system.same(atom, a)) {
        name = called;
        break;
      }
    if (name.empty()) return;  // of values on the way, given by others
    const auto like = [&](const Dimension& d) { return d.name == name && d.from == from && d.to == to; };
    if (std::none_of(dimensions_.begin(), dimensions_.end(), like)) dimensions_.push_back({name, from, to, std::move(why)});
  }

  void findNames() {
    const SizeRules& rules = best_->rules;
    const auto call = [&](ValueId v, int d, const char* name) {
      if (v == kNone) return;
      const auto& dims = rules.dims(v);
      if (d < 0) d += static_cast<int>(dims.size());
      if (d < 0 || d >= static_cast<int>(dims.size())) return;
      for (Atom a : dims[static_cast<std::size_t>(d)]) names_.emplace_back(a, name);
    };
    for (const NodeId id : graph_.order) {
      const Node& n = graph_.node(id);
      const std::string_view base = ir::baseName(n.op);
      if (ir::isAttention(n.op)) {
        call(ir::useArg(n, "query"), -1, "head size");
        call(ir::useArg(n, "value"), -1, "head size");
        call(ir::useArg(n, "query"), -3, "heads");
        call(ir::useArg(n, "key"), -3, "key heads");
      } else if (base == "cross_entropy_loss") {
        const ValueId scores = ir::useArg(n, "self");
        if (scores != kNone) call(scores, graph_.value(scores).shape.size() > 1 ? 1 : 0, "vocabulary");
      } else if (base == "embedding") {
        call(ir::useArg(n, "weight"), 1, "hidden");
        if (const ValueId table = ir::useArg(n, "weight"); table != kNone && rules.dims(table).size() == 2)
          tables_.insert(tables_.end(), rules.dims(table)[0].begin(), rules.dims(table)[0].end());
      }
    }
    for (const ir::Input& input : graph_.inputs)
      for (const AtomList& list : rules.dims(input.value))
        for (Atom a : list) names_.emplace_back(a, "of " + sharedName(input.name));
  }

  const ir::Graph& graph_;
  const Settings& settings_;
  LengthChange lengths_;
  const NarrowLimits limits_;
  const int ranks_;
  std::vector<Atom> leaves_;
  std::vector<std::pair<Atom, std::string>> names_;
  std::vector<Atom> tables_;  ///< rows of what is looked up in
  std::vector<Choice> chosen_;
  std::vector<Atom> fixed_;
  std::map<std::int64_t, std::int64_t> image_;  ///< sizes chosen so far
  std::set<std::int64_t> used_;
  std::unique_ptr<Attempt> best_;
  std::string why_;
  std::vector<Dimension> dimensions_;
};

}  // namespace

Result<Narrowed> narrow(const ir::Graph& imported, const Settings& settings, std::int64_t seq, std::int64_t batch, const NarrowLimits& limits, const CancelToken& cancel) {
  ir::Graph graph = imported;
  graph.removeDeadNodes();  // what nothing reads must not keep a size
  return Narrower(graph, settings, {seq, seq, batch, batch}, limits).run(cancel);
}

}  // namespace spscope::passes
