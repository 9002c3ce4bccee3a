// SPDX-License-Identifier: Apache-2.0
// The answer of one command, in its three forms: the page for a person, the JSON object for a script, the exit code.
// Whatever happens, one JSON object is written where --json asked for one.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/page.h"
#include "core/base/diagnostics.h"
#include "core/base/result.h"

namespace spscope::app {

using Json = nlohmann::ordered_json;

class Report {
 public:
  /// `json_path`: "" for none, "-" for standard output (the page then goes to standard error).
  void setOutputs(std::string json_path, std::string page_path) {
    json_path_ = std::move(json_path);
    page_path_ = std::move(page_path);
  }
  /// This process is one rank of a launch whose ranks were all given the same outputs: rank 0 writes them. Another one writes
  /// its object to FILE.rankN, and only where its exit code is not 0; what an earlier run left there is removed. With "-",
  /// and of pages, there is none but rank 0's.
  void setRank(int rank);
  void setCommand(std::string command) { command_ = std::move(command); }
  void setModel(std::string model) { model_ = std::move(model); }
  /// The command line, and name and value of every flag: for the page of --report.
  void setAsked(std::string command_line, std::vector<std::pair<std::string, std::string>> flags) {
    command_line_ = std::move(command_line);
    flags_ = std::move(flags);
  }
  const std::string& model() const { return model_; }
  bool jsonToStdout() const { return json_path_ == "-"; }
  const std::string& pagePath() const { return page_path_; }
  /// Another process wrote the page of --report for this command: what this one has to say is added to it.
  void addToPage() { page_is_there_ = true; }

  /// A command that answers a question after the other: each answer is told at once, the page as text and the object as one line of
  /// JSON; finish() then adds the last line. The page of --report holds all answers. Error: file-unwritable.
  Status tell(const Page& answer, const Json& object);
  /// That it is such a command: every object of it is one line.
  void tellAtOnce() { at_once_ = true; }

  /// The answer, and its form as --markdown OUT asks for it: "-" stands in place of the text on standard output (on standard error where
  /// --json has that), "" asks for none. The page of --report has the answer always. Error: file-unwritable.
  Status answer(const Page& answer, const std::string& markdown_path, const std::string& title);

  /// The answer with `text` in its place on standard output (on standard error where --json has that). Error: file-unwritable.
  Status answerAs(const Page& answer, const std::string& text);

  Page page;              ///< what the person reads
  Page appendix;          ///< further figures for the page of --report
  Json json;              ///< the command's own fields
  DiagnosticSink diagnostics;

  /// "seconds" runs from here ...
  void startClock() { start_ = std::chrono::steady_clock::now(); }
  void startClock(const Report& with) { start_ = with.start_; }
  /// ... to here; called again, the later end counts.
  void stopClock() { stop_ = std::chrono::steady_clock::now(); }

  /// Writes everything and returns the exit code: `code`, or 1 where it was 0 and an output could not be written.
  int finish(int code);
  /// Adds the error to the JSON object ("refusals", "failure" or "error"), says it, and finishes with its exit code.
  int fail(const Error& what);
  /// Prints the error, or logs it where the log is JSON, and puts it on the page of --report.
  void say(const Error& error);

 private:
  Json object() const;
  Page errorsPage() const;
  Page wholePage(int code) const;
  Status writeLine(const std::string& line);
  bool page_is_there_ = false, at_once_ = false, line_written_ = false;
  bool json_lost_ = false;  ///< a line of it could not be written, which was said; no further one is tried
  std::string command_, model_, json_path_, page_path_, command_line_;
  std::vector<std::pair<std::string, std::string>> flags_;
  std::optional<int> rank_;  ///< of a launch
  std::vector<Error> errors_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), stop_{};
};

/// Whole or not at all: a script that reads the file never sees half an object. A device, a pipe (/dev/stdout) is written
/// to, never replaced; of a link, the file it leads to is. Errors: file-unwritable (an answer of "no": exit code 1).
Status writeOutput(const std::string& path, const std::string& bytes);
/// Whether that could be written, as far as it can be told: for what takes long to compute. Errors: file-unwritable.
Status checkOutput(const std::string& path);

/// Code, message, place, what would be legal, what to do.
Json errorObject(const Error& error);

/// "%node" fields of JSON bear the plain name.
std::string plainNode(const std::string& node);

}  // namespace spscope::app
