// SPDX-License-Identifier: Apache-2.0
// What one configuration takes at one length: compiled by the pipeline itself, so that its bytes are those of
// `spscope compile`; and whether that fits a device.
//
// ZeRO 2 is the program of ZeRO 1: that one keeps gradients as blocks, too. ZeRO 3 is modelled from it: of every parameter a
// rank keeps its share, and gathers whole layers when they are used. How many at a time is an interval: from the largest
// layer to two of them, embedding and head. At the bad end a bucket of gradients is there besides, as DeepSpeed has it: 5e8 elements
// in the parameters' type and, where 16-bit ones are summed in float32, 8 bytes more for each.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/session/compile_shared.h"
#include "core/session/plan/configuration.h"
#include "core/session/plan/device_profile.h"
#include "core/session/plan/step_time.h"
#include "passes/memory/allocation_trace.h"

namespace spscope::session {

struct Footprint {
  std::int64_t seq = 0;
  /// Predicted peak of one rank's step; equal where the program was compiled, an interval where something is modelled.
  std::int64_t peak_low = 0, peak_high = 0;
  passes::ClassBytes classes{};       ///< at the peak, of the compiled program: they sum to its peak
  std::int64_t compiled_peak = 0;     ///< as `spscope compile` says it, of the program that was compiled
  std::optional<passes::ReplayFigures> reserved;  ///< of the compiled program on a cuda device; peak_high has what `least` is beyond the peak
  /// What no length goes below (parameters, optimizer); 0 where what is modelled takes some of it away with the length.
  std::int64_t floor = 0;
  std::string peak_node, peak_source;
  std::vector<std::int64_t> live;     ///< bytes at each place of the program, what is modelled included (its high end)
  std::int64_t comm_bytes = 0;        ///< sent by one rank in one step
  StepTime time;                      ///< of a step
  HostBytes host;                     ///< pinned memory of the host for one rank
  std::int64_t gathers = 0;           ///< values that could not stay sharded
  std::vector<std::string> modelled;  ///< what the pipeline cannot compile yet, and was computed from a term
};

/// Bytes that the predicted peak may take, and those of the host for one rank.
struct Room {
  double sure = 0;      ///< up to here it fits
  double hopeful = 0;   ///< above it does not
  double host_sure = kUnknown, host_hopeful = kUnknown;  ///< a rank's part of its node's memory; infinite: the profile does not say it
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
};
/// capacity * (1 - headroom) - memory outside - buffers of the configuration's communicators, at the bad and at the good
/// end of the intervals. `ranks_per_node`: of the configuration, they share the host's memory, and the capacity where the profile
/// says so.
Room roomOn(const DeviceProfile& profile, const Configuration& configuration, int ranks_per_node, double headroom);

enum class Verdict : std::uint8_t { kFits, kUncertain, kDoesNotFit };
std::string_view verdictName(Verdict verdict);  ///< "fits", "uncertain", "does-not-fit"
/// Of the device, of the host, of both: the worse of the two.
Verdict deviceVerdict(const Footprint& footprint, const Room& room);
Verdict hostVerdict(const Footprint& footprint, const Room& room);
Verdict verdictOf(const Footprint& footprint, const Room& room);

/// Opened models by length and batch. Any thread.
class ModelShelf {
 public:
  ModelShelf(OpenRequest open, const Request& request) : open_(std::move(open)), request_(request) {}
  /// `keep`: others will ask for it, too.
  Result<std::shared_ptr<const Model>> get(std::int64_t seq, std::int64_t batch, bool keep, DiagnosticSink& diagnostics);

 private:
  OpenRequest open_;
  const Request& request_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::shared_ptr<const Model>> kept_;
};

/// Of the trainable parameters, in bytes of one rank.
struct ParameterBytes {
  std::int64_t all = 0;
  std::int64_t largest_layer = 0;   ///< a layer is what shares a name up to its first number: "model.layers.3"
  std::int64_t outside_layers = 0;  ///< embedding, head, final norm
  std::int64_t reduce_bucket = 0;   ///< gradients on their way to those who keep them, at most
};

/// Compiles configurations with one head (Configuration::sameHead). One thread.
class Surveyor {
 public:
  /// `base`: whatever a configuration does not say. All references outlive the surveyor.
  Surveyor(ModelShelf& shelf, const DeviceProfile& profile, int gpus_per_node, const passes::Settings& base, const Request& request, bool expandable_segments = false)
      : shelf_(shelf), profile_(profile), gpus_per_node_(gpus_per_node), base_(base), request_(request), expandable_segments_(expandable_segments) {}

  /// `keep`: other configurations will be asked for at this length. Errors: those of open and compile; nothing-sharded.
  Result<Footprint> at(const Configuration& configuration, std::int64_t seq, bool keep);
  int compiles() const { return compiles_; }
  const DiagnosticSink& diagnostics() const { return diagnostics_; }

 private:
  /// A program of the pipeline, with what the models of what it cannot compile start from.
  struct Program {
    Footprint footprint;
    passes::MemoryCurve memory;
    passes::Settings settings;
    std::shared_ptr<const ir::Graph> graph;
  };
  /// `unmoved`: with collectives as fuse-collectives leaves them. Overlapping takes whatever there is below the peak; where a model
  /// lowers the peak, there is less.
  Result<std::shared_ptr<const Program>> compiled(const Configuration& configuration, std::int64_t seq, bool keep, bool unmoved = false);
  ModelShelf& shelf_;
  const DeviceProfile& profile_;
  int gpus_per_node_;
  const passes::Settings& base_;
  const Request& request_;
  bool expandable_segments_;  ///< how the allocator of a cuda device is set
  passes::SharedStages stages_;
  std::map<std::string, std::shared_ptr<const Program>> known_;  ///< at lengths that were to be kept
  /// The last others: rows that differ in what is modelled only come one after the other, and often end at the same length.
  std::deque<std::pair<std::string, std::shared_ptr<const Program>>> recent_;
  DiagnosticSink diagnostics_;
  int compiles_ = 0;
};

/// The settings of a configuration that the pipeline can compile (zero at most 1).
passes::Settings settingsOf(const Configuration& configuration, const passes::Settings& base, std::int64_t seq);

}  // namespace spscope::session
