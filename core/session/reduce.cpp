// SPDX-License-Identifier: Apache-2.0
#include "core/session/reduce.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/strings.h"
#include "core/session/plant.h"
#include "core/session/shrink.h"
#include "core/session/text_model.h"
#include "core/session/virtual_programs.h"

namespace spscope::session {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;

/// Nodes by their names, which stay the same through all cuts.
using Names = std::set<std::string>;

struct Candidate {
  Names cut;            ///< nodes whose results are inputs
  std::string loss;     ///< value whose sum is the loss; empty: the program's own
};

/// How it fails: by which pass the first wrong node was made, or with which error.
struct Failure {
  std::string pass, code;
  bool operator==(const Failure&) const = default;
  bool none() const { return pass.empty() && code.empty(); }
};

struct Verdict {
  Failure failure;
  ValueComparison comparison;
};

class Reducer {
 public:
  Reducer(const ReduceRequest& what, const Request& request) : what_(what), request_(request) {
    quiet_ = request;
    quiet_.diagnostics = &sink_;
    quiet_.progress = {};
  }

  Result<ReduceOutcome> run(const Model& model) {
    ReduceOutcome out;
    out.nodes_before = std::ssize(model.graph->order);
    SP_TRY(start(model));
    if (failure_.none()) return out;
    out.fails = true;
    if (twin_) step(out, "layers and sizes");
    SP_TRY(recordValues());
    SP_TRY(cutTheEnd());
    step(out, "loss");
    SP_TRY(cutNodes());
    step(out, "nodes");
    SP_TRY(write(out));
    return out;
  }

 private:
  void step(ReduceOutcome& out, const char* what) {
    out.steps.push_back({what, std::ssize(current_->order), std::exchange(tests_, 0)});
  }

  /// The twin where it fails as well, else the model itself; what is reduced from then on.
  Status start(const Model& model) {
    data_ = what_.verify.data;
    settings_ = what_.verify.settings;
    if (what_.verify.data.inputs.empty()) {
      request_.report("reduce layers and sizes");
      SP_ASSIGN(Twin twin, makeTwin(model, settings_, {}, quiet_));
      if (model.imported->weightless && !data_.seed_weights) data_.seed_weights = 0;
      const DataRequest given = data_;
      SP_TRY(take(*twin.model, twin.settings));
      if (!failure_.none()) {
        twin_ = true;
        return {};
      }
      SP_TRY(request_.cancel.check());
      data_ = given;
    }
    return take(model, what_.verify.settings);
  }

  Status take(const Model& model, const passes::Settings& settings) {
    model_ = model;
    settings_ = settings;
    SP_ASSIGN(state_, loadState(model, data_, quiet_));
    SP_ASSIGN(inputs_, loadInputs(model, data_, 0, quiet_));
    tolerance_ = exec::Tolerance::of(model.computing_dtype);
    if (!what_.plant.empty()) {
      SP_ASSIGN(settings_.faults, resolveFaults(model, settings, what_.plant, quiet_));
    }
    SP_ASSIGN(const Verdict verdict, judge(model.graph, settings_, inputs_));
    failure_ = verdict.failure;
    first_ = verdict.comparison.first;
    current_ = model.graph;
    marks_ = settings_.sequence_marks;
    return {};
  }

  /// Compiles and compares. What goes wrong on the way is a verdict; only a cancelled request is an error.
  Result<Verdict> judge(const std::shared_ptr<const Graph>& graph, const passes::Settings& settings, const exec::TensorBag& inputs) {
    ++tests_;
    SP_TRY(request_.cancel.check());
    Verdict out;
    const auto attempt = [&]() -> Result<ValueComparison> {
      Model model = model_;
      model.graph = graph;
      CompileRequest compile_request;
      compile_request.settings = settings;
      compile_request.keep_graphs = false;
      SP_ASSIGN(const CompileOutcome compiled, compile(model, compile_request, quiet_));
      Sides sides;
      SP_ASSIGN(sides.reference, compileUnsharded(model, settings, quiet_));
      sides.programs = programsOf(compiled.compiled);
      sides.state = state_;
      sides.inputs = inputs;
      sides.tolerance = tolerance_;
      sides.step.seed = data_.seed;
      return compareValues(sides, quiet_);
    };
    auto comparison = attempt();
    if (!comparison) {
      if (comparison.error().code == "cancelled") return comparison.error();
      out.failure.code = comparison.error().code;
      return out;
    }
    if (comparison->first && !comparison->equal) out.failure.pass = comparison->first->pass;
    out.comparison = std::move(*comparison);
    return out;
  }

