// SPDX-License-Identifier: Apache-2.0
#include "core/session/profile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "passes/memory/liveness.h"
#include "passes/memory/op_cost.h"
#include "profiler/record/device_source.h"
#include "profiler/record/host_recorder.h"
#include "profiler/record/spool_reader.h"
#include "profiler/store/store.h"

namespace spscope::session {
namespace {

namespace fs = std::filesystem;

std::string spoolFile(const ProfileRequest& what, int rank) { return what.spools + "/rank" + std::to_string(rank); }

Error usage(std::string message, std::string legal) {
  Error error = makeError("usage", std::move(message), Outcome::kUsage);
  error.legal = std::move(legal);
  return error;
}

trace::Phase phaseOf(ir::Phase phase) {
  switch (phase) {
    case ir::Phase::kForward: return trace::Phase::kForward;
    case ir::Phase::kBackward: return trace::Phase::kBackward;
    case ir::Phase::kRecompute: return trace::Phase::kRecompute;
  }
  return trace::Phase::kUnknownPhase;
}

/// What is left behind when the node has run. Classes as the prediction names them, so that both can be compared.
std::vector<std::string_view> memoryClassOfNodes(const ir::Graph& graph) {
  using passes::MemoryClass;
  std::vector<MemoryClass> of(graph.nodeCount(), MemoryClass::kTemporaries);
  const auto set = [&](ir::ValueId value, MemoryClass c) {
    const ir::Value& v = graph.value(value);
    const ir::ValueId owner = v.storage == ir::kNone ? value : v.storage;
    if (const ir::NodeId producer = graph.value(owner).producer; producer != ir::kNone) of[static_cast<std::size_t>(producer)] = c;
  };
  for (const ir::NodeId id : graph.order)
    if (ir::isCollective(graph.node(id).op)) of[static_cast<std::size_t>(id)] = MemoryClass::kCommunication;
  for (const ir::NodeId id : graph.order)
    for (const ir::ValueId value : graph.node(id).outputs)
      if (value != ir::kNone && graph.value(value).keep == ir::Keep::kSaved) set(value, MemoryClass::kActivations);
  for (const ir::Output& output : graph.outputs)
    if (output.kind == ir::OutputKind::kGradient) set(output.value, MemoryClass::kGradients);
  std::vector<std::string_view> names;
  for (const MemoryClass c : of) names.push_back(passes::memoryClassName(c));
  return names;
}

std::vector<trace::RecordedNode> nodeTable(const ir::Graph& graph, const passes::Settings& settings) {
  const passes::DeviceRates rates = passes::ratesOf(settings);
  const auto classes = memoryClassOfNodes(graph);
  std::vector<trace::RecordedNode> out;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    const passes::OpCost cost = passes::costOf(graph, node, rates);
    trace::RecordedNode n;
    n.id = id;
    n.name = "%" + node.name;
    n.op = node.op.str();
    if (node.location) n.module = node.location->module_path, n.source = node.location->source;
    n.stage = node.provenance.pass.str();
    n.memory_class = classes[static_cast<std::size_t>(id)];
    n.phase = phaseOf(node.phase);
    n.flops = cost.flops;
    n.predicted_ns = cost.ns;
    out.push_back(std::move(n));
  }
  return out;
}

}  // namespace

const char* phaseName(ir::Phase phase) {
  static constexpr const char* kNames[] = {"forward", "backward", "recompute"};
  return kNames[static_cast<int>(phase)];
}

bool ProfileRequest::of(int rank) const {
  return !file.empty() && (ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end());
}

Status parseProfileSteps(const std::string& text, ProfileRequest& out) {
  const auto colon = text.find(':');
  std::int64_t first = 0, last = 0;
  const bool single = colon == std::string::npos;
  if (!readNumber<std::int64_t>(single ? std::string_view(text) : std::string_view(text).substr(0, colon), first, 0) ||
      (!single && !readNumber<std::int64_t>(std::string_view(text).substr(colon + 1), last, 0)))
    return usage("--profile-steps " + text + " names no steps", "A:B with 0 <= A < B: the steps from A to before B, counted from 0");
  if (single) last = first + 1;
  if (last <= first) return usage("--profile-steps " + text + " is empty", "A:B with A < B");
  out.first = first;
  out.last = last;
  return {};
}

Status parseProfileRanks(const std::string& text, int world, ProfileRequest& out) {
  const std::string legal = strf("numbers below %d and ranges of them, as in 0,2-3", world);
  out.ranks.clear();
  for (const std::string& part : split(text, ',')) {
    const auto dash = part.find('-');
    std::int64_t first = 0, last = 0;
    const std::string_view all = part;
    if (!readNumber<std::int64_t>(all.substr(0, dash), first, 0) || (dash != std::string::npos && !readNumber<std::int64_t>(all.substr(dash + 1), last, 0)))
      return usage("--profile-ranks " + text + " names no ranks", legal);
    if (dash == std::string::npos) last = first;
    if (last < first || last >= world) return usage("--profile-ranks " + text + ": there is no such rank", legal);
    for (std::int64_t r = first; r <= last; ++r) out.ranks.push_back(static_cast<int>(r));
  }
  return {};
}

