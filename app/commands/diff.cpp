// SPDX-License-Identifier: Apache-2.0
// spscope diff: two graphs, compared node by node; two traces, by what ran (trace_diff.cpp).
#include "core/ir/diff.h"

#include <filesystem>

#include "app/commands/command.h"
#include "app/commands/trace_actions.h"
#include "core/base/strings.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

Result<ir::Graph> readGraph(const std::string& path, const session::Request& request) {
  SP_ASSIGN(auto stage, session::readStage(path));
  if (stage) return std::move(stage->graph);
  session::OpenRequest what;
  what.path = path;
  SP_ASSIGN(const auto model, session::open(what, request));
  return *model->graph;
}

Json nodeJson(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& n = graph.node(id);
  return {{"node", n.name}, {"op", n.op.str()}, {"source", n.location ? n.location->source : ""},
          {"module", n.location ? n.location->module_path : ""}, {"pass", n.provenance.pass.str()}};
}

class Diff : public Command {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override { return "compare two stages, graphs or traces"; }
  std::string description() const override {
    return "Compares two graphs node by node: stages of one compilation (what did a pass change?) or two files. Nodes are matched by their ids, not by their place. "
           "Two traces are compared by what ran: time and number of times of each node, op and kernel.";
  }
  std::string examples() const override {
    return "  spscope diff stages/04-plan-sequence.txt stages/05-shard-sequence.txt\n"
           "  spscope diff old.pt2 new.pt2 --exit-code      exit 1 when they differ\n"
           "  spscope diff before.spt after.spt             two traces";
  }
  std::string meaningOfNo() const override { return "with --exit-code: the graphs differ; or an output could not be written"; }
  void declare(CLI::App& command) override {
    command.add_option("A", a_, "a stage, a .pt2 file or a trace")->required()->type_name("FILE");
    command.add_option("B", b_, "a stage, a .pt2 file or a trace")->required()->type_name("FILE");
    command.add_flag("--exit-code", exit_code_, "exit with 1 when the graphs differ");
  }

  bool mayBeAbandoned() const override { return true; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(b_);
    const bool trace_a = looksLikeTrace(a_), trace_b = looksLikeTrace(b_);
    if (trace_a && trace_b) return diffTraces(a_, b_, exit_code_, report, request);
    if (trace_a || trace_b) {
      const std::string &trace = trace_a ? a_ : b_, &other = trace_a ? b_ : a_;
      std::error_code failed;
      if (!std::filesystem::exists(other, failed)) return makeError("file-missing", "there is no file " + other);
      Error error = makeError("usage", trace + " is a trace, and " + other + " is none: they have nothing to compare", Outcome::kUsage);
      error.legal = "two graphs or stages, or two traces";
      return error;
    }
    SP_ASSIGN(const ir::Graph a, readGraph(a_, request));
    SP_ASSIGN(const ir::Graph b, readGraph(b_, request));
    const ir::GraphDiff diff = ir::diffGraphs(a, b);
    Json& json = report.json;
    json["a"] = a_;
    json["b"] = b_;
    json["added"] = Json::array();
    json["removed"] = Json::array();
    json["changed"] = Json::array();
    for (const auto id : diff.added) json["added"].push_back(nodeJson(b, id));
    for (const auto id : diff.removed) json["removed"].push_back(nodeJson(a, id));
    for (const auto& change : diff.changed) {
      json["changed"].push_back(nodeJson(b, change.node));
      json["changed"].back()["what"] = change.what;
    }
    json["moved"] = Json::array();
    for (const auto id : diff.moved) json["moved"].push_back(nodeJson(b, id));
    json["graph"] = diff.graph;
    json["equal"] = diff.empty();
    report.page.line(strf("%zu added, %zu removed, %zu changed, %zu moved", diff.added.size(), diff.removed.size(),
                          diff.changed.size(), diff.moved.size()));
    std::string lines = ir::formatDiff(a, b, diff);
    while (!lines.empty() && lines.back() == '\n') lines.pop_back();
    if (!lines.empty()) report.page.line(lines);
    return exit_code_ && !diff.empty() ? 1 : 0;
  }

 private:
  std::string a_, b_;
  bool exit_code_ = false;
};

}  // namespace

std::unique_ptr<Command> makeDiff() { return std::make_unique<Diff>(); }

}  // namespace spscope::app