  // --- what values are, and where the sequence is in them -------------------------------------------------------------------

  Status recordValues() {
    request_.report("record the unsharded values");
    SP_ASSIGN(auto program, exec::Program::prepare(current_, {0, 1, /*keep_values=*/true}));
    SP_ASSIGN(auto ranks, exec::VirtualRanks::create({program}));
    SP_TRY(ranks.bind(state_));
    SP_TRY(ranks.begin(inputs_));
    while (!ranks.done()) SP_TRY(ranks.stepNode());
    for (const NodeId id : current_->order)
      for (const ValueId v : current_->node(id).outputs) {
        if (v == ir::kNone) continue;
        if (auto bag = ranks.value(0, v)) values_.emplace(current_->value(v).name, std::move(*bag));
      }
    CompileRequest plan;
    plan.settings = settings_;
    plan.settings.faults.clear();
    plan.keep_graphs = false;
    passes::Compiled partial;
    plan.partial = &partial;
    Model model = model_;
    model.graph = current_;
    const auto compiled = compile(model, plan, quiet_);
    const std::shared_ptr<const Graph> planned = compiled ? compiled->compiled.planned : partial.planned;
    if (!planned) return {};
    const auto learn = [&](const ir::Value& v, const std::string& name) {
      for (std::size_t d = 0; d < v.factors.size(); ++d)
        if (ir::hasTag(v.factors[d], ir::Tag::kSequence)) sequence_dim_.emplace(name, static_cast<int>(d));
    };
    for (const ir::Input& in : planned->inputs) learn(planned->value(in.value), in.name);
    for (const NodeId id : planned->order)
      for (const ValueId v : planned->node(id).outputs)
        if (v != ir::kNone) learn(planned->value(v), planned->value(v).name);
    return {};
  }

  // --- candidates -------------------------------------------------------------------------------------------------------------

  struct Built {
    std::shared_ptr<const Graph> graph;
    passes::Settings settings;
    exec::TensorBag inputs;
  };

