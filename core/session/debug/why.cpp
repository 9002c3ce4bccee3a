// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/why.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "core/ir/text.h"
#include "core/session/value_map.h"

namespace spscope::session::debug {
namespace {

constexpr std::size_t kListed = 6;
constexpr int kDeep = 8;  ///< generations of "made from"

std::string shortPlacement(const ir::Value& v) {
  return !isPlaced(v) ? "not recorded" : v.placement.isReplicated() ? "replicated" : v.placement.isPartial() ? "partial" : strf("sharded on %d", v.placement.dim);
}

class Asked {
 public:
  Asked(const ir::Graph& graph, const ir::Node& node, const CompileOutcome* compiled, int program)
      : g_(graph), n_(node), compiled_(compiled), program_(program) {}

  std::vector<WhyRow> run() {
    if (n_.location) {
      const std::string type = n_.location->module_type.empty() ? "" : " (" + n_.location->module_type + ")";
      add("where does it come from", n_.location->module_path.empty() ? "the model's own code" : n_.location->module_path + type, n_.location->source);
    }
    madeBy();
    placement();
    exchange();
    fused();
    kept();
    size();
    users();
    notes();
    return std::move(rows_);
  }

 private:
  void add(std::string question, std::string answer, std::string source = {}) { rows_.push_back({std::move(question), std::move(answer), std::move(source)}); }

  const passes::StageRecord* stage(const std::string& name) const {
    if (compiled_ == nullptr) return nullptr;
    for (const passes::StageRecord& s : compiled_->compiled.stages)
      if (s.name == name) return &s;
    return nullptr;
  }

  void madeBy() {
    const std::string pass = n_.provenance.pass.str();
    add("which pass made it", pass.empty() ? "none: it is as in the file" : pass + " made it or changed it last", pass.empty() ? "file" : pass);
    if (n_.forward != ir::kNone && static_cast<std::size_t>(n_.forward) < g_.nodeCount())
      add(n_.phase == ir::Phase::kRecompute ? "what does it repeat" : "what is it the derivative of", "%" + g_.node(n_.forward).name + " (" + g_.node(n_.forward).op.str() + ")", pass);
    // Back to the file, each generation in the last stage that had it.
    std::set<ir::NodeId> seen{n_.id};
    std::vector<ir::Provenance> now{n_.provenance};
    for (int deep = 0; deep < kDeep && !now.empty() && compiled_ != nullptr; ++deep) {
      std::vector<ir::Provenance> next;
      for (const ir::Provenance& p : now) {
        for (const ir::NodeId from : p.from) {
          if (!seen.insert(from).second) continue;
          const ir::Node* node = lastBefore(p.pass.str(), from);
          if (node == nullptr) continue;
          add(deep == 0 ? "from what" : "and that from what", "%" + node->name + " (" + node->op.str() + ")", p.pass.str());
          next.push_back(node->provenance);
        }
      }
      now = std::move(next);
    }
  }

  /// The node as it was in the last stage before `pass` that has it.
  const ir::Node* lastBefore(const std::string& pass, ir::NodeId id) const {
    const ir::Node* out = nullptr;
    for (const passes::StageRecord& s : compiled_->compiled.stages) {
      if (s.name == pass && out != nullptr) break;
      if (s.graph && id >= 0 && static_cast<std::size_t>(id) < s.graph->nodeCount() && s.graph->node(id).id == id) out = &s.graph->node(id);
    }
    return out;
  }

  void placement() {
    for (const ir::ValueId v : n_.outputs)
      if (v != ir::kNone) add(n_.outputs.size() > 1 ? strf("how is result %d placed", g_.value(v).output_index) : "how is it placed", placementSentence(g_.value(v)), "plan-sequence");
    std::vector<std::string> operands;
    ir::forEachUse(n_, [&](const ir::Use& use) { operands.push_back("%" + g_.value(use.value).name + " " + shortPlacement(g_.value(use.value))); });
    if (operands.size() > kListed) {
      const std::size_t more = operands.size() - kListed;
      operands.resize(kListed);
      operands.push_back(strf("and %zu more", more));
    }
    const std::string op(ir::baseName(n_.op));
    if (!operands.empty() && !n_.op.str().starts_with("sp.")) add("by which rule", "that of " + op + " for " + join(operands, ", "), "plan-sequence");
  }

