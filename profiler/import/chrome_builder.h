// SPDX-License-Identifier: Apache-2.0
// Events of one Chrome JSON file become one rank of a Trace; of a file that we exported, one rank a process. What refers to other events (arrows, names of tracks,
// collectives) waits until all are there.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/import/chrome_details.h"
#include "profiler/import/chrome_event.h"
#include "profiler/import/text_window.h"

namespace spscope::trace {

class ChromeBuilder final : public ChromeEventSink {
 public:
  ChromeBuilder(Trace& trace, const std::string& name);

  /// What `byte N` of an event is: `text` is at `offset` of the file's text.
  void place(const char* text, std::int64_t offset) { text_ = text, offset_ = offset, repaired_ = counted_ = false; }
  /// The next event was mended and lies elsewhere; `counted`: its missing numbers are counted already.
  void placeRepaired(const char* text, std::int64_t offset, bool counted) { text_ = text, offset_ = offset, repaired_ = true, counted_ = counted; }
  /// The file is of our own export: its processes are ranks. Before the first event.
  void ownExport() { own_ = true; }
  void add(const ChromeEvent& event) override;
  /// After the last event.
  void finish(const ChromeHeader& header);

 private:
  struct CachedName {
    const char* data = nullptr;
    std::uint32_t size = 0;
    StringId id = 0;
  };
  struct CachedTrack {
    std::int64_t a = 0, b = 0, c = 0;  ///< pid, tid, -1 of a thread; device, context, stream
    std::int32_t rank = 0;
    bool stream = false, known = false;
    TrackIndex track = 0;
  };
  /// One end of an arrow.
  struct FlowPoint {
    std::int64_t id = 0, time = 0;
    TrackIndex track = 0;
    StringId kind = 0;
    char phase = 0;
    EventIndex event = kNoIndex;
  };
  enum class Communication : std::int8_t { kUnasked, kNo, kYes };

  std::string where(const ChromeEvent& event) const { return placeOf(offset_ + (event.text.data() - text_)); }
  StringId intern(std::string_view raw, bool escapes);
  Category categoryOf(StringId category);
  std::int64_t numberOf(std::int64_t number, std::string_view text);
  TrackIndex threadOf(const ChromeEvent& event);
  std::int32_t rankOf(const ChromeEvent& event) const;
  void addRank(std::int64_t pid, const std::string& name);
  TrackIndex streamOf(std::int32_t rank, std::int64_t device, std::int64_t context, std::int64_t stream);

  void addComplete(const ChromeEvent& event);
  void addInstant(const ChromeEvent& event);
  void addMemory(const ChromeEvent& event);
  void addOpen(const ChromeEvent& event);
  void addFlow(const ChromeEvent& event);
  void addMetadata(const ChromeEvent& event);
  void addCounters(const ChromeEvent& event);
  NodeIndex nodeOf(const ChromeEvent& event);
  Event common(const ChromeEvent& event, Category category);
  void noteCollective(const ChromeEvent& event, Category category, StringId name, EventIndex index);

  void resolveFlows();
  void nameTracks();
  void placeDeviceRanges();
  void dropRepeatedIds();
  void closeOpenEvents();
  void addBase(const ChromeHeader& header);

  Trace& trace_;
  const char* text_ = nullptr;
  std::int64_t offset_ = 0;
  bool repaired_ = false, counted_ = false, own_ = false;
  std::string scratch_;
  std::vector<CachedName> names_;
  std::vector<CachedTrack> tracks_;
  std::vector<std::int8_t> categories_;            ///< by StringId; -1: not asked yet
  std::vector<Communication> communication_;       ///< by StringId
  std::vector<bool> sequenced_;                    ///< by event: an op with a sequence number, where arrows end
  std::vector<FlowPoint> flows_;
  std::vector<std::pair<EventIndex, std::array<std::int64_t, 3>>> device_ranges_;  ///< device, stream, rank
  std::vector<FoundCollective> collectives_, ranges_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> thread_names_;      ///< by pid, tid as threadOf numbers them
  std::map<std::int64_t, std::string> process_names_, process_labels_;
  std::map<std::int64_t, std::string> texts_;      ///< numbers that stand for pids and tids which are texts
  std::map<std::int64_t, std::int32_t> rank_of_process_;  ///< of our own export
  std::int64_t not_a_rank_ = kUnknown;                    ///< the process of its counters over all ranks
  std::unordered_map<std::int64_t, NodeIndex> nodes_;  ///< by id
  std::unordered_map<TrackIndex, std::vector<EventIndex>> open_;
  std::map<std::pair<StringId, std::int64_t>, std::vector<EventIndex>> open_async_;
};

}  // namespace spscope::trace
