// SPDX-License-Identifier: Apache-2.0
// Values: of each rank, put together, against the unsharded twin and against each other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/debug/debugger.h"
#include "core/session/debug/why.h"
#include "core/torch/value_join.h"

namespace spscope::session::debug {

Result<ir::ValueId> Debugger::valueNamed(int rank, const std::string& name) const {
  const std::string plain = name.starts_with('%') ? name.substr(1) : name;
  const auto& values = side(rank).values;
  if (const auto it = values.find(plain); it != values.end()) return it->second;
  Error error = makeError("value-unknown", "the program has no value and no node %" + plain, Outcome::kUsage);
  if (const std::string near = nearest(plain, names()); !near.empty()) error.legal = "%" + near;
  return error;
}

Result<ir::ValueId> Debugger::partOn(int rank, const std::string& name, ir::ValueId reference) {
  Result<ir::ValueId> own = valueNamed(rank, name);
  if (own || reference == ir::kNone) return own;
  const ir::Graph& g = graph(rank);
  ir::ValueId found = ir::kNone;
  for (std::size_t i = 0; i < tape_.places()[static_cast<std::size_t>(rank)] && i < g.order.size(); ++i)
    for (const ir::ValueId v : g.node(g.order[i]).outputs)
      if (v != ir::kNone && !ir::isStart(g.node(g.order[i]).op) && counterpart(rank, v).reference == reference) found = v;
  if (found == ir::kNone) return own;
  return found;
}

bool Debugger::computed(int rank, ir::ValueId value) const {
  const ir::NodeId producer = graph(rank).value(value).producer;
  if (producer == ir::kNone) return true;
  return side(rank).position[static_cast<std::size_t>(producer)] < static_cast<std::int64_t>(tape_.places()[static_cast<std::size_t>(rank)]);
}

Counterpart Debugger::counterpart(int rank, ir::ValueId value) {
  Side& s = sides_[side_of_[static_cast<std::size_t>(rank)]];
  if (s.counterparts.empty()) s.counterparts = counterpartsOf(*s.graph, reference_ ? *reference_->programs.front() : *setup_.sides.reference, reference_ && reference_->wider);
  return s.counterparts[static_cast<std::size_t>(value)];
}

Result<Twin*> Debugger::twin() {
  if (!twin_) {
    Reference reference = reference_ ? *reference_ : unshardedReference(setup_.sides);
    reference.step.cancel = life_;
    SP_ASSIGN(twin_, Twin::create(std::move(reference)));
  }
  return twin_.get();
}

Status Debugger::setTwin(const ReferenceChoice& choice) {
  SP_ASSIGN(Reference reference, makeReference(choice, setup_.sides, origin(), request_));
  std::unique_ptr<Twin> by_rank;
  if (reference.by_rank) {
    reference.step.cancel = life_;
    SP_ASSIGN(by_rank, Twin::create(std::move(reference)));
  }
  reference_.reset();
  if (by_rank == nullptr && choice.kind != ReferenceChoice::Kind::kUnsharded) reference_ = std::move(reference);
  rank_twin_ = std::move(by_rank);
  twin_.reset();
  for (Side& s : sides_) s.counterparts.clear();
  return {};
}

std::string Debugger::twinWords() const {
  return rank_twin_ ? rank_twin_->reference().words : reference_ ? reference_->words : unshardedReference(setup_.sides).words;
}

Result<Debugger::Parts> Debugger::parts(const std::string& value, int rank) {
  if (rank >= ranks()) return makeError("usage", strf("there is no rank %d: they are 0 to %d", rank, ranks() - 1), Outcome::kUsage);
  Parts out;
  out.of_rank.resize(static_cast<std::size_t>(ranks()));
  std::vector<ir::ValueId> gone(out.of_rank.size(), ir::kNone);
  for (int r = 0; r < ranks(); ++r) {
    if (rank >= 0 && r != rank) continue;
    SP_ASSIGN(const ir::ValueId v, valueNamed(r, value));
    const ir::NodeId producer = graph(r).value(v).producer;
    if (producer != ir::kNone && ir::isStart(graph(r).node(producer).op))
      return makeError("value-not-live", "%" + graph(r).value(v).name + " is a buffer on its way between ranks: look at what the wait for it gives", Outcome::kNo);
    if (!computed(r, v)) return makeError("value-not-live", strf("%%%s is not computed yet on rank %d", graph(r).value(v).name.c_str(), r), Outcome::kNo);
    auto live = tape_.value(r, v);
    if (live) out.of_rank[static_cast<std::size_t>(r)] = std::move(*live);
    else if (live.error().code == "value-not-live") gone[static_cast<std::size_t>(r)] = v, out.again = true;
    else return std::move(live).error();
  }
  if (!out.again) return out;
  request_.report("computing " + value + " again");
  SP_ASSIGN(std::vector<exec::TensorBag> again, tape_.again(gone));
  for (std::size_t r = 0; r < gone.size(); ++r)
    if (gone[r] != ir::kNone) out.of_rank[r] = std::move(again[r]);
  return out;
}

Result<Debugger::There> Debugger::there(const std::string& value, int rank) const {
  There out = There::kLive;
  for (int r = 0; r < ranks(); ++r) {
    if (rank >= 0 && r != rank) continue;
    SP_ASSIGN(const ir::ValueId v, valueNamed(r, value));
    if (!computed(r, v)) return There::kNotYet;
    SP_ASSIGN(const bool live, tape_.live(r, v));
    if (!live) out = There::kGone;
  }
  return out;
}

Result<ValueLook> Debugger::look(const std::string& value, int rank) {
  SP_ASSIGN(const Parts found, parts(value, rank));
  const int any = std::max(rank, 0);
  SP_ASSIGN(const ir::ValueId v, valueNamed(any, value));
  const ir::Value& of = graph(any).value(v);
  ValueLook out;
  out.value = of.name;
  out.shape = of.shape;
  out.dtype = of.dtype;
  out.again = found.again;
  if (of.producer != ir::kNone) {
    out.node = nameOf(any, graph(any).node(of.producer));
  } else {
    out.node.name = of.name;
    out.node.op = "input";
  }
  const Counterpart twin = counterpart(any, v);
  const std::optional<exec::Assembly> how = twin.how ? twin.how : assemblyOf(of);
  out.placement = of.producer == ir::kNone ? "the same on every rank" : how ? placementWords(*how) : "not recorded: it came with the backward";
  for (int r = 0; r < ranks(); ++r) {
    if (rank >= 0 && r != rank) continue;
    RankValue one;
    one.rank = r;
    SP_ASSIGN(one.summary, exec::summarize(found.of_rank[static_cast<std::size_t>(r)]));
    SP_ASSIGN(one.scan, exec::scanValue(found.of_rank[static_cast<std::size_t>(r)]));
    out.ranks.push_back(std::move(one));
  }
  return out;
}

Result<exec::TensorBag> Debugger::unsharded(const std::string& value) {
  SP_ASSIGN(const ir::ValueId v, valueNamed(0, value));
  const Counterpart c = counterpart(0, v);
  if (c.reference == ir::kNone) return makeError("debug-no-twin", "the unsharded program has no value like %" + graph(0).value(v).name, Outcome::kNo);
  SP_ASSIGN(Twin* const reference, twin());
  return reference->value(c.reference);
}

Result<exec::TensorBag> Debugger::whole(const std::string& value, bool* again) {
  SP_ASSIGN(const ir::ValueId v, valueNamed(0, value));
  SP_ASSIGN(Parts found, parts(value));
  if (again != nullptr) *again = found.again;
  const ir::Value& of = graph(0).value(v);
  if (of.producer == ir::kNone || ranks() == 1) return std::move(found.of_rank.front());
  const Counterpart c = counterpart(0, v);
  std::optional<exec::Assembly> how = c.how ? c.how : assemblyOf(of);
  if (!how && c.reference != ir::kNone) {
    SP_ASSIGN(const exec::TensorBag reference, unsharded(value));
    SP_ASSIGN(const std::optional<Nearest> nearest, nearestTo(reference, found.of_rank, {}, outers_));
    if (nearest) how = nearest->how;
  }
  if (!how) return makeError("debug-no-placement", "nothing says how the ranks' parts of %" + of.name + " go together", Outcome::kNo);
  return exec::joinParts(found.of_rank, *how);
}

Result<Comparison> Debugger::compare(const std::string& value) {
  if (rank_twin_) return compareByRank(value);
  int home = 0;  // the first rank that has it
  while (home + 1 < ranks() && !valueNamed(home, value)) ++home;
  if (!valueNamed(home, value)) home = 0;
  SP_ASSIGN(const ir::ValueId v, valueNamed(home, value));
  const ir::Value& of = graph(home).value(v);
  const Counterpart c = counterpart(home, v);
  Parts found;
  for (int r = 0; r < ranks(); ++r) {
    SP_ASSIGN(const ir::ValueId part, partOn(r, value, c.reference));
    if (part == v && r == home && std::ssize(sides_) == 1) {  // one program for all
      SP_ASSIGN(found, parts(value));
      break;
    }
    SP_ASSIGN(Parts one, parts(graph(r).value(part).name, r));
    found.of_rank.push_back(std::move(one.of_rank[static_cast<std::size_t>(r)]));
    found.again = found.again || one.again;
  }
  Comparison out;
  out.value = of.name;
  out.again = found.again;
  if (reference_) out.twin = reference_->words;
  if (c.reference == ir::kNone) {
    out.alone = "the unsharded program has no such value";
    return out;
  }
  SP_ASSIGN(Twin* const against, twin());
  SP_ASSIGN(const exec::TensorBag reference, against->value(c.reference));
  const ir::Graph& twin_graph = against->graph();
  const ir::NodeId producer = twin_graph.value(c.reference).producer;
  out.reference_node = producer == ir::kNone ? twin_graph.value(c.reference).name : twin_graph.node(producer).name;
  SP_ASSIGN(std::optional<Nearest> nearest, nearestTo(reference, found.of_rank, c.how, outers_));
  if (!nearest) {
    out.alone = "the ranks' parts do not make up the unsharded value: they lie in another shape";
    return out;
  }
  const exec::Tolerance& tolerance = setup_.sides.tolerance;
  const bool is_float = ir::isFloating(of.dtype);
  const double scale = is_float ? std::max(nearest->difference.norm, twin_->scale(c.reference)) : nearest->difference.norm;
  const double error = nearest->difference.error;
  out.allowed = is_float ? tolerance.gradient : 0.0;
  out.rel = error == 0.0 ? 0.0 : scale > 0.0 ? error / scale : std::numeric_limits<double>::infinity();
  out.within = error <= out.allowed * scale;
  out.placement = placementWords(nearest->how);
  out.difference = std::move(nearest->difference);
  if (!out.within) out.off = offRanks(out.difference.rank_error, out.allowed * scale, ranks());
  return out;
}

Result<Comparison> Debugger::compareByRank(const std::string& value) {
  SP_ASSIGN(const Parts found, parts(value));
  Comparison out;
  out.again = found.again;
  out.twin = rank_twin_->reference().words;
  out.by_rank = true;
  double squares = 0.0, norms = 0.0;
  for (int r = 0; r < ranks(); ++r) {
    SP_ASSIGN(const ir::ValueId v, valueNamed(r, value));
    const ir::Value& of = graph(r).value(v);
    const ir::Graph& twin_graph = rank_twin_->graph(r);
    out.value = of.name;
    // By name: both are the same program up to where the pipelines part, and a recomputed node bears a name of its own.
    ir::ValueId same = ir::kNone;
    for (std::size_t i = 0; i < twin_graph.valueCount() && same == ir::kNone; ++i)
      if (const ir::Value& candidate = twin_graph.value(static_cast<ir::ValueId>(i)); candidate.name == of.name && candidate.dtype == of.dtype && candidate.local == of.local)
        same = candidate.id;
    const ir::NodeId producer = same == ir::kNone ? ir::kNone : twin_graph.value(same).producer;
    const bool runs = same != ir::kNone && (producer == ir::kNone || std::find(twin_graph.order.begin(), twin_graph.order.end(), producer) != twin_graph.order.end());
    if (!runs) {
      out.alone = out.twin + " have no such value";
      return out;
    }
    out.reference_node = producer == ir::kNone ? of.name : twin_graph.node(producer).name;
    SP_ASSIGN(const exec::TensorBag wanted, rank_twin_->value(same, r));
    SP_ASSIGN(exec::ValueDifference d, exec::compareValue({found.of_rank[static_cast<std::size_t>(r)]}, wanted, {}));
    squares += d.error * d.error;
    norms += d.norm * d.norm;
    if (d.error > 0.0) out.off.push_back(r);
    if (r == 0 || d.max_abs > out.difference.max_abs) out.difference = std::move(d);
  }
  // Equal to the last bit, or not: nothing that a policy or a step does may be excused by rounding.
  out.difference.error = std::sqrt(squares);
  out.difference.norm = std::sqrt(norms);
  out.rel = squares == 0.0 ? 0.0 : norms > 0.0 ? out.difference.error / out.difference.norm : std::numeric_limits<double>::infinity();
  out.within = squares == 0.0;
  out.placement = "each rank's part";
  return out;
}

Result<Comparison> Debugger::compareRanks(const std::string& value, int rank, int with) {
  for (const int r : {rank, with})
    if (r < 0 || r >= ranks()) return makeError("usage", strf("there is no rank %d: they are 0 to %d", r, ranks() - 1), Outcome::kUsage);
  SP_ASSIGN(Parts one, parts(value, rank));
  SP_ASSIGN(Parts other, parts(value, with));
  Comparison out;
  SP_ASSIGN(const ir::ValueId v, valueNamed(rank, value));
  out.value = graph(rank).value(v).name;
  out.rank = rank;
  out.with = with;
  out.again = one.again || other.again;
  const exec::TensorBag& a = one.of_rank[static_cast<std::size_t>(rank)];
  const exec::TensorBag& b = other.of_rank[static_cast<std::size_t>(with)];
  if (a.entry(0).shape != b.entry(0).shape) {
    out.alone = strf("it has another shape there: [%s] on rank %d, [%s] on rank %d", join(a.entry(0).shape, ", ").c_str(), rank, join(b.entry(0).shape, ", ").c_str(), with);
    return out;
  }
  SP_ASSIGN(out.difference, exec::compareValue({a}, b, {}));
  out.rel = out.difference.error == 0.0 ? 0.0 : out.difference.norm > 0.0 ? out.difference.error / out.difference.norm : std::numeric_limits<double>::infinity();
  out.within = out.difference.error == 0.0;
  if (!out.within) out.off = {rank};
  return out;
}

Result<std::vector<WhyRow>> Debugger::why(const std::string& name) {
  const std::string plain = name.starts_with('%') ? name.substr(1) : name;
  const ir::Graph& g = graph(0);
  const ir::Node* node = nullptr;
  for (const ir::NodeId id : g.order)
    if (g.node(id).name == plain) node = &g.node(id);
  if (node == nullptr) {
    SP_ASSIGN(const ir::ValueId v, valueNamed(0, plain));
    const ir::Value& value = g.value(v);
    if (value.producer == ir::kNone) return std::vector<WhyRow>{{"what is it", "an input of the program", "file"}, {"how is it placed", placementSentence(value), "plan-sequence"}};
    node = &g.node(value.producer);
  }
  int program = -1;
  if (setup_.compiled != nullptr) {
    const auto& programs = setup_.compiled->compiled.programs;
    for (std::size_t i = 0; i < programs.size(); ++i)
      if (programs[i].get() == &g) program = static_cast<int>(i);
  }
  return whyOf(g, *node, setup_.compiled.get(), program);
}

Result<ValueComparison> Debugger::firstWrong() { return compareValues(setup_.sides, request_); }

}  // namespace spscope::session::debug
