// SPDX-License-Identifier: Apache-2.0
// One event of a Chrome JSON trace, as its text says it. simdjson reads a run of events at a time, and only the fields that
// a trace needs; what is rare (metadata, counters, collectives) is read a second time, by chrome_details.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "profiler/import/decimal.h"
#include "profiler/import/event_scanner.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// Names and raw tokens point into the event's text.
struct ChromeEvent {
  std::string_view text;           ///< the whole event
  char phase = 0;                  ///< of one letter; 0: none
  bool escapes = false;            ///< names may hold escapes
  bool fractional = false;         ///< ts is written with a point or an exponent
  Parsed ts_state = Parsed::kAbsent, dur_state = Parsed::kAbsent;
  std::string_view name, category; ///< between their quotes, not unescaped
  std::string_view pid_text, tid_text, id_text;  ///< with quotes: they are no numbers
  std::int64_t ts = 0, dur = 0;    ///< ns
  std::int64_t pid = kUnknown, tid = kUnknown, id = kUnknown;
  // args
  std::int64_t correlation = 0, external = 0, sequence = kUnknown;
  std::int64_t device = kUnknown, context = kUnknown, stream = kUnknown, bytes = kUnknown;
  std::int64_t address = kUnknown, allocated = kUnknown, reserved = kUnknown, device_type = kUnknown, device_id = kUnknown;
  std::int64_t registers = kUnknown, shared = kUnknown, graph_node = kUnknown, node = kUnknown;
  std::array<std::int32_t, 3> grid{}, block{};
  std::int32_t bad_numbers = 0, out_of_range = 0;
};

class ChromeEventSink {
 public:
  virtual ~ChromeEventSink() = default;
  virtual void add(const ChromeEvent& event) = 0;
};

class ChromeEventParser {
 public:
  ChromeEventParser();
  ~ChromeEventParser();
  ChromeEventParser(const ChromeEventParser&) = delete;
  ChromeEventParser& operator=(const ChromeEventParser&) = delete;

  /// Events that only commas separate, in order. `text` may be written to one byte before the first and behind the last,
  /// and is readable for TextWindow::kMargin bytes behind it. Returns how many went to the sink: fewer than all, when the
  /// one after them (or, for some faults, a later one) is no JSON.
  std::size_t parseRun(char* text, std::span<const EventExtent> events, ChromeEventSink& sink);
  /// One event, with the same margin behind it. False: it is no JSON, and nothing went to the sink.
  bool parseOne(std::string_view event, ChromeEventSink& sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::trace
