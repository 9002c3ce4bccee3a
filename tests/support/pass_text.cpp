// SPDX-License-Identifier: Apache-2.0
#include "tests/support/pass_text.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "passes/manager.h"
#include "passes/registry.h"

namespace spscope::test {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

bool startsWith(std::string_view s, std::string_view prefix) { return s.substr(0, prefix.size()) == prefix; }

/// The directive in a comment line; false where it is a plain comment.
Result<bool> directive(std::string_view comment, const std::string& place, PassCase* out) {
  using Check = PassCase::Check;
  const auto rest = [&](std::string_view prefix) { return std::string(trimmed(comment.substr(prefix.size()))); };
  if (startsWith(comment, "CHECK: ")) {
    out->checks.push_back({Check::kFound, rest("CHECK: ")});
  } else if (startsWith(comment, "CHECK-NOT: ")) {
    out->checks.push_back({Check::kNot, rest("CHECK-NOT: ")});
  } else if (startsWith(comment, "CHECK-COUNT-")) {
    const std::size_t colon = comment.find(": ");
    if (colon == std::string_view::npos) return makeError("text-syntax", place + ": CHECK-COUNT-n: text");
    const std::string n(comment.substr(12, colon - 12));
    if (n.empty() || n.find_first_not_of("0123456789") != std::string::npos) return makeError("text-syntax", place + ": CHECK-COUNT-n: text");
    out->checks.push_back({Check::kCount, std::string(trimmed(comment.substr(colon + 2))), std::stoi(n)});
  } else if (comment == "CHECK-UNCHANGED") {
    out->checks.push_back({Check::kUnchanged, {}});
  } else if (startsWith(comment, "expected-error: ")) {
    out->checks.push_back({Check::kError, rest("expected-error: ")});
  } else if (startsWith(comment, "expected-remark: ")) {
    out->checks.push_back({Check::kRemark, rest("expected-remark: ")});
  } else if (startsWith(comment, "CHECK") || startsWith(comment, "expected")) {
    return makeError("text-syntax", place + ": unknown directive '" + std::string(comment) + "'");
  } else {
    return false;
  }
  return true;
}

struct RunLine {
  passes::Settings settings;
  int rank = 0;
  std::vector<std::string> ignored;  ///< codes of remarks
};

Result<RunLine> runLineOf(const std::vector<std::string>& words) {
  RunLine out;
  passes::Settings& s = out.settings;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].empty()) continue;
    const std::size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals), value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    if (key == "sp") s.sp = std::stoi(value);
    else if (key == "dp") s.dp = std::stoi(value);
    else if (key == "zero") s.zero = std::stoi(value);
    else if (key == "grad_dtype") s.wide_gradients = value != "param";
    else if (key == "rank") out.rank = std::stoi(value);
    else if (key == "device") s.device = value;
    else if (key == "save") s.save = value;
    else if (key == "tile") s.tile_loss = value == "on";
    else if (key == "communication") s.communication = value;
    else if (key == "bucket") s.bucket_bytes = std::stoll(value);
    else if (key == "ignore") out.ignored.push_back(value);
    else if (key == "mark") s.sequence_marks.emplace_back(value.substr(0, value.find(':')), std::stoi(value.substr(value.find(':') + 1)));
    else return makeError("text-syntax", "unknown setting " + words[i]);
  }
  return out;
}

/// Print - parse - print gives the same text; what is wrong, or "".
std::string wrongRoundTrip(const ir::Graph& graph, const std::string& what) {
  const std::string printed = ir::printGraph(graph);
  const auto back = ir::parseGraph(printed, what);
  if (!back) return what + "'s text does not parse: " + back.error().message + "\n";
  return ir::printGraph(*back) == printed ? "" : what + "'s text does not round-trip\n";
}

}  // namespace

Result<std::vector<PassCase>> parsePassCases(std::string_view text, const std::string& file) {
  std::vector<PassCase> out(1);
  std::string run;
  const std::vector<std::string> lines = split(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string place = file + ":" + std::to_string(i + 1);
    const std::string_view line = trimmed(lines[i]);
    if (startsWith(line, "// RUN: ")) {
      out.back().run = std::string(trimmed(line.substr(8)));
      if (run.empty()) run = out.back().run;
    } else if (line == "// -----") {
      out.emplace_back();
    } else if (startsWith(line, "// ")) {
      SP_ASSIGN(const bool is_directive, directive(line.substr(3), place, &out.back()));
      if (!is_directive && out.back().title.empty()) out.back().title = std::string(line.substr(3));
    } else {
      out.back().graph += lines[i] + "\n";
    }
  }
  for (PassCase& c : out) {
    if (c.run.empty()) c.run = run;
    if (c.run.empty()) return makeError("text-syntax", file + ": no RUN line");
    if (c.checks.empty()) return makeError("text-syntax", file + ": the case '" + c.title + "' checks nothing");
    c.graph = "// spscope-graph 1\n" + c.graph;
  }
  return out;
}