/// Hears the executor, writes to the spool, names what runs for CUPTI.
struct RankProfile::Impl final : exec::ExecutionObserver {
  ProfileRequest what;
  std::unique_ptr<trace::HostRecorder> recorder;
  std::unique_ptr<trace::DeviceSource> device;
  std::map<std::pair<std::string_view, std::string_view>, std::uint16_t> groups;  ///< by group and kind; the names are static
  /// Bytes by the node that made them: id + 1, so that 0 stands for memory of no node. All of it made before the first step: small
  /// blocks allocated among the tensors make glibc give pages back and fault them in again, thousands a step.
  std::vector<std::int64_t> held;
  std::array<std::uint16_t, 3> phase_names{};  ///< 0: not named yet
  std::int64_t resident_bytes = 0, live = 0;
  std::int64_t node_begin = 0, step_begin = 0, phase_begin = 0;
  ir::Phase phase = ir::Phase::kForward;
  bool in_phase = false;

  std::uint16_t group(std::string_view name, std::string_view kind) {
    const auto [it, fresh] = groups.try_emplace({name, kind}, 0);
    if (fresh) it->second = recorder->name(std::string(name) + ":" + std::string(kind));
    return it->second;
  }
  /// Gradients outlive the step; the optimizer uses them up outside of the program, where nobody tells of frees.
  void releaseHeld(std::int64_t ns) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held[i] == 0) continue;
      recorder->allocation(static_cast<std::int32_t>(i) - 1, ns, -held[i], resident_bytes + (live -= held[i]));
      held[i] = 0;
    }
    live = 0;
  }
  void endPhase(std::int64_t ns) {
    if (!in_phase) return;
    in_phase = false;
    std::uint16_t& name = phase_names[static_cast<std::size_t>(phase)];
    if (name == 0) name = recorder->name(phaseName(phase));
    recorder->range(name, phase_begin, ns);
  }

  void stepBegin(int, std::int64_t, std::int64_t ns) override {
    releaseHeld(ns);
    step_begin = ns;
  }
  void stepEnd(int, std::int64_t step, std::int64_t ns) override {
    endPhase(ns);
    recorder->range(recorder->name("step " + std::to_string(step)), step_begin, ns);
    if (device) device->flush();
  }
  bool nodeBegin(int, const ir::Node& node, std::int64_t ns) override {
    if (!in_phase || node.phase != phase) {
      endPhase(ns);
      in_phase = true;
      phase = node.phase;
      phase_begin = ns;
    }
    node_begin = ns;
    if (device) device->push(node.id);
    return true;
  }
  void nodeEnd(int, const ir::Node& node, std::int64_t ns) override {
    if (device) device->pop();
    recorder->node(node.id, node_begin, ns);
  }
  void onCollectiveWait(const exec::CollectiveEvent& e, const exec::CollectiveSpan& t) override {
    const std::uint16_t g = group(e.group, e.kind);
    // Backends that do everything in the wait (virtual ranks) know no other times.
    const std::int64_t begin = t.begin_ns != 0 ? t.begin_ns : t.wait_begin_ns, end = t.end_ns != 0 ? t.end_ns : t.wait_end_ns;
    recorder->collective(e.node->id, begin, end, e.bytes, e.sequence, g);
    recorder->wait(e.node->id, t.wait_begin_ns, t.wait_end_ns, e.sequence, g);
  }
  void allocation(int, const ir::Node* node, std::int64_t bytes, std::int64_t live_bytes, std::int64_t ns) override {
    const std::int32_t id = node != nullptr ? node->id : -1;
    held[static_cast<std::size_t>(id + 1)] += bytes;
    live = live_bytes;
    recorder->allocation(id, ns, bytes, resident_bytes + live_bytes);
  }
};

namespace {

/// The groups that this rank's collectives are named by, and how many ranks each has.
std::map<std::string, int> groupsOf(const passes::Settings& settings, int rank) {
  const ir::Mesh mesh{{{"dp", settings.dp}, {"sp", settings.sp}}};
  std::map<std::string, int> out;
  for (const ir::MeshAxis axis : {ir::MeshAxis::kSequence, ir::MeshAxis::kData, ir::MeshAxis::kAll}) {
    const int size = ir::axisSize(mesh, axis);
    if (axis == ir::MeshAxis::kSequence || size > 1) out[ir::groupName(mesh, rank, axis)] = size;
  }
  return out;
}

}  // namespace

