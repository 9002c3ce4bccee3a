// SPDX-License-Identifier: Apache-2.0
// A trace in memory: what ran, on which rank and track, when, from which node of the graph, moving or holding which
// bytes. Readers and the recorder fill it, analyses and exports read it. Plain data in columns; no behaviour beyond
// appending.
//
// Times are int64 nanoseconds since the epoch of the run's common clock (Rank::clock says what was added to get there).
// A number that is not known is kUnknown, never 0.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/problems.h"
#include "profiler/trace/string_pool.h"

namespace spscope::trace {

inline constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int32_t kNoIndex = -1;

/// Index into Events, Trace::tracks and so on; kNoIndex: none.
using EventIndex = std::int32_t;
using TrackIndex = std::int32_t;
using NodeIndex = std::int32_t;

enum class Category : std::uint8_t {
  kOperator,    ///< an op on the host: a node that our executor ran, or a cpu_op of PyTorch
  kRange,       ///< a named range on the host: NVTX, user annotation, step, phase, module
  kDeviceRange, ///< the same, projected to the device
  kPython,      ///< a Python frame
  kRuntime,     ///< a call of the CUDA runtime or driver
  kSynchronize, ///< a wait of the host for the device, or of a stream for an event
  kKernel,      ///< a kernel on a device; communication kernels too (see Trace::collectives)
  kMemcpy,
  kMemset,
  kCollective,  ///< a collective of a host backend (Gloo, virtual): from start to the end of its wait
  kWait,        ///< the host is blocked in the wait of a collective
  kOverhead,    ///< of the profiler
  kInstant,     ///< a mark; end == start
  kOther,       ///< kept and shown, not counted by any analysis
};
inline constexpr int kCategories = static_cast<int>(Category::kOther) + 1;
/// "operator", "kernel", ...
std::string_view nameOf(Category category);
/// Kernels, copies, sets: what keeps a device busy.
inline bool isDeviceWork(Category c) { return c == Category::kKernel || c == Category::kMemcpy || c == Category::kMemset; }

enum class Phase : std::uint8_t { kUnknownPhase, kForward, kBackward, kRecompute, kOptimizer };
std::string_view nameOf(Phase phase);

/// Event flags.
inline constexpr std::uint8_t kRepaired = 1;   ///< a reader mended it (see Trace::problems)
inline constexpr std::uint8_t kOpenEnded = 2;  ///< its end was not recorded: the trace's last time stands for it
inline constexpr std::uint8_t kImpossible = 4; ///< duration that cannot be (runs into the next of its stream)
inline constexpr std::uint8_t kEarly = 8;      ///< starts before Rank::first_ns: the capture may lack others like it

/// One event a row. 58 bytes in all.
struct Events {
  std::vector<std::int64_t> start, end;      ///< ns; end >= start
  std::vector<std::int64_t> correlation;     ///< launch call <-> device work, per rank; 0: none
  std::vector<std::int64_t> external;        ///< op <-> device work (Kineto's External id; ours: node + 1); 0: none
  std::vector<std::int64_t> bytes;           ///< moved (copies, collectives); kUnknown
  std::vector<StringId> name;
  std::vector<TrackIndex> track;
  std::vector<NodeIndex> node;               ///< index into Trace::nodes
  std::vector<std::int32_t> detail;          ///< kernels: Trace::launches; copies and sets: Trace::copies
  std::vector<Category> category;
  std::vector<std::uint8_t> flags;

