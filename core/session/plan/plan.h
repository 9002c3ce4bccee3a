// SPDX-License-Identifier: Apache-2.0
// The plan request: which configurations of a model fit a device, how long each can go, and what to change to go further.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/session/plan/longest.h"

namespace spscope::session {

enum class PlanWant : std::uint8_t {
  kMaxSeq,  ///< the longest length of every configuration
  kFits,    ///< whether one fits at the model's length
  kTable,   ///< what every one takes at the model's length
};

struct PlanRequest {
  OpenRequest open;            ///< `seq`: for kFits and kTable, and where the search for the longest begins; 0: the file's
  DeviceProfile profile;
  ConfigurationSpace space;
  PlanWant want = PlanWant::kMaxSeq;
  bool rivals = false;         ///< instead of all combinations: those of rivals()
  bool expandable_segments = false;  ///< PyTorch's allocator as PYTORCH_ALLOC_CONF=expandable_segments:True sets it (cuda devices)
  bool grid = false;           ///< every row at doubling lengths, too
  double headroom = 0.03;      ///< share of the capacity that is left alone
  std::int64_t step = 0;       ///< lengths are multiples of it and of sp; 0: 1024, or 16 where the file is shorter than that
  std::int64_t most = std::int64_t{1} << 24;  ///< longest length that is looked at
  passes::Settings settings;   ///< what a configuration does not say; threads 0: cores / ranks
  int threads = 0;             ///< that plan; 0: as many as cores
};

/// A row at another length.
struct PlanPoint {
  std::int64_t seq = 0, peak_low = 0, peak_high = 0;
  Verdict verdict = Verdict::kDoesNotFit;
  StepTime time;
};

struct PlanRow {
  Configuration configuration;
  std::optional<Error> illegal;      ///< why it cannot be; nothing else is filled in then
  Verdict verdict = Verdict::kDoesNotFit;  ///< at footprint.seq
  std::int64_t max_seq = 0;          ///< kMaxSeq: the longest that surely fits; 0: none does
  std::int64_t possible_seq = 0;     ///< kMaxSeq: the longest that may, from the fit
  std::optional<Error> limit;        ///< what ends max_seq where memory does not
  Footprint footprint;               ///< at max_seq (at the first length that was tried where it is 0), or at the model's
  bool host_ends = false;            ///< kMaxSeq: one step longer, only the host's memory is too small
  std::int64_t next_peak = 0;        ///< kMaxSeq: one step longer, what does not fit any more; 0: not known
  bool next_compiled = false;        ///< next_peak; false: from the fit
  double need_low = 0, need_high = 0;///< peak, memory outside and communication buffers
  Room room;
  double work_per_token = 0;         ///< ns of all ranks together at one common length, to compare rows; the middle of Footprint::time
  std::vector<PlanPoint> grid;       ///< with PlanRequest::grid: from the first length to the first that does not fit
  PeakFit fit;
};

/// Another row that differs in one setting, seen from a row.
struct PlanLever {
  std::size_t row = 0;
  std::string change;                ///< "zero 0 -> zero 1"
  std::int64_t bytes_freed = 0;      ///< per rank, at the length of the row that it is seen from
  std::int64_t host_bytes_more = 0;  ///< the same of the host's memory: what is taken there in addition
  bool fitted = false;               ///< ... from the fit, not from a compile at that length
  std::int64_t more_tokens = 0;      ///< kMaxSeq
  double work_ratio = 1;             ///< of the work per token
  double seconds_more = 0;           ///< of a step of the row that it is seen from: what as many tokens would take longer (negative: shorter)
};

struct PlanOutcome {
  std::vector<PlanRow> rows;         ///< legal ones first, the best first
  std::vector<std::size_t> pareto;   ///< rows that no other beats in length (or memory) and work at once
  std::int64_t file_seq = 0, file_batch = 0;
  bool has_sequence = true;    ///< false: the file's own size was planned, whatever was wanted
  std::int64_t compiles = 0;
  std::int64_t ns = 0;
};

/// Compiles in parallel over configurations that have a head in common. Errors: those of opening the model, plan-empty (no
/// configuration is legal, with the first reason), cancelled.
Result<PlanOutcome> plan(const PlanRequest& what, const Request& request);

/// "fits", "does not fit", "uncertain"; with ": the host" where it is the host's memory that lacks, or may.
std::string verdictText(const PlanRow& row);

/// Changes of one setting (the mesh counts as one) that allow more tokens, or free memory of the kind that lacks (of the device, where
/// none does), the cheapest in time first, each once.
std::vector<PlanLever> leversOf(const PlanOutcome& outcome, std::size_t row, PlanWant want);

}  // namespace spscope::session