std::size_t matchPattern(std::string_view text, std::string_view pattern, std::size_t start) {
  constexpr std::string_view kAny = "{{.*}}";
  const std::size_t any = pattern.find(kAny);
  const std::string_view head = pattern.substr(0, any);
  for (std::size_t at = text.find(head, start); at != std::string_view::npos; at = text.find(head, at + 1)) {
    std::size_t end = at + head.size();
    if (any == std::string_view::npos) return end;
    const std::size_t line_end = std::min(text.find('\n', end), text.size());
    const std::size_t rest = matchPattern(text.substr(0, line_end), pattern.substr(any + kAny.size()), end);
    if (rest != std::string_view::npos) return rest;
  }
  return std::string_view::npos;
}

std::string runPassCase(const PassCase& test, const std::string& file) {
  using Check = PassCase::Check;
  const std::vector<std::string> words = split(test.run, ' ');
  const passes::Pass* pass = passes::findPass(words[0]);
  if (!pass) return "there is no pass " + words[0] + "\n";
  const auto line = runLineOf(words);
  if (!line) return line.error().message + "\n";
  auto graph = ir::parseGraph(test.graph, file);
  if (!graph) return graph.error().message + "\n";
  if (const Status s = ir::verifyGraph(*graph); !s) return "input: " + s.error().format() + "\n";

  std::string wrong = wrongRoundTrip(*graph, "the input");

  const passes::PassContext run_context{line->settings, nullptr, line->rank};
  const passes::PipelineResult result =
      passes::runPipeline(std::make_shared<ir::Graph>(std::move(*graph)), {*pass}, run_context, {});
  const std::string expected_error = [&] {
    for (const Check& c : test.checks)
      if (c.kind == Check::kError) return c.text;
    return std::string();
  }();
  if (result.failure) {
    if (result.failure->code != expected_error) wrong += "failed: " + result.failure->format() + "\n";
    return wrong;
  }
  if (!expected_error.empty()) return "did not fail; expected " + expected_error + "\n";

  const std::string printed = ir::printGraph(*result.graph);
  wrong += wrongRoundTrip(*result.graph, "the result");
  std::vector<std::string> remarks;
  for (const Diagnostic& d : result.stages[0].diagnostics)
    if (std::find(line->ignored.begin(), line->ignored.end(), d.code) == line->ignored.end()) remarks.push_back(d.code);
  std::size_t at = 0;
  for (const Check& c : test.checks) {
    if (c.kind == Check::kFound) {
      const std::size_t end = matchPattern(printed, c.text, at);
      if (end == std::string::npos) {
        wrong += "not found (in this order): " + c.text + "\n";
      } else {
        at = end;
      }
    } else if (c.kind == Check::kNot) {
      if (matchPattern(printed, c.text, 0) != std::string::npos) wrong += "found, should not be there: " + c.text + "\n";
    } else if (c.kind == Check::kCount) {
      int n = 0;
      for (std::size_t p = matchPattern(printed, c.text, 0); p != std::string::npos; p = matchPattern(printed, c.text, p)) ++n;
      if (n != c.count) wrong += "found " + std::to_string(n) + " times, expected " + std::to_string(c.count) + ": " + c.text + "\n";
    } else if (c.kind == Check::kUnchanged) {
      if (result.stages[0].changed) wrong += "the graph changed\n";
    } else if (c.kind == Check::kRemark) {
      const auto it = std::find(remarks.begin(), remarks.end(), c.text);
      if (it == remarks.end()) {
        wrong += "no remark " + c.text + "\n";
      } else {
        remarks.erase(it);
      }
    }
  }
  for (const std::string& code : remarks) wrong += "unexpected remark " + code + "\n";
  if (!wrong.empty()) wrong += "the result was:\n" + printed;
  return wrong;
}

}  // namespace spscope::test