  void exchange() {
    if (!n_.op.str().starts_with("sp.")) return;
    const bool start = ir::isStart(n_.op);
    const std::size_t parts = start ? ir::partCount(n_) : 1;
    for (std::size_t i = 0; i < std::min(parts, kListed); ++i) {
      const ir::Node part = start ? ir::partOf(g_, n_, i) : n_;
      const ir::ValueId from = ir::useArg(part, "self");
      if (from == ir::kNone || part.outputs.empty() || part.outputs.front() == ir::kNone) continue;
      const ir::Value& before = g_.value(from);
      std::string answer = strf("%s moves %%%s (%s)", std::string(ir::baseName(part.op)).c_str(), before.name.c_str(), shortPlacement(before).c_str());
      const ir::Value& after = g_.value(part.outputs.front());
      if (!start) answer += ", which is " + shortPlacement(after) + " then";
      if (const std::string who = askedFor(part.outputs.front()); !who.empty()) answer += "; asked for by " + who;
      add("what does it exchange, and for whom", answer, n_.provenance.pass.str());
    }
    if (parts > kListed) add("what else", strf("and %zu more operands", parts - kListed), n_.provenance.pass.str());
    if (compiled_ == nullptr) return;
    for (const GatherNote& note : compiled_->figures.gathers)
      if (note.node == n_.name || note.node == "%" + n_.name) add("why is it gathered", note.reason, note.source.empty() ? "plan-sequence" : note.source);
  }

  /// With which others it is one exchange, or why it is alone: fuse-collectives joins neighbours of one kind that do not wait for each other.
  void fused() {
    const bool start = ir::isStart(n_.op);
    if (!start) {
      if (ir::isCollective(n_.op)) add("is it fused with others", "no: nothing is, with --communication plain", "fuse-collectives");
      return;
    }
    if (const std::size_t parts = ir::partCount(n_); parts > 1) {
      std::vector<std::string> others;
      for (std::size_t i = 0; i < std::min(parts, kListed); ++i) others.push_back("%" + g_.value(ir::useArg(ir::partOf(g_, n_, i), "self")).name);
      if (parts > kListed) others.push_back(strf("and %zu more", parts - kListed));
      add("is it fused with others", strf("yes, one exchange of %zu operands: ", parts) + join(others, ", "), "fuse-collectives");
      return;
    }
    const ir::Node *before = nullptr, *after = nullptr;
    bool passed = false;
    for (const ir::NodeId id : g_.order) {
      const ir::Node& other = g_.node(id);
      if (other.id == n_.id) passed = true;
      else if (ir::isStart(other.op) && !passed) before = &other;
      else if (ir::isStart(other.op) && after == nullptr) after = &other;
    }
    std::vector<std::string> why;
    if (before != nullptr) why.push_back("%" + before->name + " before it " + apart(*before, n_, *before));
    if (after != nullptr) why.push_back("%" + after->name + " behind it " + apart(n_, *after, *after));
    add("is it fused with others", "no: " + (why.empty() ? "it is the only collective" : join(why, "; ")), "fuse-collectives");
  }

  /// Why `first` and `second`, which begins later, are two exchanges; about `other`, the one that is not asked about.
  std::string apart(const ir::Node& first, const ir::Node& second, const ir::Node& other) const {
    if (first.op != second.op) return "is " + std::string(ir::baseName(ir::plainOf(other.op)));
    if (first.phase != second.phase) return "is of another phase";
    if (ir::axisOf(first) != ir::axisOf(second)) return "is of another axis of the mesh";
    const auto type = [&](const ir::Node& n) { return g_.value(ir::useArg(ir::partOf(g_, n, 0), "self")).dtype; };
    if (type(first) != type(second)) return "moves " + std::string(ir::longName(type(other)));
    std::set<ir::ValueId> from(first.outputs.begin(), first.outputs.end());
    for (const ir::NodeId id : g_.order) {
      const ir::Node& n = g_.node(id);
      bool reads = false;
      ir::forEachUse(n, [&](const ir::Use& use) { reads = reads || from.contains(use.value); });
      if (!reads) continue;
      if (n.id == second.id) return other.id == first.id ? "gives what it needs" : "needs what it gives";
      from.insert(n.outputs.begin(), n.outputs.end());
    }
    return "is in another bucket, or is no neighbour of it in the order before the schedule";
  }

  /// The first node that reads the value once it has arrived.
  std::string askedFor(ir::ValueId value) const {
    std::set<ir::ValueId> same{value};
    for (const ir::NodeId id : g_.order) {
      const ir::Node& user = g_.node(id);
      bool reads = false;
      ir::forEachUse(user, [&](const ir::Use& use) { reads = reads || same.contains(use.value); });
      if (!reads || user.id == n_.id) continue;
      const bool moves = user.op == ir::sp::kWait || user.op == ir::sp::kUnpack;
      if (!moves) return "%" + user.name + " (" + std::string(ir::baseName(user.op)) + ")";
      for (const ir::ValueId v : user.outputs) same.insert(v);
    }
    return {};
  }

