// SPDX-License-Identifier: Apache-2.0
// spscope check: a compiled step against a budget; a gate for CI. Answers as a table, JSON, JUnit and Markdown.
#include "core/session/check.h"

#include "app/commands/command.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "core/base/xml_text.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

std::string placesText(const session::RuleResult& rule, std::size_t most) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < rule.places.size() && i < most; ++i) {
    const session::MeasurePlace& p = rule.places[i];
    out.push_back("%" + plainNode(p.node) + (p.source.empty() ? "" : " (" + p.source + ")") + (p.reason.empty() ? "" : ": " + p.reason));
  }
  if (rule.places.size() > most) out.push_back(strf("and %zu more", rule.places.size() - most));
  return join(out, "\n");
}

/// One test case per rule, as Jenkins, GitLab and GitHub's actions read it.
std::string junit(const std::string& model, const session::CheckOutcome& outcome) {
  std::size_t failures = 0;
  for (const auto& rule : outcome.rules) failures += !rule.ok;
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += strf("<testsuites>\n<testsuite name=\"spscope check %s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"0\">\n", xmlEscaped(model).c_str(),
              outcome.rules.size(), failures);
  for (const auto& rule : outcome.rules) {
    out += strf("<testcase classname=\"spscope.check\" name=\"%s\">", xmlEscaped(rule.name).c_str());
    if (!rule.ok)
      out += strf("<failure message=\"%s\">%s</failure>", xmlEscaped(rule.name + " is " + rule.value + ", the limit is " + rule.limit).c_str(),
                  xmlEscaped(placesText(rule, 10)).c_str());
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n</testsuites>\n";
}

class Check : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override { return "hold a compiled step against a budget: a gate for CI"; }
  std::string description() const override {
    std::string text =
        "Compiles the graph and compares its figures with the limits of a small TOML file, and with an earlier check's. Each broken rule is named with its nodes and source "
        "lines. With a rule `gradients = \"equal\"` the step is also run and proved, as `spscope verify` does.\n"
        "A budget has the tables [limits] (largest value allowed), [growth] (how much more than the baseline's, as \"2 %\") and [proof]. What can be limited:";
    for (const session::Measure& m : session::measures()) text += strf("\n  %s%s: %s", m.name.c_str(), m.bytes ? " (bytes, or a text like \"24 GiB\")" : "", m.meaning.c_str());
    return text;
  }
  std::string examples() const override {
    return "  spscope check model.pt2 --sp 8 --budget budget.toml --junit check.xml\n"
           "  spscope check model.pt2 --sp 8 --budget budget.toml --json baseline.json        the figures, for later\n"
           "  spscope check model.pt2 --sp 8 --budget budget.toml --baseline baseline.json";
  }
  std::string meaningOfNo() const override { return "a rule is broken; cancelled; or an output could not be written"; }
  void declare(CLI::App& command) override {
    model_.declare(command);
    flags_.declare(command);
    data_.declare(command);
    command.option_defaults()->group("Rules");
    command.add_option("--budget", budget_, "the limits, a TOML file")->required()->type_name("FILE");
    command.add_option("--baseline", baseline_, "the JSON of an earlier check, for limits of growth")->type_name("FILE");
    command.add_flag("--allow-replicated", allow_replicated_, "go on even where nothing can be sharded");
    command.option_defaults()->group("Output");
    command.add_option("--junit", junit_, "write the rules as a JUnit report; -: to standard output, in place of the text")->type_name("OUT");
    command.add_option("--markdown", markdown_, "write the rules as Markdown; -: to standard output, in place of the text")->type_name("OUT");
  }

  bool mayBeAbandoned() const override { return true; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    session::CheckRequest check;
    SP_ASSIGN(check.budget, session::readBudget(budget_));
    if (!baseline_.empty()) {
      SP_ASSIGN(check.baseline, session::readBaseline(baseline_));
    }
    SP_ASSIGN(check.open, model_.request());
    SP_ASSIGN(check.open, session::resolveStage(check.open));
    SP_ASSIGN(check.settings, flags_.settings(model_));
    SP_ASSIGN(check.data, data_.request());
    check.allow_replicated = allow_replicated_;
    SP_ASSIGN(const auto model, session::open(check.open, request));
    SP_ASSIGN(const session::CheckOutcome outcome, session::check(*model, check, request));
    report.stopClock();
    fill(report.json, outcome);
    Page page;
    describe(page, model->display_name, outcome);
    const std::string title = "spscope check " + model->display_name;
    if (junit_ == "-") {
      SP_TRY(report.answerAs(page, junit(model->display_name, outcome)));
      if (!markdown_.empty()) SP_TRY(writeOutput(markdown_, page.markdown(title)));
    } else {
      SP_TRY(report.answer(page, markdown_, title));
      if (!junit_.empty()) SP_TRY(writeOutput(junit_, junit(model->display_name, outcome)));
    }
    return outcome.ok ? 0 : 1;
  }

 private:
  static void fill(Json& json, const session::CheckOutcome& outcome) {
    json["ok"] = outcome.ok;
    json["rules"] = Json::array();
    for (const session::RuleResult& rule : outcome.rules) {
      Json row = {{"name", rule.name}};
      row["limit"] = rule.limit_number ? Json(*rule.limit_number) : Json(rule.limit);
      row["value"] = rule.value_number ? Json(*rule.value_number) : Json(rule.value);
      row["ok"] = rule.ok;
      row["node"] = rule.places.empty() ? Json() : Json(plainNode(rule.places.front().node));
      row["source"] = rule.places.empty() || rule.places.front().source.empty() ? Json() : Json(rule.places.front().source);
      row["places"] = Json::array();
      for (const auto& p : rule.places) row["places"].push_back({{"node", plainNode(p.node)}, {"source", p.source}, {"reason", p.reason}});
      json["rules"].push_back(std::move(row));
    }
    json["measures"] = Json::object();
    for (const session::Measure& m : session::measures()) json["measures"][m.name] = m.value(outcome.compiled);
    json["settings"] = Json::object();
    for (const auto& [name, value] : outcome.settings) json["settings"][name] = value;
    json["plan_hash"] = outcome.compiled.compiled.plan_hash;
  }

  static void describe(Page& page, const std::string& model, const session::CheckOutcome& outcome) {
    std::size_t broken = 0;
    for (const auto& rule : outcome.rules) broken += !rule.ok;
    std::vector<std::string> with;
    for (const auto& [name, value] : outcome.settings) with.push_back(name + " " + value);
    page.line(broken == 0 ? strf("OK: %s keeps all %zu rules", model.c_str(), outcome.rules.size())
                          : strf("BROKEN: %s breaks %zu of %zu rules", model.c_str(), broken, outcome.rules.size()));
    page.line(join(with, ", "));
    std::vector<std::vector<std::string>> rows{{"rule", "value", "limit", ""}};
    for (const auto& rule : outcome.rules) rows.push_back({rule.name, rule.value, rule.limit, rule.ok ? "ok" : "BROKEN"});
    page.table(std::move(rows));
    for (const auto& rule : outcome.rules) {
      if (rule.ok || rule.places.empty()) continue;
      page.heading(strf("%s is %s, the limit is %s", rule.name.c_str(), rule.value.c_str(), rule.limit.c_str()));
      page.line(placesText(rule, 10));
    }
  }

  ModelFlags model_;
  CompileFlags flags_;
  DataFlags data_;
  std::string budget_, baseline_, junit_, markdown_;
  bool allow_replicated_ = false;
};

}  // namespace

std::unique_ptr<Command> makeCheck() { return std::make_unique<Check>(); }

}  // namespace spscope::app
