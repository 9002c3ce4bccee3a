// SPDX-License-Identifier: Apache-2.0
#include "app/report.h"


#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/system.h"
#include "core/base/codes.h"
#include "core/base/log.h"
#include "core/base/new_file.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

/// Whether it was written, or nobody reads any more (`| head`), which is fine.
Status print(const std::string& text, std::FILE* to, const char* what) {
  if (std::fputs(text.c_str(), to) >= 0 && std::fflush(to) == 0) return {};
  const int reason = errno;
  if (reason == EPIPE) return {};
  return makeError("file-unwritable", std::string(what) + ": " + std::strerror(reason), Outcome::kNo);
}

std::string remedyOf(const std::string& given, const std::string& code) {
  if (!given.empty()) return given;
  const CodeInfo* info = findCode(code);
  return info ? std::string(info->remedy) : std::string();
}

/// " (node, model.py:41)" of what is known; "" where nothing is.
std::string placeOf(const std::string& node, const std::string& source) {
  if (node.empty() && source.empty()) return {};
  return " (" + plainNode(node) + (node.empty() || source.empty() ? "" : ", ") + source + ")";
}

bool endsWith(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

}  // namespace

Json errorObject(const Error& e) {
  Json out = {{"code", e.code},     {"message", e.message}, {"node", plainNode(e.node)},
              {"source", e.source}, {"legal", e.legal},     {"remedy", remedyOf(e.remedy, e.code)}};
  if (!e.notes.empty()) out["notes"] = e.notes;
  return out;
}

Status checkOutput(const std::string& given) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_other(fs::status(given, ignored))) return {};
  const Result<NewFile> there = NewFile::at(given);
  return there ? Status() : there.error();
}

Status writeOutput(const std::string& given, const std::string& bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status what = fs::status(given, ignored);
  if (!fs::exists(what) || !fs::is_other(what)) return writeWholeFile(given, bytes);
  errno = 0;  // a pipe or a device
  std::ofstream out(given, std::ios::binary);
  out << bytes;
  out.close();
  if (out) return {};
  return makeError("file-unwritable", given + ": " + (errno != 0 ? std::strerror(errno) : "writing failed"), Outcome::kNo);
}

std::string plainNode(const std::string& node) { return !node.empty() && node[0] == '%' ? node.substr(1) : node; }

void Report::setRank(int rank) {
  rank_ = rank;
  if (rank == 0) return;
  page_path_.clear();
  if (json_path_ == "-") json_path_.clear();
  if (json_path_.empty()) return;
  json_path_ += strf(".rank%d", rank);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(json_path_, ignored)) std::filesystem::remove(json_path_, ignored);
}

Json Report::object() const {
  Json out;
  out["version"] = SPSCOPE_VERSION;
  out["command"] = command_;
  out["model"] = model_;
  if (rank_) out["rank"] = *rank_;
  const auto end = stop_.time_since_epoch().count() ? stop_ : std::chrono::steady_clock::now();
  out["seconds"] = std::chrono::duration<double>(end - start_).count();
  Json warnings = Json::array();
  for (const Diagnostic& d : diagnostics.all()) {
    if (d.severity == Severity::kRemark) continue;
    warnings.push_back({{"code", d.code}, {"message", d.message}, {"node", plainNode(d.node)}, {"source", d.source},
                        {"remedy", remedyOf(d.remedy, d.code)}});
  }
  out["warnings"] = std::move(warnings);
  for (const auto& [key, value] : json.items()) out[key] = value;
  return out;
}

Page Report::errorsPage() const {
  Page out;
  if (!errors_.empty()) out.heading("What went wrong");
  for (const Error& e : errors_) {
    std::vector<std::vector<std::string>> rows{{"error", e.code}, {"message", e.message}};
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"node", plainNode(e.node)}, {"source", e.source}, {"legal", e.legal}, {"remedy", remedyOf(e.remedy, e.code)}})
      if (!value.empty()) rows.push_back({name, value});
    if (const CodeInfo* info = findCode(e.code)) rows.push_back({"meaning of the code", std::string(info->meaning)});
    out.table(std::move(rows));
    for (const std::string& note : e.notes) out.line(note);
  }
  return out;
}

Page Report::wholePage(int code) const {
  static const char* const kMeanings[] = {"fine", "the answer is no", "the command line is not understood", "refused", "a run failed"};
  Page out;
  out.line("Exit code " + std::to_string(code) + ": " + (code >= 0 && code < 5 ? kMeanings[code] : "unknown"));
  out.append(errorsPage());
  const std::vector<Diagnostic>& all = diagnostics.all();
  if (std::any_of(all.begin(), all.end(), [](const Diagnostic& d) { return d.severity != Severity::kRemark; })) {
    out.heading("Warnings");
    std::vector<std::vector<std::string>> rows{{"code", "message", "node", "source", "remedy"}};
    for (const Diagnostic& d : all)
      if (d.severity != Severity::kRemark) rows.push_back({d.code, d.message, plainNode(d.node), d.source, remedyOf(d.remedy, d.code)});
    out.table(std::move(rows));
  }
  if (!page.empty()) out.heading("Result");
  out.append(page);
  out.append(appendix);
  out.heading("What was asked");
  out.line("$ " + command_line_);
  std::vector<std::vector<std::string>> flags{{"setting", "value"}}, facts{{"", ""}};
  for (const auto& [name, value] : flags_) flags.push_back({name, value});
  if (flags.size() > 1) out.table(std::move(flags));
  out.heading("Versions and machine");
  for (const auto& [name, value] : systemFacts()) facts.push_back({name, value});
  out.table(std::move(facts));
  return out;
}

