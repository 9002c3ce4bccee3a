// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/command.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "core/base/strings.h"
#include "core/torch/tensor_store.h"

namespace spscope::session::debug {
namespace {

using Words = std::vector<std::string>;

Error usage(std::string message, const CommandInfo& info) {
  Error error = makeError("usage", std::move(message), Outcome::kUsage);
  error.legal = info.name + (info.takes.empty() ? "" : " " + info.takes);
  return error;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return out;
}

Words wordsOf(const std::string& line) {
  Words out;
  for (const std::string& word : split(line.substr(0, line.find('#')), ' '))
    if (!word.empty() && word != "\t") out.push_back(word);
  return out;
}

/// One command at work: its words, and the answer that it fills.
class Work {
 public:
  Work(Debugger& debugger, const CommandInfo& info, Words words, Answer& out) : debugger_(debugger), info_(info), words_(std::move(words)), out_(out) {}

  Status step() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const std::int64_t count, takeCount(1));
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.step(count, rank));
    return {};
  }
  Status next() {
    SP_ASSIGN(const int rank, takeRank());
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.next(info_.name == "out" ? 1 : 0, rank));
    return {};
  }
  Status collective() {
    SP_ASSIGN(const int rank, takeRank());
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.untilCollective(rank));
    return {};
  }
  Status until() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const NodeQuery query, takeQuery(words_));
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.until(query, rank));
    return {};
  }
  Status resume() {
    SP_ASSIGN(const int rank, takeRank());
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.resume(rank));
    return {};
  }
  Status back() {
    if (words_.empty() || number(words_.front())) {
      SP_ASSIGN(const std::int64_t count, takeCount(1));
      SP_TRY(nothingLeft());
      SP_ASSIGN(out_.stop, debugger_.back(count));
      return {};
    }
    SP_ASSIGN(const NodeQuery query, takeQuery(words_));
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.backTo(query));
    return {};
  }
  Status restart() {
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.stop, debugger_.back(debugger_.where().made));
    return {};
  }
  Status where() {
    SP_TRY(nothingLeft());
    out_.stop = debugger_.where();
    return {};
  }

  Status addBreakpoint() {
    SP_ASSIGN(Breakpoint wanted, parseBreakpoint(std::move(words_)));
    SP_ASSIGN(Breakpoint added, debugger_.add(std::move(wanted)));
    out_.breakpoints = {std::move(added)};
    return {};
  }
  Status removeBreakpoint() {
    if (words_.empty()) return usage("which one?", info_);
    const std::string which = take();
    SP_TRY(nothingLeft());
    if (which == "all") {
      debugger_.removeAll();
    } else if (const auto id = number(which); !id || !debugger_.remove(static_cast<int>(*id))) {
      return usage("there is no breakpoint " + which, info_);
    }
    out_.breakpoints = debugger_.breakpoints();
    return {};
  }
  Status listBreakpoints() {
    SP_TRY(nothingLeft());
    out_.breakpoints = debugger_.breakpoints();
    return {};
  }

  Status look() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const std::string value, takeValue());
    if (words_.empty()) {
      SP_ASSIGN(out_.value, debugger_.look(value, rank));
      return {};
    }
    SP_ASSIGN(const std::vector<exec::Range> ranges, takeRanges());
    SP_TRY(nothingLeft());
    Answer::Window window;
    SP_ASSIGN(const exec::TensorBag bag, valueOf(value, std::max(rank, 0), window.again));
    window.value = value;
    window.rank = std::max(rank, 0);
    SP_ASSIGN(window.cells, exec::windowOf(bag, ranges));
    out_.window = std::move(window);
    return {};
  }
  Status gather() {
    SP_ASSIGN(const std::string value, takeValue());
    SP_ASSIGN(const std::vector<exec::Range> ranges, takeRanges());
    SP_TRY(nothingLeft());
    Answer::Window window;
    SP_ASSIGN(const exec::TensorBag bag, debugger_.whole(value, &window.again));
    window.value = value;
    if (ranges.empty() && ir::numel(bag.entry(0).shape) > kListed) {  // the corner, as everywhere
      SP_ASSIGN(const exec::ValueSummary summary, exec::summarize(bag));
      window.cells = {summary.slice_shape, summary.slice};
      out_.said = "the beginning of [" + join(bag.entry(0).shape, ", ") + "]";
    } else {
      SP_ASSIGN(window.cells, exec::windowOf(bag, ranges));
    }
    out_.window = std::move(window);
    return {};
  }
  Status heat() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const std::string value, takeValue());
    SP_TRY(nothingLeft());
    Answer::Window window;
    window.value = value;
    window.rank = rank;
    SP_ASSIGN(const exec::TensorBag bag, rank < 0 ? debugger_.whole(value, &window.again) : valueOf(value, rank, window.again));
    SP_ASSIGN(window.cells, exec::heatMap(bag));
    out_.heat = std::move(window);
    return {};
  }
  Status diff() {
    std::vector<int> of;
    for (auto word = std::find(words_.begin(), words_.end(), "rank"); word != words_.end(); word = std::find(words_.begin(), words_.end(), "rank")) {
      SP_ASSIGN(const int rank, takeRank());
      of.push_back(rank);
    }
    SP_ASSIGN(const std::string value, takeValue());
    SP_TRY(nothingLeft());
    if (of.size() == 1 || of.size() > 2) return usage("two ranks, or none for the unsharded value", info_);
    SP_ASSIGN(out_.comparison, of.empty() ? debugger_.compare(value) : debugger_.compareRanks(value, of[0], of[1]));
    return {};
  }
  Status save() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const std::string value, takeValue());
    const std::string path = take();
    SP_TRY(nothingLeft());
    const bool npy = path.ends_with(".npy");
    if (!npy && !path.ends_with(".safetensors")) return usage("to which file, .npy or .safetensors?", info_);
    bool again = false;
    SP_ASSIGN(const exec::TensorBag bag, rank < 0 ? debugger_.whole(value, &again) : valueOf(value, rank, again));
    SP_TRY(npy ? exec::saveNpy(bag, path) : exec::saveBag(bag, path));
    out_.said = value + ", [" + join(bag.entry(0).shape, ", ") + "], is in " + path + (again ? "; it was freed by now and was computed again" : "");
    return {};
  }
  Status wrong() {
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.wrong, debugger_.firstWrong());
    return {};
  }

  Status bisect() {
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.bisection, debugger_.bisect());
    return {};
  }

  Status why() {
    SP_ASSIGN(out_.about, takeValue());
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.why, debugger_.why(out_.about));
    return {};
  }
  Status list() {
    SP_ASSIGN(const int rank, takeRank());
    SP_ASSIGN(const std::int64_t count, takeCount(5));
    SP_TRY(nothingLeft());
    if (rank >= debugger_.ranks()) return usage(strf("there is no rank %d", rank), info_);
    const int of = std::max(rank, 0);
    out_.nodes = debugger_.around(of, count, count);
    out_.about = strf("rank %d", of);
    const Stop now = debugger_.where();
    const RankPlace& place = now.ranks[static_cast<std::size_t>(of)];
    if (!place.ended) out_.marked = place.next.place;
    out_.listed = true;
    return {};
  }
  Status find() {
    SP_ASSIGN(const NodeQuery query, takeQuery(words_));
    SP_TRY(nothingLeft());
    SP_ASSIGN(out_.nodes, debugger_.find(query));
    out_.about = query.text();
    out_.listed = true;
    return {};
  }
  Status help() {
    const std::string of = take();
    SP_TRY(nothingLeft());
    for (const CommandInfo& c : commandTable())
      if (of.empty() || of == c.name || of == c.alias) out_.help.push_back(c);
    if (out_.help.empty()) return usage("there is no command " + of, info_);
    return {};
  }
  Status quit() {
    SP_TRY(nothingLeft());
    out_.quit = true;
    return {};
  }

 private:
  static constexpr std::int64_t kListed = 64;

  std::string take() {
    if (words_.empty()) return {};
    std::string out = words_.front();
    words_.erase(words_.begin());
    return out;
  }
  /// "rank R" wherever it stands; -1 where it does not.
  Result<int> takeRank() {
    const auto at = std::find(words_.begin(), words_.end(), "rank");
    if (at == words_.end()) return -1;
    const auto rank = at + 1 == words_.end() ? std::nullopt : number(*(at + 1));
    if (!rank || *rank < 0 || *rank >= debugger_.ranks()) return usage(strf("which rank, of 0 to %d?", debugger_.ranks() - 1), info_);
    words_.erase(at, at + 2);
    return static_cast<int>(*rank);
  }
  Result<std::int64_t> takeCount(std::int64_t fallback) {
    if (words_.empty()) return fallback;
    const std::string word = take();
    const auto count = number(word);
    if (!count || *count < 1) return usage(word + " is no number from 1 on", info_);
    return *count;
  }
  Result<std::string> takeValue() {
    if (words_.empty()) return usage("of which value?", info_);
    return take();
  }
  /// "[0, 2:5, :]", also without brackets and blanks: what is left of the line.
  Result<std::vector<exec::Range>> takeRanges() {
    std::string text = join(words_, "");
    const std::string typed = text;
    words_.clear();
    std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
    std::vector<exec::Range> out;
    if (text.empty()) return out;
    for (const std::string& part : split(text, ',')) {
      const std::size_t colon = part.find(':');
      exec::Range range;
      const std::string first = part.substr(0, colon), last = colon == std::string::npos ? "" : part.substr(colon + 1);
      const auto begin = number(first), end = number(last);
      if ((!begin && !(first.empty() && colon != std::string::npos)) || (!end && !last.empty())) return usage(typed + " is no window, as 0,2:5,:", info_);
      if (begin) range.begin = *begin;
      if (end) range.end = *end;
      else if (colon == std::string::npos && range.begin != -1) range.end = range.begin + 1;
      out.push_back(range);
    }
    return out;
  }
  Result<exec::TensorBag> valueOf(const std::string& value, int rank, bool& again) {
    SP_ASSIGN(Debugger::Parts found, debugger_.parts(value, rank));
    again = found.again;
    return std::move(found.of_rank[static_cast<std::size_t>(rank)]);
  }
  Status nothingLeft() const {
    if (!words_.empty()) return usage(words_.front() + " is one word too many", info_);
    return {};
  }

  Debugger& debugger_;
  const CommandInfo& info_;
  Words words_;
  Answer& out_;
};