  std::size_t size() const { return start.size(); }
  void reserve(std::size_t count);
  bool operator==(const Events&) const = default;
};

/// One event, as it is appended.
struct Event {
  std::int64_t start = 0, end = 0;
  std::int64_t correlation = 0, external = 0;
  std::int64_t bytes = kUnknown;
  StringId name = 0;
  TrackIndex track = 0;
  NodeIndex node = kNoIndex;
  std::int32_t detail = kNoIndex;
  Category category = Category::kOther;
  std::uint8_t flags = 0;
  bool operator==(const Event&) const = default;
};

enum class TrackKind : std::uint8_t { kThread, kStream, kOther };
/// A thread of a rank's process, or a stream of a device. Events of one track may overlap.
struct Track {
  std::int32_t rank = 0;  ///< index into Trace::ranks
  TrackKind kind = TrackKind::kThread;
  StringId name = 0;
  std::int64_t pid = kUnknown, tid = kUnknown;
  std::int64_t device = kUnknown, context = kUnknown, stream = kUnknown;
  bool operator==(const Track&) const = default;
};

/// How a rank's own clock became the common one: common = own + offset + drift_ppb * 1e-9 * (own - reference).
struct Clock {
  std::string method = "none";  ///< "none", "same-clock", "start-barrier", "collective-ends"
  std::int64_t offset_ns = 0, reference_ns = 0;
  double drift_ppb = 0;
  std::int64_t residual_ns = kUnknown;  ///< largest disagreement of an anchor that remains
  bool operator==(const Clock&) const = default;
};

struct Rank {
  std::int64_t number = kUnknown;  ///< as the file says
  std::int64_t world = kUnknown;
  std::string file{}, host{}, backend{};
  std::int64_t pid = kUnknown;
  std::int64_t base_ns = 0;       ///< what the reader added to the file's times (Kineto's baseTimeNanoseconds)
  bool fractional_us = false;     ///< Kineto: times had decimals (Holistic Trace Analysis rounds those)
  std::int64_t first_ns = kUnknown, last_ns = kUnknown;  ///< of what was recorded, where the file says
  std::int64_t barrier_ns = kUnknown;  ///< this rank left the start barrier, on its own clock
  std::int64_t dropped = 0;       ///< events that the recorder had to drop
  Clock clock{};
  bool operator==(const Rank&) const = default;
};

/// Launch parameters of a kernel.
struct Launch {
  std::array<std::int32_t, 3> grid{}, block{};
  std::int32_t registers = -1, static_shared = -1, dynamic_shared = -1;  ///< per thread; bytes; -1: unknown
  std::int32_t graph_node = 0;                                           ///< CUDA graph; 0: none
  std::int32_t shared = -1;  ///< static + dynamic, where the file gives only their sum
  bool operator==(const Launch&) const = default;
};
/// As Nsight's ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND number them.
struct Copy {
  std::uint8_t copy_kind = 0, source_kind = 7, target_kind = 7;
  std::int64_t value = kUnknown;  ///< memset only
  bool operator==(const Copy&) const = default;
};

/// One rank's part in one collective. The same collective on other ranks: equal group and sequence number.
struct Collective {
  StringId kind = 0;                 ///< "all_to_all", "all_gather", "all_reduce", "reduce_scatter", "broadcast", ...
  StringId group = 0;                ///< name of the process group
  std::int64_t sequence = kUnknown;  ///< within the group
  bool sequence_by_order = false;    ///< the file gives none: counted in the order of its collectives of this group
  std::int64_t bytes = kUnknown;     ///< sent by this rank
  std::int64_t group_size = kUnknown;
  bool group_size_at_least = false;  ///< the file cut its list of ranks short
  std::int32_t rank = 0;             ///< index into Trace::ranks
  EventIndex event = kNoIndex;       ///< kCollective (host backend), or the kKernel that carries it
  EventIndex wait = kNoIndex;        ///< the kWait event, where it is known apart
  bool operator==(const Collective&) const = default;
};

/// An allocation (bytes > 0) or a free (bytes < 0).
struct MemoryEvent {
  std::int64_t time = 0;
  std::int64_t bytes = 0;
  std::int64_t address = kUnknown;
  std::int64_t live = kUnknown, reserved = kUnknown;  ///< of this pool after it, where the file says
  NodeIndex node = kNoIndex;                          ///< that made the allocation (a free: that had made it)
  std::int32_t rank = 0;
  std::int32_t device = -1;                           ///< -1: host memory
  StringId memory_class = 0;                          ///< "parameters", "gradients", ... or empty
  bool operator==(const MemoryEvent&) const = default;
};

struct CounterSample {
  std::int64_t time = 0;
  double value = 0;
  StringId name = 0;
  std::int32_t rank = 0;
  bool operator==(const CounterSample&) const = default;
};

/// A node of the graph that ran.
struct GraphNode {
  std::int64_t id = kUnknown;  ///< ir::NodeId
  StringId name = 0, op = 0, module = 0, source = 0, stage = 0;  ///< stage: the pass that made it
  Phase phase = Phase::kUnknownPhase;
  std::int64_t flops = kUnknown, predicted_ns = kUnknown;
  bool operator==(const GraphNode&) const = default;
};

/// An arrow between two events that no correlation id gives (forward -> backward, ...).
struct Flow {
  EventIndex from = kNoIndex, to = kNoIndex;
  StringId kind = 0;
  bool operator==(const Flow&) const = default;
};

struct Trace {
  std::string format;   ///< "spscope", "kineto", "nsys 3.25.0", ...
  StringPool strings;
  std::vector<Rank> ranks;
  std::vector<Track> tracks;
  Events events;        ///< in no order; see eventsByStart
  std::vector<Launch> launches;
  std::vector<Copy> copies;
  std::vector<Collective> collectives;
  std::vector<MemoryEvent> memory;
  std::vector<CounterSample> counters;
  std::vector<GraphNode> nodes;
  std::vector<Flow> flows;
  /// Settings and predictions of the plan that ran ("model", "plan_hash", "save", "predicted_peak.0", ...), device
  /// properties of foreign traces; shown, exported and kept by all formats that can.
  std::map<std::string, std::string> properties;
  Problems problems;

  EventIndex add(const Event& event);
  Event event(EventIndex index) const;
  /// The track with these numbers, made when it is not there.
  TrackIndex thread(std::int32_t rank, std::int64_t pid, std::int64_t tid);
  TrackIndex stream(std::int32_t rank, std::int64_t device, std::int64_t context, std::int64_t stream);

 private:
  std::map<std::array<std::int64_t, 5>, TrackIndex> track_ids_;
};

/// Event indices by start; equal starts: longer first (so that a parent comes before its children). O(n log n).
std::vector<EventIndex> eventsByStart(const Trace& trace);

}  // namespace spscope::trace