RankProfile::RankProfile() = default;
RankProfile::~RankProfile() = default;

Result<std::unique_ptr<RankProfile>> RankProfile::start(const ProfileRequest& what, int rank, int world, const std::string& backend,
                                                        const ir::Graph& graph, const passes::Settings& settings, DiagnosticSink* diagnostics) {
  std::unique_ptr<RankProfile> out(new RankProfile());
  out->impl_ = std::make_unique<Impl>();
  Impl& impl = *out->impl_;
  impl.what = what;
  impl.held.assign(graph.nodeCount() + 1, 0);
  std::error_code ignored;
  fs::create_directory(what.spools, ignored);  // on this host; where it exists, that is fine
  SP_ASSIGN(impl.recorder, trace::HostRecorder::create(spoolFile(what, rank), {.rank = rank, .world = world, .backend = backend, .properties = {}, .groups = groupsOf(settings, rank)},
                                                       nodeTable(graph, settings), what.cap_bytes));
  if (settings.device == "cuda") {
    if (auto device = trace::startDeviceSource(impl.recorder->spool()); device)
      impl.device = std::move(*device);
    else if (diagnostics != nullptr)
      diagnostics->warn(device.error().code, device.error().message);
  }
  return out;
}

exec::ExecutionObserver* RankProfile::observer(std::int64_t step) {
  return step >= impl_->what.first && step < impl_->what.last ? impl_.get() : nullptr;
}

void RankProfile::barrier(std::int64_t ns) { impl_->recorder->barrier(ns); }

void RankProfile::resident(std::int64_t parameter_bytes, std::int64_t optimizer_bytes) {
  const std::int64_t now = monotonicNs();
  for (const auto& [c, bytes] : {std::pair{passes::MemoryClass::kParameters, parameter_bytes}, std::pair{passes::MemoryClass::kOptimizer, optimizer_bytes}}) {
    if (bytes == 0) continue;
    impl_->resident_bytes += bytes;
    impl_->recorder->allocation(-1, now, bytes, impl_->resident_bytes, impl_->recorder->name(passes::memoryClassName(c)));
  }
}

void RankProfile::hostCall(std::int64_t step, const char* name, std::int64_t begin_ns, std::int64_t end_ns) {
  if (observer(step) == nullptr) return;
  impl_->recorder->call(impl_->recorder->name(name), begin_ns, end_ns);
  if (name == kOptimizerCall) impl_->releaseHeld(end_ns);
}

Status RankProfile::finish() {
  if (impl_->device) {
    const trace::DeviceCounts counts = impl_->device->stop();
    impl_->recorder->countDevice(counts.dropped);
  }
  return impl_->recorder->finish();
}

void dropProfile(const ProfileRequest& what) {
  std::error_code ignored;
  if (!what.spools.empty()) fs::remove_all(what.spools, ignored);
}

Status prepareProfile(ProfileRequest& what) {
  std::error_code failed;
  if (fs::is_directory(what.file, failed)) return makeError("file-is-folder", what.file + " is a folder, not a place for a trace");
  // A name of its own: two runs may write the same trace, and nobody's folder is in the way.
  std::string folder = what.file + ".ranks-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr)
    return makeError("file-unwritable", what.file + ": no recording can be kept beside it: " + std::strerror(errno));
  what.spools = folder;
  return {};
}

Result<ProfileSummary> mergeProfile(const ProfileRequest& what, int world, const std::vector<std::pair<std::string, std::string>>& properties,
                                    const Request& request) {
  ProfileSummary out;
  std::vector<std::string> files;
  SP_TRY(request.cancel.check());
  for (int rank = 0; rank < world; ++rank) {
    if (!what.of(rank)) continue;
    std::error_code ignored;
    if (fs::exists(spoolFile(what, rank), ignored))
      files.push_back(spoolFile(what, rank));
    else
      out.missing.push_back(rank);
  }
  if (files.empty()) return makeError("file-unreadable", "no rank left a recording in " + what.spools, Outcome::kRunFailed);
  request.report("write profile", 0, 0);
  SP_ASSIGN(trace::Trace trace, trace::readSpools(files, request.cancel));
  for (const auto& [key, value] : properties) trace.properties[key] = value;
  SP_TRY(trace::writeStore(trace, what.file, {}, request.cancel));
  out.events = static_cast<std::int64_t>(trace.events.size());
  out.ranks = static_cast<std::int64_t>(trace.ranks.size());
  for (const trace::Rank& r : trace.ranks) out.dropped += r.dropped;
  std::error_code ignored;
  fs::remove_all(what.spools, ignored);
  return out;
}

}  // namespace spscope::session