struct Command {
  CommandInfo info;
  Status (Work::*run)();
};

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {{"step", "s", "[N] [rank R]", "run the next node (N of them) of every rank, or of one"}, &Work::step},
      {{"next", "n", "[rank R]", "run to the end of the module"}, &Work::next},
      {{"out", "o", "[rank R]", "run to the end of the module around it"}, &Work::next},
      {{"collective", "", "[rank R]", "run to the next collective"}, &Work::collective},
      {{"until", "u", "WHAT [rank R]", "run until such a node is next: %name, op GLOB, module GLOB, source FILE:LINE, phase P, collective [KIND]"}, &Work::until},
      {{"continue", "c", "[rank R]", "run to a breakpoint or to the end of the step"}, &Work::resume},
      {{"back", "b", "[N] | WHAT", "go back N moves, or to where such a node was next"}, &Work::back},
      {{"restart", "", "", "go back to the beginning of the step"}, &Work::restart},
      {{"where", "w", "", "the node that each rank runs next"}, &Work::where},
      {{"list", "l", "[N] [rank R]", "the nodes around it"}, &Work::list},
      {{"find", "f", "WHAT", "all nodes that are so"}, &Work::find},
      {{"break", "br", "[WHAT] [if nan|inf|abs>X|zeros>SHARE|ranks|differs[>SHARE] [hit N]] [do stop|log|save PATH] [rank R]",
        "stop before such a node, or behind it where its results are so; log and save do not stop"}, &Work::addBreakpoint},
      {{"breakpoints", "", "", "all breakpoints, and how often each was met"}, &Work::listBreakpoints},
      {{"delete", "d", "N|all", "remove a breakpoint"}, &Work::removeBreakpoint},
      {{"print", "p", "%VALUE [0,2:5,:] [rank R]", "statistics, histogram and beginning of a value on each rank; or a window of it"}, &Work::look},
      {{"gather", "g", "%VALUE [0,2:5,:]", "a value put together from the ranks by its placement"}, &Work::gather},
      {{"heat", "", "%VALUE [rank R]", "a picture of magnitudes: of the whole, or of one rank's part"}, &Work::heat},
      {{"diff", "", "%VALUE [rank A rank B]", "how far it is from the unsharded value, or one rank's from another's"}, &Work::diff},
      {{"save", "", "%VALUE FILE.npy|FILE.safetensors [rank R]", "write it: put together, or one rank's part"}, &Work::save},
      {{"wrong", "", "", "the first node of the whole step whose value is not the unsharded one"}, &Work::wrong},
      {{"bisect", "", "", "after which pass, and with which of its rewrites, the whole step first differs"}, &Work::bisect},
      {{"why", "y", "%NAME", "why it is placed so, exchanged, kept, this large; which pass made it, from what"}, &Work::why},
      {{"help", "h", "[COMMAND]", "the commands"}, &Work::help},
      {{"quit", "q", "", "end"}, &Work::quit},
  };
  return all;
}

}  // namespace

