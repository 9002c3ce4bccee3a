// SPDX-License-Identifier: Apache-2.0
// spscope verify: the sharded step against the unsharded one.
#include "core/session/shrink.h"

#include <algorithm>
#include <cmath>

#include "app/commands/bisect_report.h"
#include "app/commands/command.h"
#include "app/commands/compile_charts.h"
#include "app/commands/compile_report.h"
#include "app/commands/debug_answer.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "core/session/plant.h"
#include "core/session/reduce.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

class Verify : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override { return "prove that the sharded step gives the loss and gradients of the graph"; }
  std::string description() const override {
    return "Computes one step twice on the same inputs and weights: the graph as it was saved, on one rank, and the compiled one on all ranks. Loss and the gradient "
           "of every parameter must agree within what the precision allows.\n"
           "Where they do not, both run again node by node, and the first node (forward, then backward) whose value, put together from the ranks, differs is named: "
           "the ranks that are off, the pass that made it, its source line. --bisect compares after every pass as well, and names the first after which the result differs.\n"
           "--dtype float64 makes that a sharp test. Without --inputs, ids and labels are random; files without weights need --seed-weights.\n"
           "--shrink proves a reduced twin instead, where the real step is too large or has no weights: fewer tokens, narrower dimensions, equal layers folded, and the same plan "
           "node for node. What that leaves open is listed.";
  }
  std::string examples() const override {
    return "  spscope verify resources/samples/llama_gqa.pt2 --sp 4 --dtype float64\n"
           "  spscope verify resources/samples/llama_gqa.pt2 --inputs resources/samples/llama_gqa.inputs.safetensors\n"
           "  spscope verify llama3_8b.pt2 --seq 131072 --sp 8 --shrink\n"
           "  spscope verify model.pt2 --ranks gloo --grads grads.safetensors";
  }
  std::string meaningOfNo() const override { return "the results differ; cancelled; or an output could not be written"; }
  void declare(CLI::App& command) override {
    model_.declare(command);
    flags_.declare(command);
    data_.declare(command);
    faults_.declare(command);
    command.option_defaults()->group("Comparison");
    command.add_option("--ranks", ranks_, "virtual: all in this process; gloo and nccl: a process each")->capture_default_str()->type_name("virtual|gloo|nccl");
    command.add_option("--timeout", timeout_, "deadline of every collective of processes, in seconds")->check(numberFrom(0.1, 1e6))->capture_default_str()->type_name("SECONDS");
    command.add_flag("--bisect", bisect_, "where they differ: run the stages of the pipeline, and name the pass after which the result first differs");
    command.add_flag("--shrink", shrink_, "prove a reduced twin with the same plan: fewer tokens, narrower dimensions, equal layers folded");
    command.add_option("--reduce", reduce_, "where they differ: make it as small as it still fails, and write it as a model of its own (docs/verify.md)")->type_name("OUT.txt");
    command.add_option("--grads", grads_, "write the sharded run's gradients as safetensors")->type_name("FILE");
  }

  bool mayBeAbandoned() const override { return ranks_ == "virtual"; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    report.json["verdict"] = "refused";  // until it is known better
    SP_ASSIGN(session::OpenRequest what, model_.request());
    SP_ASSIGN(what, session::resolveStage(what));
    SP_ASSIGN(const auto model, session::open(what, request));
    session::VerifyRequest verify;
    SP_ASSIGN(verify.settings, flags_.settings(model_));
    SP_ASSIGN(verify.data, data_.request());
    if (!faults_.plant.empty() && ranks_ != "virtual") return makeError("usage", "--plant is for ranks in this process: --ranks virtual", Outcome::kUsage);
    if (reduce_.empty()) {  // the reducer seeks the sites in what it reduces
      SP_ASSIGN(verify.settings.faults, session::resolveFaults(*model, verify.settings, faults_.plant, request));
    }
    if (!verify.settings.faults.empty()) report.json["planted"] = plantedJson(verify.settings.faults);
    verify.grads_path = grads_;
    verify.bisect = bisect_;
    verify.ranks = ranks_;
    verify.timeout_seconds = timeout_;
    verify.open = what;
    if (!reduce_.empty()) return reduce(report, *model, std::move(verify), request);
    session::ShrinkOutcome shrunk;
    if (shrink_) {
      SP_ASSIGN(shrunk, session::verifyShrunk(*model, {verify, {}}, request));
    } else {
      SP_ASSIGN(shrunk.proof, session::verify(*model, verify, request));
    }
    const session::VerifyOutcome& outcome = shrunk.proof;
    report.stopClock();
    fill(report, outcome);
    if (shrink_) report.json["shrink"] = shrinkJson(shrunk.report);
    if (!outcome.equal && !std::isfinite(outcome.reference_loss) && !std::isfinite(outcome.loss)) {
      report.json["verdict"] = "refused";
      return makeError("reference-not-finite", strf("the loss of the unsharded graph is %g on these inputs, and so is the sharded one: nothing can be compared",
                                                    outcome.reference_loss));
    }
    if (!outcome.equal && !std::isfinite(outcome.gradients.total_norm)) {  // some kernels hide a NaN from the loss, not from gradients
      report.json["verdict"] = "refused";
      return makeError("reference-not-finite", strf("gradients of the unsharded graph are no numbers on these inputs, although its loss is %g: nothing can be compared",
                                                    outcome.reference_loss));
    }
    describe(report.page, outcome, verify.settings, shrink_);
    if (shrink_) describeShrink(report.page, shrunk.report);
    addCompilePage(report.appendix, outcome.compiled, verify.settings);
    addCompileCharts(report.appendix, outcome.compiled);
    logStages(outcome.compiled);
    return outcome.equal ? 0 : 1;
  }

 private:
  Result<int> reduce(Report& report, const session::Model& model, session::VerifyRequest verify, const session::Request& request) {
    if (shrink_ || bisect_ || !grads_.empty()) return makeError("usage", "--reduce goes without --shrink, --bisect and --grads", Outcome::kUsage);
    SP_TRY(checkOutput(reduce_));
    SP_ASSIGN(const session::ReduceOutcome o, session::reduceFailure(model, {std::move(verify), faults_.plant, reduce_}, request));
    report.stopClock();
    Json& json = report.json;
    json["verdict"] = o.fails ? "different" : "equal";
    json["loss"] = o.loss;
    json["reference_loss"] = o.reference_loss;
    json["first_difference"] = differenceJson(o.first_difference);
    json["reduce"] = nullptr;
    if (!o.fails) {
      report.page.line("EQUAL: nothing fails, nothing was written");
      return 0;
    }
    Json steps = Json::array();
    std::vector<std::vector<std::string>> rows{{"reduced", "nodes left", "tests"}, {"as it was opened", std::to_string(o.nodes_before), ""}};
    for (const session::ReduceStep& s : o.steps) {
      steps.push_back({{"what", s.what}, {"nodes", s.nodes}, {"tests", s.tests}});
      rows.push_back({s.what, std::to_string(s.nodes), std::to_string(s.tests)});
    }
    json["reduce"] = {{"nodes_before", o.nodes_before}, {"nodes", o.nodes}, {"steps", std::move(steps)}, {"files", o.files}, {"command", o.command}, {"error_code", o.error_code}};
    report.page.line(strf("DIFFERENT, reduced to %lld nodes that fail in the same way", static_cast<long long>(o.nodes)));
    report.page.table(std::move(rows));
    if (o.first_difference) describeDifference(report.page, *o.first_difference);
    else report.page.line("it is refused with " + o.error_code);
    report.page.line("written: " + join(o.files, ", "));
    report.page.line("shown again by: " + o.command);
    return 1;
  }

  static void fill(Report& report, const session::VerifyOutcome& o) {
    Json& json = report.json;
    json["verdict"] = o.equal ? "equal" : "different";
    json["loss"] = o.loss;
    json["reference_loss"] = o.reference_loss;
    json["loss_rel"] = o.loss_rel;
    json["grad_rel_max"] = o.gradients.rel_max;
    if (!o.reference.empty()) json["reference"] = o.reference;
    json["tolerance"] = {{"loss", o.tolerance.loss}, {"gradient", o.tolerance.gradient}, {"floor", o.tolerance.floor}};
    json["parameters"] = Json::array();
    for (const auto& p : o.gradients.parameters)
      json["parameters"].push_back({{"name", p.name}, {"rel", p.rel}, {"norm", p.norm}});
    json["first_difference"] = differenceJson(o.first_difference);
    if (o.bisection) json["bisect"] = bisectJson(*o.bisection);
    json["float32"] = nullptr;
    if (const auto& f = o.float32)
      json["float32"] = {{"loss", f->loss},
                         {"loss_rel", f->sharded_loss},
                         {"unsharded_loss_rel", f->unsharded_loss},
                         {"grad_rel", f->sharded_gradient},
                         {"unsharded_grad_rel", f->unsharded_gradient},
                         {"ratio", f->ratio()},
                         {"allowed", session::AgainstFloat32::kMargin}};
    json["worst_rank"] = o.worst_rank;
    json["peak_bytes"] = o.peak_bytes;
    json["reference_peak_bytes"] = o.reference_peak_bytes;
    addCompileJson(json["plan"], o.compiled);
    json["plan_hash"] = o.compiled.compiled.plan_hash;
    json["expected_all_to_all"] = o.compiled.figures.expected_all_to_all;
    json["inserted_all_to_all"] = o.compiled.figures.inserted_all_to_all;
    json["gathers"] = json["plan"]["gathers"];
  }

  static void describeDifference(Page& page, const session::FirstDifference& d) {
    std::vector<std::string> ranks;
    for (const int r : d.ranks) ranks.push_back(std::to_string(r));
    page.table({{"first difference", ""},
                {"node", strf("%%%s, %s (%s)", d.node.c_str(), d.op.c_str(), std::string(session::debug::phaseWord(d.phase)).c_str())},
                {"source", d.source + (d.module.empty() ? "" : ", " + d.module)},
                {"of", d.parameter.empty() ? "value %" + d.value + ", " + d.placement : d.parameter == "loss" ? "the loss" : "the gradient of " + d.parameter},
                {"off on", (d.ranks.size() == 1 ? "rank " : "ranks ") + join(ranks, ", ")},
                {"pass", d.pass},
                {"difference", strf("%.3g of its norm; largest %.3g at [%s]: %s instead of %s", d.rel, d.max_abs, join(d.index, ", ").c_str(),
                                    formatDouble(d.got).c_str(), formatDouble(d.wanted).c_str())}});
    if (!d.remark.empty()) page.line(d.remark);
    if (!d.not_compared.empty()) {
      std::vector<std::string> few(d.not_compared.end() - std::min<std::ptrdiff_t>(8, std::ssize(d.not_compared)), d.not_compared.end());
      page.line(strf("what it reads that has no counterpart, the mistake may be there: %s%%", few.size() < d.not_compared.size() ? "... " : "") + join(few, ", %"));
    }
  }

  static void describe(Page& page, const session::VerifyOutcome& o, const passes::Settings& settings, bool twin) {
    page.line(strf("%s%s: the step on %d rank%s against the unsharded graph", o.equal ? "EQUAL" : "DIFFERENT", twin ? " on a reduced twin" : "", settings.ranks(),
                   settings.ranks() == 1 ? "" : "s"));
    page.table({{"", "sharded", "unsharded", "relative difference", "allowed"},
                {"loss", formatDouble(o.loss), formatDouble(o.reference_loss), strf("%.3g", o.loss_rel), strf("%.3g", o.tolerance.loss)},
                {"worst gradient", o.gradients.worst, "", strf("%.3g", o.gradients.rel_max), strf("%.3g", o.tolerance.gradient)}});
    if (!o.reference.empty()) page.line("the accumulated step was held against " + o.reference);
    if (const auto& f = o.float32) {
      page.table({{"against float32", "sharded", "unsharded", "ratio", "allowed"},
                  {"loss", strf("%.3g", f->sharded_loss), strf("%.3g", f->unsharded_loss), "", ""},
                  {"all gradients", strf("%.3g", f->sharded_gradient), strf("%.3g", f->unsharded_gradient), strf("%.3f", f->ratio()),
                   strf("%.3g", session::AgainstFloat32::kMargin)}});
    }
    auto worst = o.gradients.parameters;
    std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) { return !(a.rel <= b.rel); });
    if (worst.size() > 5) worst.resize(5);
    std::vector<std::vector<std::string>> rows{{"largest differences", "relative", "norm"}};
    for (const auto& p : worst) rows.push_back({p.name, strf("%.3g", p.rel), strf("%.4g", p.norm)});
    page.table(std::move(rows));
    if (o.first_difference) describeDifference(page, *o.first_difference);
    else if (!o.equal) page.line(o.reference.empty() ? "with all ranks in this process no value differs"
                                                    : "in the first batch, with all ranks in this process, no value differs: look at how batches are weighted");
    if (o.bisection) bisectPage(page, *o.bisection);
    std::int64_t peak = 0;
    for (const auto b : o.peak_bytes) peak = std::max(peak, b);
    page.line(strf("memory of the step, measured: %s on the fullest rank, %s unsharded", formatBytes(peak).c_str(),
                   formatBytes(o.reference_peak_bytes).c_str()));
  }

  static Json shrinkJson(const session::ShrinkReport& r) {
    Json dimensions = Json::array(), layers = Json::array();
    for (const auto& d : r.dimensions) dimensions.push_back({{"name", d.name}, {"from", d.from}, {"to", d.to}, {"kept_because", d.kept_because}});
    for (const auto& g : r.layers) layers.push_back({{"group", g.group}, {"layers", g.layers}, {"kept", g.kept}});
    return {{"dimensions", std::move(dimensions)},
            {"layers", std::move(layers)},
            {"nodes", r.step.nodes},
            {"nodes_compared", r.step.compared},
            {"twin_nodes", r.step.twin_nodes},
            {"collectives", r.step.collectives},
            {"twin_collectives", r.step.twin_collectives},
            {"recomputed", r.recomputed},
            {"twin_recomputed", r.twin_recomputed},
            {"saved_as_real", r.saved_as_real},
            {"weights_bytes", r.weights_bytes},
            {"twin_weights_bytes", r.twin_weights_bytes},
            {"seeded", r.seeded},
            {"kept", r.kept},
            {"not_kept", r.not_kept}};
  }

  static void describeShrink(Page& page, const session::ShrinkReport& r) {
    std::vector<std::vector<std::string>> rows{{"reduced", "real", "twin", ""}};
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    for (const auto& d : r.dimensions)
      if (d.from != d.to || !d.kept_because.empty()) rows.push_back({d.name, number(d.from), number(d.to), d.from == d.to ? "stays: " + d.kept_because : ""});
    for (const auto& g : r.layers) rows.push_back({"layers of " + g.group, number(g.layers), number(g.kept), ""});
    rows.push_back({"weights", formatBytes(r.weights_bytes), formatBytes(r.twin_weights_bytes), ""});
    rows.push_back({"nodes of the step", number(r.step.nodes), number(r.step.twin_nodes), strf("%lld compared, all the same", static_cast<long long>(r.step.compared))});
    page.table(std::move(rows));
    page.line("the same in both:");
    for (const std::string& line : r.kept) page.line("  " + line);
    page.line("not shown by this proof:");
    for (const std::string& line : r.not_kept) page.line("  " + line);
  }

  ModelFlags model_;
  CompileFlags flags_;
  DataFlags data_;
  FaultFlags faults_;
  std::string grads_, reduce_;
  bool bisect_ = false, shrink_ = false;
  std::string ranks_ = "virtual";
  double timeout_ = 120.0;
};

}  // namespace

std::unique_ptr<Command> makeVerify() { return std::make_unique<Verify>(); }

}  // namespace spscope::app
