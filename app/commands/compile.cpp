// SPDX-License-Identifier: Apache-2.0
// spscope compile: the pass pipeline, without running anything.
#include <cmath>
#include <filesystem>

#include "app/commands/command.h"
#include "app/commands/compile_charts.h"
#include "app/commands/compile_report.h"
#include "app/commands/values_report.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "core/session/costs.h"
#include "core/session/stage.h"
#include "passes/memory/op_cost.h"

namespace spscope::app {
namespace {

class Compile : public Command {
 public:
  std::string name() const override { return "compile"; }
  std::string summary() const override { return "turn a graph into each rank's training step; shows every stage"; }
  std::string description() const override {
    return "Takes the training graph through the pass pipeline, from the graph as saved to the step of one rank: placement of every value, exchanges around "
           "attention, a loss over all ranks, forward and backward as one graph, what is kept and what is computed again. Nothing is run and no weight is read.\n"
           "Shows for each stage what it changed, what would be sent, and the predicted peak of memory; values that cannot stay sharded are gathered and "
           "named with their source line.";
  }
  std::string examples() const override {
    return "  spscope compile resources/samples/llama_gqa.pt2 --sp 4\n"
           "  spscope compile resources/samples/llama_gqa.pt2 --sp 8 --seq 65536 --stages stages   every stage as text\n"
           "  spscope compile model.pt2 --save all --json plan.json";
  }
  std::string meaningOfNo() const override { return "cancelled, or an output could not be written"; }
  void declare(CLI::App& command) override {
    model_.declare(command);
    flags_.declare(command);
    command.option_defaults()->group("Output");
    command.add_option("--stages", stages_, "write every stage into this folder")->type_name("DIR");
    command.add_option("--costs-from", costs_from_, "a trace of `run --profile`: prints the hot nodes, and prices recomputation at the rates that it measured")->type_name("TRACE");
    command.add_flag("--explain-memory", explain_memory_, "say of each value why it is kept, made again or freed");
  }

  bool mayBeAbandoned() const override { return true; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    SP_ASSIGN(session::OpenRequest what, model_.request());
    SP_ASSIGN(what, session::resolveStage(what));
    SP_ASSIGN(const auto model, session::open(what, request));
    session::CompileRequest compile;
    SP_ASSIGN(compile.settings, flags_.settings(model_));
    compile.keep_graphs = !stages_.empty();
    compile.reproducer_dir = (std::filesystem::temp_directory_path() / "spscope").string();
    session::MeasuredCosts costs;
    if (!costs_from_.empty()) {
      SP_ASSIGN(costs, session::measureCosts({costs_from_}, request));
    }
    SP_ASSIGN(session::CompileOutcome outcome, session::compile(*model, compile, request));
    if (!costs_from_.empty()) {
      SP_TRY(session::joinCosts(costs, *outcome.compiled.programs.front(), outcome.compiled, compile.settings, *request.diagnostics));
      compile.settings.flops_per_ns = costs.flops_per_ns;
      compile.settings.bytes_per_ns = costs.bytes_per_ns;
      // Again only where there is something new to plan with; it warns of the same things.
      DiagnosticSink quiet;
      session::Request again = request;
      again.diagnostics = &quiet;
      if (costs.flops_per_ns > 0 || costs.bytes_per_ns > 0) {
        SP_ASSIGN(outcome, session::compile(*model, compile, again));
      }
    }
    report.stopClock();
    addCompileJson(report.json, outcome);
    report.page.line(strf("%s on %d rank%s, sequence %lld, batch %lld, %s", model->display_name.c_str(), compile.settings.ranks(), compile.settings.ranks() == 1 ? "" : "s",
                          static_cast<long long>(model->imported->seq), static_cast<long long>(model->imported->batch),
                          std::string(ir::longName(model->working_dtype)).c_str()));
    addCompilePage(report.page, outcome, compile.settings);
    addCompileCharts(report.appendix, outcome);
    addValuesPage(explain_memory_ ? report.page : report.appendix, outcome);
    if (explain_memory_) addValuesJson(report.json, outcome);
    if (!costs_from_.empty()) addCosts(report, costs, passes::ratesOf(compile.settings));
    logStages(outcome);
    if (!stages_.empty()) {
      SP_ASSIGN(const auto written, session::writeStages(*model, compile.settings, outcome.compiled, stages_));
      report.json["files"] = written;
      report.page.line(strf("%zu stages written to %s", written.size(), stages_.c_str()));
    }
    return 0;
  }

 private:
  static void addCosts(Report& report, const session::MeasuredCosts& costs, const passes::DeviceRates& rates) {
    constexpr std::size_t kShown = 15;
    report.page.heading("Hot nodes, as measured");
    std::vector<std::vector<std::string>> rows{{"node", "op", "stage", "a run", "predicted", "of all", "source"}};
    Json list = Json::array();
    for (const session::HotNode& n : costs.nodes) {
      list.push_back({{"node", n.name}, {"op", n.op}, {"stage", n.stage}, {"source", n.source}, {"module", n.module}, {"measured_ns", n.measured_ns},
                      {"predicted_ns", n.predicted_ns > 0 ? Json(n.predicted_ns) : Json()}, {"share", n.share}});
      if (rows.size() <= kShown)
        rows.push_back({n.name, n.op, n.stage, formatNs(n.measured_ns), n.predicted_ns > 0 ? formatNs(n.predicted_ns) : "-", strf("%.1f%%", 100 * n.share), n.source});
    }
    report.page.table(std::move(rows));
    if (costs.nodes.size() > kShown) report.page.line(strf("and %zu more; all of them with --json", costs.nodes.size() - kShown));
    const auto said = [](double measured, double used, const char* unit) {
      return strf("%s %s (%s)", formatDouble(std::round(10 * used) / 10).c_str(), unit, measured > 0 ? "measured" : "nominal: the trace does not tell");
    };
    report.page.line("recomputation is priced at " + said(costs.flops_per_ns, rates.flops_per_ns, "GFLOP/s") + " and " + said(costs.bytes_per_ns, rates.bytes_per_ns, "GB/s"));
    const auto known = [](double rate) { return rate > 0 ? Json(rate) : Json(); };
    report.json["costs"] = {{"hot_nodes", std::move(list)}, {"flops_per_ns", known(costs.flops_per_ns)}, {"bytes_per_ns", known(costs.bytes_per_ns)},
                            {"executions", costs.executions}, {"joined_share", costs.joined_share}};
  }

  ModelFlags model_;
  CompileFlags flags_;
  std::string stages_, costs_from_;
  bool explain_memory_ = false;
};

}  // namespace

std::unique_ptr<Command> makeCompile() { return std::make_unique<Compile>(); }

}  // namespace spscope::app