const std::vector<CommandInfo>& commandTable() {
  static const std::vector<CommandInfo> table = [] {
    std::vector<CommandInfo> out;
    for (const Command& c : commands()) out.push_back(c.info);
    return out;
  }();
  return table;
}

Answer execute(Debugger& debugger, const std::string& line) {
  Answer out;
  out.line = line;
  Words words = wordsOf(line);
  if (words.empty()) return out;
  const std::string name = words.front();
  words.erase(words.begin());
  std::vector<std::string> known;
  for (const Command& c : commands()) {
    known.push_back(c.info.name);
    if (name != c.info.name && (c.info.alias.empty() || name != c.info.alias)) continue;
    out.command = c.info.name;
    Work work(debugger, c.info, std::move(words), out);
    if (Status status = (work.*c.run)(); !status) {
      Answer failed;
      failed.line = line;
      failed.command = c.info.name;
      failed.error = std::move(status).error();
      return failed;
    }
    return out;
  }
  out.error = makeError("usage", "there is no command " + name, Outcome::kUsage);
  const std::string near = nearest(name, known);
  out.error->legal = near.empty() ? join(known, ", ") : near;
  return out;
}

std::vector<std::string> completions(const Debugger& debugger, const std::string& line) {
  const std::size_t blank = line.find_last_of(" \t");
  const std::string word = line.substr(blank == std::string::npos ? 0 : blank + 1);
  std::vector<std::string> out;
  const auto offer = [&](const std::string& candidate) {
    if (candidate.starts_with(word)) out.push_back(candidate);
  };
  if (blank == std::string::npos) {
    for (const CommandInfo& c : commandTable()) offer(c.name);
    return out;
  }
  if (word.starts_with('%')) {
    for (const std::string& name : debugger.names()) offer("%" + name);
    return out;
  }
  for (const char* keyword : {"op", "module", "source", "phase", "collective", "any", "if", "do", "rank"}) offer(keyword);
  if (!word.empty())
    for (const std::string& name : debugger.names()) offer(name);
  return out;
}

}  // namespace spscope::session::debug
