// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/chrome_reader.h"

#include <algorithm>
#include <limits>

#include "profiler/import/chrome_builder.h"
#include "profiler/import/json_repair.h"
#include "profiler/import/text_window.h"
#include "profiler/trace/bounds.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kNone = EventScanner::kNone;
/// An event that is longer is looked at for what a lost quote does; and once more whenever it has doubled.
constexpr std::size_t kLongEvent = 64 << 10;
/// No event is that long: whatever begins there is left out.
constexpr std::size_t kLongestEvent = 64 << 20;
/// Of the trace's own fields; longer ones are skipped.
constexpr std::size_t kLongestField = 1 << 20;

constexpr bool isSpace(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const ImportOptions& options)
      : source_(source), name_(name), options_(options), window_(source, options.block_bytes), builder_(trace_, name) {}

  Result<Trace> read() {
    SP_TRY(top());
    const bool nothing = trace_.events.size() == 0 && trace_.memory.empty() && trace_.counters.empty();
    if (!found_events_ && nothing) return makeError("trace-unreadable", name_ + " is JSON without traceEvents");
    if (source_.cutShort() && trace_.problems.countOf(Problem::kTruncated) == 0) truncated();
    // `"traceEvents": []` says that nothing was recorded, and a file that was cut early may have been a trace.
    if (nothing && (bare_ || trace_.problems.countOf(Problem::kBadEvent) > 0))
      return makeError("trace-unreadable", name_ + " holds no event that can be read");
    builder_.finish(header_);
    keepInBounds(trace_);
    return std::move(trace_);
  }

 private:
  std::string here(std::size_t index = 0) const { return placeOf(window_.offset() + static_cast<std::int64_t>(index)); }
  void truncated() { trace_.problems.count(Problem::kTruncated, here(window_.size())); }
  void bad(std::size_t index) { trace_.problems.count(Problem::kBadEvent, here(index)); }

  /// The index of the first byte from `index` that is no white space, and the byte; -1: the end.
  Result<int> skipSpace(std::size_t* index) {
    while (true) {
      SP_ASSIGN(const int c, window_.at(*index));
      if (!isSpace(c)) return c;
      ++*index;
    }
  }

  // --- the object around the events ---------------------------------------------------------------------------------
  Status top() {
    std::size_t at = 0;
    SP_ASSIGN(int c, window_.at(0));
    if (c == 0xef) at = 3;  // byte order mark
    SP_ASSIGN(c, skipSpace(&at));
    if (c == '[') {
      window_.drop(at + 1);
      bare_ = found_events_ = true;
      scanner_.restart(0);
      SP_ASSIGN(const bool ended, events());
      if (!ended) truncated();
      return {};
    }
    if (c != '{') return makeError("trace-unreadable", name_ + " is neither JSON, gzip nor an SQLite database");
    window_.drop(at + 1);
    while (true) {
      SP_ASSIGN(const Member member, nextMember());
      if (member == Member::kEnd) return {};
      if (member == Member::kNoMore) return truncated(), Status();
      if (member == Member::kEvents) {
        found_events_ = true;
        scanner_.restart(0);
        SP_ASSIGN(const bool ended, events());
        if (!ended) return truncated(), Status();
      } else if (member == Member::kBroken) {
        bad(0);
        bool found = false;
        scanner_.restart(0);
        if (found_events_) {  // what ended them was none of their end
          SP_ASSIGN(found, resync(0));
          if (!found) return {};
        } else {
          SP_ASSIGN(found, seekEvents());
          if (!found) return truncated(), Status();
        }
        found_events_ = true;
        SP_ASSIGN(const bool ended, events());
        if (!ended) return truncated(), Status();
      }
    }
  }

  enum class Member { kField, kEvents, kEnd, kNoMore, kBroken };

  /// Reads `"key": value` and what follows up to the next member. Events: the window is behind their [.
  Result<Member> nextMember() {
    std::size_t at = 0;
    SP_ASSIGN(int c, skipSpace(&at));
    if (c == ',') {
      ++at;
      SP_ASSIGN(c, skipSpace(&at));
    }
    if (c == -1) return Member::kNoMore;
    if (c == '}') {
      ++at;
      SP_ASSIGN(c, skipSpace(&at));
      return c == -1 ? Member::kEnd : Member::kBroken;
    }
    if (c != '"') return Member::kBroken;
    const std::size_t key = at + 1;
    SP_ASSIGN(std::size_t end, valueEnd(at));
    if (end == kNone) return Member::kNoMore;
    if (broken_value_) return Member::kBroken;
    const std::string name(window_.text().substr(key, end - key - 1));
    at = end;
    SP_ASSIGN(c, skipSpace(&at));
    if (c == -1) return Member::kNoMore;
    if (c != ':') return Member::kBroken;
    ++at;
    SP_ASSIGN(c, skipSpace(&at));
    const bool named = name == "traceEvents";
    SP_ASSIGN(const bool events, c == '[' && !named ? holdsEvents(at) : Result<bool>(named));
    if (events) {
      if (!named || c != '[') bad(at);
      window_.drop(c == '[' ? at + 1 : at);
      return Member::kEvents;
    }
    // valueEnd may drop the beginning of a value that is too long to be kept.
    window_.drop(at);
    const std::string where = here();
    SP_ASSIGN(end, valueEnd(0));
    if (end == kNone) return Member::kNoMore;
    if (end == 0) return Member::kBroken;
    if (broken_value_) return Member::kBroken;
    if (value_dropped_) trace_.problems.count(Problem::kLostMetadata, where);
    else if (name == "spscope") builder_.ownExport(), readHeader(name, window_.text().substr(0, end), where, header_, trace_.problems);
    else readHeader(name, window_.text().substr(0, end), where, header_, trace_.problems);
    window_.drop(end);
    return Member::kField;
  }

  /// Where the value ends that begins at `at`; kNone: the text ends before. Only lengths, no syntax. broken_value_: it ran
  /// into the events, for want of a quote or a bracket, and ends before them.
  Result<std::size_t> valueEnd(std::size_t at) {
    constexpr std::string_view kEvents = "traceEvents\"";
    value_dropped_ = broken_value_ = false;
    int depth = 0;
    bool inside = false;
    const std::size_t first = at;
    for (;; ++at) {
      if (at - first > kLongestField && first == 0) {
        SP_TRY(options_.cancel.check());
        window_.drop(at);
        at = 0;
        value_dropped_ = true;
      }
      SP_ASSIGN(const int c, window_.at(at));
      if (c == -1) return kNone;
      if (c == '"' && at != first) {
        SP_ASSIGN(const int there, window_.at(at + kEvents.size()));
        if (there != -1 && window_.text().substr(at + 1, kEvents.size()) == kEvents) {
          broken_value_ = true;
          return at;
        }
      }
      if (inside) {
        if (c == '\\') ++at;
        else if (c == '"' && (inside = false, depth == 0)) return at + 1;
      } else if (c == '"') {
        inside = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return at;
        if (--depth == 0) return at + 1;
      } else if (depth == 0 && (c == ',' || isSpace(c))) {
        return at;
      }
    }
  }

  /// Behind the next [ that begins an array of events, wherever it stands: the way back after damage in front of it.
  Result<bool> seekEvents() {
    while (true) {
      const auto found = window_.text().find('[');
      window_.drop(std::min(found, window_.size()));
      if (found != std::string_view::npos) {
        SP_ASSIGN(const bool events, holdsEvents(0));
        window_.drop(1);
        if (events) return true;
        continue;
      }
      SP_TRY(options_.cancel.check());
      SP_ASSIGN(const bool more, window_.more());
      if (!more) return false;
    }
  }

  /// Whether the array at `at` is one of events, whatever its key.
  Result<bool> holdsEvents(std::size_t at) {
    ++at;
    SP_ASSIGN(const int c, skipSpace(&at));
    if (c != '{') return false;
    SP_ASSIGN(const int there, window_.at(at + 256));
    (void)there;
    std::string_view text = window_.text().substr(at, 256);
    text = text.substr(0, text.find('}'));
    for (const std::string_view key : {"\"ph\"", "\"args\"", "\"ts\"", "\"dur\""})
      if (text.find(key) != std::string_view::npos) return true;
    return false;
  }

  // --- the events ---------------------------------------------------------------------------------------------------
  /// From where scanner_ stands to behind the ]. False: the text ends before.
  Result<bool> events() {
    constexpr std::size_t kStep = 4096;
    std::size_t step = kStep, reach = kNone;  // how far the next scan looks
    long_event_ = kLongEvent;
    while (true) {
      extents_.clear();
      const std::string_view text = window_.text().substr(0, reach);
      const EventScanner::Stop stop = scanner_.scan(text, extents_);
      if (const std::size_t again = parse(); again != kNone) {  // an event swallowed others
        scanner_.restart(again);
        step = kStep, reach = again + step;  // if each event does, not all that follow are scanned each time
        continue;
      }
      if (stop == EventScanner::Stop::kMore && text.size() < window_.size()) {
        step *= 2, reach = text.size() + step;
        continue;
      }
      reach = kNone;
      if (trace_.events.size() > static_cast<std::size_t>(std::numeric_limits<EventIndex>::max()) - (std::size_t{1} << 24))
        return makeError("trace-too-large", name_ + " holds more than " + std::to_string(trace_.events.size()) + " events");
      if (stop == EventScanner::Stop::kArrayEnd) {
        SP_ASSIGN(const bool ends, endsHere());
        if (ends) return true;
        SP_ASSIGN(const bool found, resync(scanner_.at() + 1));
        if (!found) return false;
        continue;
      }
      if (stop == EventScanner::Stop::kBroken) {
        const std::size_t open = scanner_.open(), at = scanner_.at();
        bad(open == kNone ? at : open);
        const std::size_t flipped = open == kNone ? kNone : flippedAt(window_.text(), open, at);
        if (flipped != kNone) {
          scanner_.restart(flipped);
          continue;
        }
        SP_ASSIGN(const bool found, resync(at));
        if (!found) return false;
        continue;
      }
      if (stop == EventScanner::Stop::kDoubtful) {
        openWasFlipped(scanner_.at());
        continue;
      }
      dropRead();
      const std::size_t open = scanner_.open() == kNone ? 0 : window_.size() - scanner_.open();
      SP_TRY(options_.cancel.check());
      if (options_.progress) options_.progress({"reading the trace", source_.consumed(), source_.total()});
      if (open > long_event_) {
        long_event_ = 2 * open;
        if (openWasFlipped(window_.size())) continue;
        if (open > kLongestEvent) {
          bad(scanner_.open());
          SP_ASSIGN(const bool found, resync(scanner_.at()));
          if (!found) return false;
          continue;
        }
      }
      SP_ASSIGN(const bool more, window_.more());
      if (more) continue;
      if (scanner_.open() != kNone && openWasFlipped(window_.size())) continue;
      return false;
    }
  }

  /// The open event never ends since a quote is missing in it: leaves it out. Looks up to `to`.
  bool openWasFlipped(std::size_t to) {
    const std::size_t flipped = flippedAt(window_.text(), scanner_.open(), to);
    if (flipped == kNone) return false;
    bad(scanner_.open());
    scanner_.restart(flipped);
    long_event_ = kLongEvent;
    return true;
  }

  /// Whether the ] at scanner_.at() ends the array; then the window is behind it.
  Result<bool> endsHere() {
    std::size_t at = scanner_.at() + 1;
    SP_ASSIGN(int c, skipSpace(&at));
    bool ends = c == -1 || (bare_ && c != ',');
    if (!bare_ && c == '}') {
      ++at;
      SP_ASSIGN(c, skipSpace(&at));
      ends = c == -1;
    } else if (!bare_ && c == ',') {
      ++at;
      SP_ASSIGN(c, skipSpace(&at));
      ends = c == '"' || c == -1;
    }
    if (ends) window_.drop(scanner_.at() + 1);
    else bad(scanner_.at());
    return ends;
  }

  /// Goes on between events at the next place that looks like it, from `from` on. False: there is none.
  Result<bool> resync(std::size_t from) {
    constexpr std::size_t kBack = 256;  // white space between } , { " that is looked through
    while (true) {
      const std::size_t found = nextBoundary(window_.text(), from);
      if (found != kNone) {
        scanner_.restart(found);
        return true;
      }
      const std::size_t keep = std::min(window_.size(), kBack);
      from = std::max(from, window_.size() - keep);
      const std::size_t drop = std::min(window_.size() - keep, from);
      window_.drop(drop);
      from -= drop;
      SP_TRY(options_.cancel.check());
      SP_ASSIGN(const bool more, window_.more());
      if (!more) return false;
    }
  }

  /// Forgets the text before the open event.
  void dropRead() {
    const std::size_t read = scanner_.open() != kNone ? scanner_.open() : scanner_.at();
    window_.drop(read);
    scanner_.shift(read);
  }

  /// Parses extents_. Returns where to scan again, when one of them held more than one event; kNone otherwise.
  std::size_t parse() {
    if (extents_.empty()) return kNone;
    long_event_ = kLongEvent;
    std::size_t longest_run = extents_.size();
    for (std::size_t i = 0; i < extents_.size();) {
      std::size_t run = 0;
      while (i + run < extents_.size() && run < longest_run && (run == 0 || extents_[i + run].joined) && !extents_[i + run].doubtful) ++run;
      builder_.place(window_.begin(), window_.offset());
      if (run != 0) {
        const std::size_t done = parser_.parseRun(window_.begin(), {extents_.data() + i, run}, builder_);
        i += done;
        if (done == run) continue;
        longest_run = 64;
      }
      // One that cannot be read with the others, and some after it: if a fault of the whole run (a byte that is no UTF-8) is
      // among them, runs work again behind it.
      for (int single = 0; single < 16 && i < extents_.size() && (single == 0 || !extents_[i].doubtful); ++single, ++i) {
        if (extents_[i].doubtful) {
          const std::size_t again = flippedAt(window_.text(), extents_[i].start, extents_[i].end);
          if (again != kNone) return bad(extents_[i].start), again;
        }
        parseSingle(extents_[i]);
      }
    }
    return kNone;
  }

  void parseSingle(const EventExtent& extent) {
    const std::string_view text = window_.text().substr(extent.start, extent.end - extent.start);
    builder_.place(window_.begin(), window_.offset());
    if (parser_.parseOne(text, builder_)) return;
    const std::int64_t offset = window_.offset() + static_cast<std::int64_t>(extent.start);
    Problems mended;
    repaired_ = repairedJson(text, placeOf(offset), mended);
    const std::size_t size = repaired_.size();
    repaired_.append(TextWindow::kMargin, ' ');
    builder_.placeRepaired(repaired_.data(), offset, mended.countOf(Problem::kBadNumber) != 0);
    if (parser_.parseOne({repaired_.data(), size}, builder_)) trace_.problems.append(mended);
    else bad(extent.start);
  }

  ByteSource& source_;
  const std::string& name_;
  const ImportOptions& options_;
  TextWindow window_;
  Trace trace_;
  ChromeBuilder builder_;
  ChromeEventParser parser_;
  EventScanner scanner_;
  std::vector<EventExtent> extents_;
  ChromeHeader header_;
  std::string repaired_;
  std::size_t long_event_ = kLongEvent;
  bool bare_ = false, found_events_ = false, value_dropped_ = false, broken_value_ = false;
};

}  // namespace

Result<Trace> readChrome(ByteSource& source, const std::string& name, const ImportOptions& options) {
  return Reader(source, name, options).read();
}

}  // namespace spscope::trace