  Result<Built> build(const Candidate& candidate) const {
    auto g = std::make_shared<Graph>(*base_);
    Built out;
    out.settings = settings_;
    if (!candidate.loss.empty()) {
      ValueId of = ir::kNone;
      for (const NodeId id : g->order)
        for (const ValueId v : g->node(id).outputs)
          if (v != ir::kNone && g->value(v).name == candidate.loss) of = v;
      const ir::DType dtype = g->value(of).dtype;
      const NodeId sum = g->addNode("aten.sum.default", "loss_of_" + candidate.loss);
      const ValueId loss = g->addOutput(sum, dtype, {});
      g->node(sum).args.push_back({"self", ir::Use{of}});
      g->node(sum).location = g->node(g->value(of).producer).location;
      g->value(loss).requires_grad = g->value(of).requires_grad;
      g->order.insert(std::find(g->order.begin(), g->order.end(), g->value(of).producer) + 1, sum);
      g->outputs = {{loss, ir::OutputKind::kLoss, ir::kNone}};
    }
    // Results of cut nodes become values of inputs.
    std::map<ValueId, ValueId> moved;
    std::vector<ir::Input> added;
    for (const NodeId id : g->order) {
      if (!candidate.cut.contains(g->node(id).name)) continue;
      const auto outputs = g->node(id).outputs;
      for (const ValueId v : outputs) {
        if (v == ir::kNone) continue;
        const ir::Value old = g->value(v);
        if (!values_.contains(old.name)) return makeError("internal", "no value of %" + old.name);
        const ValueId in = g->addValue(old.name + "_given", old.dtype, old.shape);
        g->value(in).local = old.shape;
        moved[v] = in;
        ir::Input input;
        input.value = in;
        input.name = old.name + "_given";
        added.push_back(std::move(input));
      }
    }
    std::erase_if(g->order, [&](NodeId id) { return candidate.cut.contains(g->node(id).name); });
    for (const NodeId id : g->order)
      ir::forEachUse(g->node(id), [&](ir::Use& use) {
        if (const auto it = moved.find(use.value); it != moved.end()) use.value = it->second;
      });
    for (ir::Output& o : g->outputs)
      if (moved.contains(o.value)) return makeError("internal", "an output would be an input");
    g->removeDeadNodes();
    g->inputs.insert(g->inputs.end(), added.begin(), added.end());
    std::vector<bool> used(g->valueCount(), false);
    for (const NodeId id : g->order) ir::forEachUse(g->node(id), [&](const ir::Use& use) { used[static_cast<std::size_t>(use.value)] = true; });
    for (const ir::Output& o : g->outputs)
      if (o.kind == ir::OutputKind::kBufferUpdate) return makeError("internal", "a buffer is written");
    std::erase_if(g->inputs, [&](const ir::Input& in) { return !used[static_cast<std::size_t>(in.value)]; });
    out.settings.sequence_marks.clear();
    for (ir::Input& in : g->inputs) {
      in.storage.reset();
      if (in.kind != ir::InputKind::kUser) continue;
      const std::string origin = in.name.ends_with("_given") ? in.name.substr(0, in.name.size() - 6) : in.name;
      if (values_.contains(origin) && in.name != origin) SP_TRY(out.inputs.share(values_.at(origin), values_.at(origin).entry(0).name, in.name));
      else SP_TRY(out.inputs.share(inputs_, in.name));
      if (const auto it = sequence_dim_.find(origin); it != sequence_dim_.end()) out.settings.sequence_marks.emplace_back(in.name, it->second);
    }
    if (out.settings.sequence_marks.empty()) return makeError("internal", "nothing follows the sequence");
    out.graph = std::move(g);
    return out;
  }

  /// Takes the candidate where it fails in the same way.
  Result<bool> accept(const Candidate& candidate) {
    if (spent_ >= what_.most_tests) return false;
    ++spent_;
    const Result<Built> built = build(candidate);
    if (!built || built->graph->order.empty()) return false;
    SP_ASSIGN(const Verdict verdict, judge(built->graph, built->settings, built->inputs));
    if (!(verdict.failure == failure_)) return false;
    best_ = *built;
    chosen_ = candidate;
    current_ = built->graph;
    first_ = verdict.comparison.first;
    loss_ = verdict.comparison.loss, reference_loss_ = verdict.comparison.reference_loss;
    request_.report("reduce: nodes left", std::ssize(current_->order));
    return true;
  }

  /// Makes a value the loss, as early as it still fails: the first wrong one where it is of the forward, and then ever later ones.
  Status cutTheEnd() {
    base_ = current_;
    const std::int64_t size = std::ssize(base_->order);
    std::int64_t from = 0;
    if (first_)
      for (std::int64_t i = 0; i < size; ++i) {
        const std::string& name = base_->node(base_->order[static_cast<std::size_t>(i)]).name;
        if (name == first_->reference_node || name == first_->node || first_->reference_node.starts_with(name + ".bwd.")) from = i;
      }
    for (std::int64_t distance = 0; from + distance < size; distance = distance < 8 ? distance + 1 : distance + distance / 4) {
      const ir::Node& n = base_->node(base_->order[static_cast<std::size_t>(from + distance)]);
      if (n.outputs.size() != 1 || n.outputs[0] == ir::kNone) continue;
      const ir::Value& v = base_->value(n.outputs[0]);
      if (!ir::isFloating(v.dtype) || v.shape.empty()) continue;
      SP_ASSIGN(const bool taken, accept({{}, v.name}));
      if (taken) return {};
    }
    SP_ASSIGN(const bool own, accept({}));  // the program's own loss: written without what does not lead to it
    if (!own) best_.graph = nullptr;
    return {};
  }