  void kept() {
    if (n_.phase == ir::Phase::kRecompute) add("why is it made again", "the forward's value was not kept for the backward: see why %" + (n_.forward == ir::kNone ? n_.name : g_.node(n_.forward).name), "choose-saved");
    if (compiled_ == nullptr || program_ < 0 || static_cast<std::size_t>(program_) >= compiled_->compiled.memory.size()) return;
    for (const ir::ValueId v : n_.outputs) {
      if (v == ir::kNone) continue;
      const ir::ValueId owner = g_.value(v).storage == ir::kNone ? v : g_.value(v).storage;
      for (const passes::ValueDecision& d : compiled_->compiled.memory[static_cast<std::size_t>(program_)].values) {
        if (d.value != owner) continue;
        const char* what = d.decision == passes::Decision::kSave ? "saved: " : d.decision == passes::Decision::kRecompute ? "made again in the backward: " : "freed: ";
        add("is it kept for the backward", what + std::string(passes::reasonText(d.reason)) + strf("; making it again would take %s (predicted)", formatNs(d.recompute_ns).c_str()), "choose-saved");
      }
    }
  }

  void size() {
    const std::vector<std::int32_t> position = ir::positionsOf(g_);
    for (const ir::ValueId id : n_.outputs) {
      if (id == ir::kNone) continue;
      const ir::Value& v = g_.value(id);
      if (v.storage != ir::kNone) {
        add("how large is it", "a view of %" + g_.value(v.storage).name + ": it takes nothing", "build-joint");
        continue;
      }
      add("how large is it", formatBytes(std::max(v.storage_bytes, v.localBytes())) + " on rank " + std::to_string(g_.rank) + ": [" + join(v.local, ", ") + "] of " +
                                 std::string(ir::longName(v.dtype)) + (v.local == v.shape ? "" : ", whole [" + join(v.shape, ", ") + "]"), "");
      if (compiled_ == nullptr || program_ != compiled_->figures.program || compiled_->figures.memory.peak_position < 0) continue;
      std::int32_t last = position[static_cast<std::size_t>(n_.id)];
      bool output = false;
      for (const ir::NodeId user : g_.order)
        ir::forEachUse(g_.node(user), [&](const ir::Use& use) {
          if (use.value == id || g_.value(use.value).storage == id) last = std::max(last, position[static_cast<std::size_t>(user)]);
        });
      for (const ir::Output& o : g_.outputs) output = output || o.value == id || (o.value != ir::kNone && g_.value(o.value).storage == id);
      const std::int32_t peak = compiled_->figures.memory.peak_position, made = position[static_cast<std::size_t>(n_.id)];
      const std::string until = output ? "to the end of the step" : "to %" + g_.node(g_.order[static_cast<std::size_t>(last)]).name;
      const bool alive = made <= peak && (output || last >= peak);
      add("is it alive at the peak", std::string(alive ? "yes" : "no") + ": it lives " + until + ", the peak is at %" + compiled_->figures.peak_node, "predicted memory curve");
    }
  }

  void users() {
    std::vector<std::string> names;
    std::size_t more = 0;
    for (const ir::NodeId id : g_.order) {
      bool reads = false;
      ir::forEachUse(g_.node(id), [&](const ir::Use& use) { reads = reads || std::find(n_.outputs.begin(), n_.outputs.end(), use.value) != n_.outputs.end(); });
      if (reads && names.size() < kListed) names.push_back("%" + g_.node(id).name);
      else if (reads) ++more;
    }
    if (more > 0) names.push_back(strf("and %zu more", more));
    add("who reads it", names.empty() ? "no node" : join(names, ", "));
  }

  void notes() {
    if (compiled_ == nullptr) return;
    for (const passes::StageRecord& s : compiled_->compiled.stages)
      for (const Diagnostic& d : s.diagnostics)
        if (d.node == n_.name || d.node == "%" + n_.name) add("what did a pass say of it", d.message, s.name);
  }

  const ir::Graph& g_;
  const ir::Node& n_;
  const CompileOutcome* compiled_;
  int program_;
  std::vector<WhyRow> rows_;
};

}  // namespace

std::vector<WhyRow> whyOf(const ir::Graph& graph, const ir::Node& node, const CompileOutcome* compiled, int program) {
  return Asked(graph, node, compiled, program).run();
}

}  // namespace spscope::session::debug