void Report::say(const Error& error) {
  errors_.push_back(error);
  if (log::format() == log::Format::kText) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
  } else if (log::level() <= log::Level::kError) {
    log::write(log::Level::kError, command_.empty() ? "command" : command_, error.code, error.message + placeOf(error.node, error.source));
  }
}

Status Report::writeLine(const std::string& line) {
  if (json_path_ == "-") {
    Status printed = print(line, stdout, "standard output");
    json_lost_ = !printed;
    return printed;
  }
  std::ofstream out(json_path_, std::ios::binary | (line_written_ ? std::ios::app : std::ios::trunc));
  out << line;
  out.close();
  line_written_ = true;
  json_lost_ = !out;
  return out ? Status() : makeError("file-unwritable", json_path_ + ": writing failed", Outcome::kNo);
}

Status Report::tell(const Page& answer, const Json& object) {
  const bool json_to_stdout = json_path_ == "-";
  if (!json_to_stdout || log::format() == log::Format::kText) SP_TRY(print(answer.text(), json_to_stdout ? stderr : stdout, "the answer"));
  page.append(answer);
  return json_path_.empty() ? Status() : writeLine(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Status Report::answerAs(const Page& answer, const std::string& text) {
  appendix.append(answer);
  return print(text, json_path_ == "-" ? stderr : stdout, "the answer");
}

Status Report::answer(const Page& answer, const std::string& markdown_path, const std::string& title) {
  if (markdown_path == "-") return answerAs(answer, answer.markdown(title));
  page.append(answer);
  return markdown_path.empty() ? Status() : writeOutput(markdown_path, answer.markdown(title));
}

int Report::finish(int code) {
  const bool as_text = log::format() == log::Format::kText;
  for (const Diagnostic& d : diagnostics.all()) {
    if (d.severity == Severity::kRemark || log::level() > log::Level::kWarning) continue;
    const std::string message = d.message + placeOf(d.node, d.source), remedy = remedyOf(d.remedy, d.code);
    if (as_text) std::fprintf(stderr, "warning[%s]: %s\n%s", d.code.c_str(), message.c_str(), remedy.empty() ? "" : ("  remedy: " + remedy + "\n").c_str());
    else log::write(log::Level::kWarning, command_, d.code, message);
  }
  const bool json_to_stdout = json_path_ == "-";
  const auto written = [&](const Status& status) {
    if (status) return;
    say(status.error());
    if (code == 0) code = 1;
  };
  if ((!json_to_stdout || as_text) && !at_once_) written(print(page.text(), json_to_stdout ? stderr : stdout, "the page"));
  if (!page_path_.empty()) {
    const std::string title = "spscope " + command_ + (model_.empty() ? "" : " " + std::filesystem::path(model_).filename().string());
    std::string text;
    if (page_is_there_) {
      std::ifstream in(page_path_, std::ios::binary);
      Page more = errorsPage();
      more.append(page);
      text = more.addedTo(std::string(std::istreambuf_iterator<char>(in), {}));
    }
    if (text.empty()) {
      const Page whole = wholePage(code);
      text = endsWith(page_path_, ".html") ? whole.html(title) : whole.markdown(title);
    }
    written(writeOutput(page_path_, text));
  }
  if (!json_path_.empty() && !json_lost_ && (code != 0 || rank_.value_or(0) == 0)) {
    // Names of files may hold any bytes: what is no UTF-8 is replaced rather than losing the object.
    const std::string text = object().dump(at_once_ ? -1 : 1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (line_written_) written(writeLine(text));
    else written(json_to_stdout ? print(text, stdout, "standard output") : writeOutput(json_path_, text));
  }
  return code;
}

int Report::fail(const Error& what) {
  Error error = what;
  if (error.code == "cancelled") error.outcome = Outcome::kNo;  // wherever it was noticed: nothing failed
  if (error.code == "usage" && error.remedy.empty()) error.remedy = "See spscope " + command_ + " --help.";
  say(error);
  if (error.outcome == Outcome::kRefused) {
    json["refusals"] = Json::array({errorObject(error)});
  } else if (error.outcome == Outcome::kRunFailed) {
    json["failure"] = errorObject(error);
    json["failure"]["rank"] = rank_ ? Json(*rank_) : Json(nullptr);  // without a rank: of this process itself
    json["failure"]["log"] = "";
  } else {
    json["error"] = errorObject(error);
  }
  return finish(static_cast<int>(error.outcome));
}

}  // namespace spscope::app
