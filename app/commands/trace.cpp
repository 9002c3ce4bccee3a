// SPDX-License-Identifier: Apache-2.0
// spscope trace: reads traces of any known format and does with them what the first word says.
#include <algorithm>

#include "app/commands/command.h"
#include "app/commands/trace_actions.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "profiler/import/import.h"

namespace spscope::app {
namespace {

struct Action {
  const char* name;
  const char* summary;
  Result<int> (*run)(const TraceFlags&, Report&, const session::Request&);
};
const Action kActions[] = {
    {"info", "what the files hold", traceInfo},
    {"report", "where the time and the memory went", traceReport},
    {"export", "the same in another format", traceExport},
};

class TraceCommand : public Command {
 public:
  std::string name() const override { return "trace"; }
  std::string summary() const override { return "analyse and convert traces: of `run --profile`, PyTorch and Nsight Systems"; }
  std::string description() const override {
    return "Reads traces (SPScope's own, Chrome JSON of PyTorch's profiler, SQLite exports of Nsight Systems; told from their content), reports "
           "where the time and the memory went, and writes them for other tools. Several files are ranks of one run: they are put on one clock first.";
  }
  std::string examples() const override {
    return "  spscope trace report run.spt\n"
           "  spscope trace report rank0.json.gz rank1.json.gz --json out.json\n"
           "  spscope trace report nsight.sqlite --report page.html\n"
           "  spscope trace report rank0.json.gz --hta        Holistic Trace Analysis' definitions\n"
           "  spscope trace info run.spt                      what it holds, and what was wrong with it\n"
           "  spscope trace export run.spt --to chrome -o run.json.gz\n"
           "  spscope trace export rank*.json.gz --to nsys -o run.sqlite";
  }
  void declare(CLI::App& command) override {
    std::vector<std::string> names;
    std::string what;
    for (const Action& a : kActions) {
      names.push_back(a.name);
      what += std::string(what.empty() ? "" : "; ") + a.name + ": " + a.summary;
    }
    command.add_option("ACTION", action_, what)->required()->check(CLI::IsMember(names))->type_name(join(names, "|"));
    command.add_option("FILE", flags_.files, "traces; several: the ranks of one run")->required()->type_name("FILE");
    const auto only = [&](CLI::Option* option, const char* action) { only_.emplace_back(option, action); };
    only(command.add_option("--to", flags_.to, "export: nsys (SQLite that Nsight's reports read), chrome (JSON for Perfetto and PyTorch's tools), csv (a folder of tables), html (one page)")
        ->check(CLI::IsMember({"nsys", "chrome", "csv", "html"}))->type_name("nsys|chrome|csv|html"), "export");
    only(command.add_option("-o,--out", flags_.out, "export: the file to write; chrome into a folder: one file a rank")->type_name("OUT"), "export");
    only(command.add_flag("--hta", flags_.hta, "report: the breakdown by Holistic Trace Analysis' definitions, ours beside it"), "report");
    only(command.add_option("--peak-tflops", flags_.peak_tflops, "report: what the device computes at most, for the roofline")->check(numberFrom(0))->type_name("X"), "report");
    only(command.add_option("--peak-gbps", flags_.peak_gbps, "report: bytes that its memory moves at most, 10^9 a second")->check(numberFrom(0))->type_name("X"), "report");
    top_ = command.add_option("--top", flags_.most, "report, and export --to html: rows of each list on the page")->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))->capture_default_str()->type_name("N");
  }
  // An export ends by itself soon, and takes its unfinished file with it.
  bool mayBeAbandoned() const override { return action_ != "export"; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(flags_.files.front());
    const auto misplaced = [&](const CLI::Option* option, const std::string& where) {
      return makeError("usage", option->get_name() + " belongs to trace " + where + ": trace " + action_ + (flags_.to.empty() ? "" : " --to " + flags_.to) + " has no use for it", Outcome::kUsage);
    };
    for (const auto& [option, action] : only_)
      if (option->count() > 0 && action_ != action) return misplaced(option, action);
    if (top_->count() > 0 && action_ != "report" && flags_.to != "html") return misplaced(top_, "report and trace export --to html");
    if (flags_.out == "-") {
      Error error = makeError("usage", "-o -: an export goes into a file or folder, not to standard output", Outcome::kUsage);
      error.legal = "-o OUT; ./- is a file of that name";
      return error;
    }
    for (const Action& a : kActions)
      if (action_ == a.name) return a.run(flags_, report, request);
    return makeError("usage", "trace has no action " + action_, Outcome::kUsage);
  }

 private:
  std::string action_;
  std::vector<std::pair<const CLI::Option*, std::string>> only_;  ///< options of one action
  const CLI::Option* top_ = nullptr;
  TraceFlags flags_;
};

}  // namespace

Result<trace::Trace> readTraces(const std::vector<std::string>& files, const session::Request& request) {
  trace::ImportOptions options;
  options.progress = request.progress;
  options.cancel = request.cancel;
  return trace::importTraces(files, options);
}

bool virtualRanks(const trace::Trace& trace) {
  return std::any_of(trace.ranks.begin(), trace.ranks.end(), [](const trace::Rank& r) { return r.backend == "virtual"; });
}

void fillTraceHead(Json& json, const trace::Trace& trace, const trace::Problems& more) {
  json["ranks"] = trace.ranks.size();
  json["events"] = trace.events.size();
  json["format"] = trace.format;
  json["virtual"] = virtualRanks(trace);
  trace::Problems all = trace.problems;
  all.append(more);
  json["problems"] = Json::object();
  json["problem_places"] = Json::object();
  for (const auto& [problem, seen] : all.all()) {
    const std::string name(trace::problemInfo(problem).name);
    json["problems"][name] = seen.count;
    json["problem_places"][name] = seen.first;
  }
}

std::unique_ptr<Command> makeTrace() { return std::make_unique<TraceCommand>(); }

}  // namespace spscope::app