  /// Delta debugging over the nodes that are left: chunks of ever smaller size become inputs.
  Status cutNodes() {
    bool again = true;
    while (again) {
      again = false;
      for (std::int64_t chunk = std::max<std::int64_t>(1, std::ssize(current_->order) / 2); chunk >= 1; chunk /= 2) {
        for (std::int64_t begin = 0; begin < std::ssize(current_->order);) {
          Candidate candidate = chosen_;
          const std::int64_t end = std::min<std::int64_t>(begin + chunk, std::ssize(current_->order));
          bool fresh = false;
          for (std::int64_t i = begin; i < end; ++i) {
            const std::string& name = current_->node(current_->order[static_cast<std::size_t>(i)]).name;
            if (!name.starts_with("loss_of_")) fresh = candidate.cut.insert(name).second || fresh;
          }
          bool taken = false;
          if (fresh) {
            SP_ASSIGN(taken, accept(candidate));
          }
          if (taken) again = chunk == 1 || again;
          else begin = end;
        }
      }
    }
    return {};
  }

  Status write(ReduceOutcome& out) {
    if (!best_.graph) return makeError("internal", "what fails cannot be written as a program by itself");
    Model model = model_;
    model.graph = best_.graph;
    exec::TensorBag state;
    for (const ir::Input& in : best_.graph->inputs)
      if (in.kind != ir::InputKind::kUser) SP_TRY(state.share(state_, in.name));
    out.first_difference = first_;
    out.error_code = failure_.code;
    out.nodes = std::ssize(best_.graph->order);
    out.loss = loss_, out.reference_loss = reference_loss_;
    const passes::Settings& s = best_.settings;
    std::vector<std::string> marks;
    for (const auto& [name, dim] : s.sequence_marks) marks.push_back(name + ":" + std::to_string(dim));
    out.command = strf("spscope verify %s --sp %d --sequence ", what_.path.c_str(), s.sp) + join(marks, ",");
    if (s.save != "sac") out.command += " --save " + s.save;
    if (s.communication != "overlap") out.command += " --communication " + s.communication;
    if (s.device != "cpu") out.command += " --device " + s.device;
    if (s.tile_loss) out.command += " --tile-loss";
    if (!s.read_masks) out.command += " --whole-masks";
    if (data_.seed != 0) out.command += strf(" --seed %llu", static_cast<unsigned long long>(data_.seed));
    for (const passes::Fault& fault : s.faults) out.command += " --plant " + fault.text();
    ir::TextHeader header;
    header.set("reduced-from", model_.display_name);
    header.set("fails", failure_.code.empty() ? "different, first in a node of " + failure_.pass : failure_.code);
    header.set("command", out.command);
    SP_ASSIGN(out.files, writeTextModel(model, state, best_.inputs, std::move(header), what_.path));
    return {};
  }

  const ReduceRequest& what_;
  const Request& request_;
  Request quiet_;
  DiagnosticSink sink_;
  bool twin_ = false;
  Model model_;
  passes::Settings settings_;
  DataRequest data_;
  exec::TensorBag state_, inputs_;
  exec::Tolerance tolerance_;
  Failure failure_;
  std::optional<FirstDifference> first_;
  std::vector<std::pair<std::string, int>> marks_;
  std::shared_ptr<const Graph> base_, current_;
  std::map<std::string, exec::TensorBag> values_;  ///< of the unsharded program, by value
  std::map<std::string, int> sequence_dim_;        ///< by input and value
  Candidate chosen_;
  Built best_;
  double loss_ = 0.0, reference_loss_ = 0.0;
  std::int64_t tests_ = 0, spent_ = 0;
};

}  // namespace

Result<ReduceOutcome> reduceFailure(const Model& model, const ReduceRequest& what, const Request& request) {
  if (what.verify.ranks != "virtual" || what.verify.settings.dp > 1 || what.verify.settings.accumulate > 1)
    return makeError("usage", "--reduce works on one step with all ranks in this process: --ranks virtual, --dp 1, --accumulate 1", Outcome::kUsage);
  return Reducer(what, request).run(model);
}

}  // namespace spscope::session
