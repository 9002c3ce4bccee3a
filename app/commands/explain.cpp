// SPDX-License-Identifier: Apache-2.0
// spscope explain: what a code means and what to do about it.
#include "app/commands/command.h"
#include "core/base/codes.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

class Explain : public Command {
 public:
  std::string name() const override { return "explain"; }
  std::string summary() const override { return "what an error or warning code means, and the remedy"; }
  std::string description() const override {
    return "Every error and warning has a code, which stands between error[ and ] or warning[ and ]. Shows what it means, an example, and the remedy; without CODE, all codes.";
  }
  std::string examples() const override {
    return "  spscope explain archive-truncated\n"
           "  spscope explain                               all codes";
  }
  std::string meaningOfNo() const override { return "an output could not be written"; }
  void declare(CLI::App& command) override {
    command.add_option("CODE", code_, "the code between error[ and ]; without it all codes")->type_name("CODE");
    command.add_flag("--markdown", markdown_, "all codes as the page docs/errors.md");
  }

  Result<int> run(Report& report, const session::Request&) override {
    if (markdown_) {
      std::string text = codesMarkdown();
      text.pop_back();  // the line ends itself
      report.page.line(text);
      return 0;
    }
    if (code_.empty()) {
      report.json["codes"] = Json::array();
      std::vector<std::vector<std::string>> rows{{"code", "meaning"}};
      for (const CodeInfo& c : allCodes()) {
        report.json["codes"].push_back(object(c));
        rows.push_back({std::string(c.code), std::string(c.meaning)});
      }
      report.page.table(std::move(rows));
      return 0;
    }
    const CodeInfo* info = findCode(code_);
    if (!info) {
      std::vector<std::string> codes;
      for (const CodeInfo& c : allCodes()) codes.emplace_back(c.code);
      const std::string near = nearest(code_, codes);
      Error error = makeError("usage", "there is no code " + code_ + (near.empty() ? "" : "; did you mean " + near + "?"),
                              Outcome::kUsage);
      error.remedy = "spscope explain lists all codes.";
      return error;
    }
    report.json.update(object(*info));
    report.page.line(code_ + ": " + std::string(info->meaning));
    report.page.line("Example: " + std::string(info->example));
    report.page.line("Remedy: " + std::string(info->remedy));
    return 0;
  }

 private:
  static Json object(const CodeInfo& c) {
    return {{"code", c.code}, {"meaning", c.meaning}, {"example", c.example}, {"remedy", c.remedy}};
  }
  std::string code_;
  bool markdown_ = false;
};

}  // namespace

std::unique_ptr<Command> makeExplain() { return std::make_unique<Explain>(); }

}  // namespace spscope::app
