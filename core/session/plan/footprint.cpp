// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/footprint.h"

#include <algorithm>
#include <thread>

#include "core/base/strings.h"
#include "core/session/plan/position_table.h"
#include "core/session/plan/ring.h"

namespace spscope::session {
namespace {

ParameterBytes parameterBytes(const ir::Graph& graph, bool wide_gradients) {
  constexpr std::int64_t kBucketElements = 500'000'000;
  ParameterBytes out;
  std::int64_t elements = 0;
  std::map<std::string, std::int64_t> layers;
  for (const ir::Input& input : graph.inputs) {
    if (!input.trainable || input.value == ir::kNone) continue;
    const ir::Value& v = graph.value(input.value);
    const std::int64_t bytes = v.localBytes();
    out.all += bytes;
    out.reduce_bucket += bytes + (wide_gradients && ir::sizeOf(v.dtype) < 4 ? 8 * ir::numel(v.local) : 0);
    elements += ir::numel(v.local);
    if (const std::string layer(ir::layerOf(input.name)); layer.empty()) out.outside_layers += bytes;
    else layers[layer] += bytes;
  }
  if (elements > kBucketElements) out.reduce_bucket = out.reduce_bucket / elements * kBucketElements;
  for (const auto& [name, bytes] : layers) out.largest_layer = std::max(out.largest_layer, bytes);
  return out;
}

void modelZero3(Footprint& f, const ParameterBytes& p, int ranks) {
  const std::int64_t freed = p.all - (p.all + ranks - 1) / ranks;
  const std::int64_t low = std::min(p.all, p.largest_layer > 0 ? p.largest_layer : p.outside_layers);
  const std::int64_t high = std::min(p.all, 2 * p.largest_layer + p.outside_layers);
  f.peak_low += low - freed;
  f.peak_high += high + p.reduce_bucket - freed;
  for (std::int64_t& bytes : f.live) bytes += high + p.reduce_bucket - freed;
  f.comm_bytes += freed;  // gathered for the forward and for the backward: once more than with ZeRO 1
  f.modelled.push_back(strf("parameters of zero 3: one part in %d kept, %s to %s gathered at a time, up to %s of gradients in a bucket", ranks, formatBytes(low).c_str(), formatBytes(high).c_str(),
                            formatBytes(p.reduce_bucket).c_str()));
}

/// ZeRO 3 over replicas of a program of one rank, where the file has no batch for them: optimizer and gradients are shared,
/// too. At worst the gradients of a layer and two buckets are there besides.
void modelReplicas(Footprint& f, const ParameterBytes& p, int ranks, std::int64_t bucket_bytes) {
  const auto share = [&](passes::MemoryClass c) {
    const std::int64_t bytes = f.classes[static_cast<std::size_t>(c)];
    return bytes - (bytes + ranks - 1) / ranks;
  };
  const std::int64_t freed = share(passes::MemoryClass::kOptimizer) + share(passes::MemoryClass::kGradients);
  const std::int64_t waiting = std::min(p.all, std::max(p.largest_layer, p.outside_layers) + 2 * bucket_bytes);
  f.peak_low -= freed;
  f.peak_high -= freed - waiting;
  for (std::int64_t& bytes : f.live) bytes -= freed - waiting;
  f.comm_bytes += p.all - p.all / ranks;  // the sums of gradients
  f.modelled.push_back(strf("%d replicas: the program of one rank, its gradients and optimizer in shares, up to %s of gradients not summed yet", ranks, formatBytes(waiting).c_str()));
}

std::string tiledMlpText(const TiledMlps& t) {
  if (t.tiles < 2) return strf("tiled MLPs: %d of them, a rank's tokens are one tile", t.mlps);
  return strf("tiled MLPs: %d of them in %lld tiles of %lld tokens, %s inside of one instead of %s", t.mlps, static_cast<long long>(t.tiles), static_cast<long long>(t.tile_rows),
              formatBytes(t.inside_tiled).c_str(), formatBytes(t.inside).c_str());
}

/// The update begins where the program ends.
void moveOptimizer(Footprint& f, const OptimizerOnHost& moved) {
  for (std::int64_t& bytes : f.live) bytes -= moved.states;
  f.peak_low -= moved.states;
  f.peak_high -= moved.states;
  if (!f.live.empty()) f.peak_high = std::max(f.peak_high, f.live.back() += moved.passing);
  f.host.add(moved.host);
  f.modelled.push_back(strf("optimizer on the host: %s of moments and masters per rank, up to %s of them on the device during the update", formatBytes(moved.states).c_str(),
                            formatBytes(moved.passing).c_str()));
}

}  // namespace

Room roomOn(const DeviceProfile& profile, const Configuration& c, int ranks_per_node, double headroom) {
  const double share = profile.shared ? std::max(1, ranks_per_node) : 1;
  // docs/meshes.md, "Groups": one of all ranks; where both axes have several, one per row and column, too.
  const double groups = c.ranks() == 1 ? 0 : c.sp > 1 && c.dp > 1 ? 3 : 1;
  const double exchanges = c.sp > 1 ? 1 : 0;
  Room out;
  out.sure = profile.capacity.low / share * (1 - headroom) - profile.outside.high - groups * profile.per_group.high - exchanges * profile.all_to_all.high;
  out.hopeful = profile.capacity.high / share * (1 - headroom) - profile.outside.low - groups * profile.per_group.low - exchanges * profile.all_to_all.low;
  if (!profile.host.source.empty()) {
    out.host_sure = profile.host.low / std::max(1, ranks_per_node);
    out.host_hopeful = profile.host.high / std::max(1, ranks_per_node);
  }
  return out;
}

std::string_view verdictName(Verdict verdict) {
  return verdict == Verdict::kFits ? "fits" : verdict == Verdict::kUncertain ? "uncertain" : "does-not-fit";
}

Verdict deviceVerdict(const Footprint& f, const Room& room) {
  if (static_cast<double>(f.peak_high) <= room.sure) return Verdict::kFits;
  return static_cast<double>(f.peak_low) > room.hopeful ? Verdict::kDoesNotFit : Verdict::kUncertain;
}

Verdict hostVerdict(const Footprint& f, const Room& room) {
  if (static_cast<double>(f.host.high) <= room.host_sure) return Verdict::kFits;
  return static_cast<double>(f.host.low) > room.host_hopeful ? Verdict::kDoesNotFit : Verdict::kUncertain;
}

Verdict verdictOf(const Footprint& f, const Room& room) { return std::max(deviceVerdict(f, room), hostVerdict(f, room)); }

Result<std::shared_ptr<const Model>> ModelShelf::get(std::int64_t seq, std::int64_t batch, bool keep, DiagnosticSink& diagnostics) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find({seq, batch}); found != kept_.end()) return found->second;
  }
  OpenRequest what = open_;
  what.seq = seq;
  what.batch = seq > 0 ? batch : 0;  // without a known sequence nobody knows what the batch is
  Request request;
  request.cancel = request_.cancel;
  DiagnosticSink said;
  request.diagnostics = &said;
  SP_ASSIGN(std::shared_ptr<const Model> model, open(what, request));
  for (const Diagnostic& d : said.all()) {
    // Whoever runs it meets the end of the table; here it is where the model ends.
    if (d.code == "position-table-short") {
      Error e = makeError(d.code, d.message);
      e.node = d.node;
      e.source = d.source;
      return e;
    }
    diagnostics.warn(d.code, d.message, d.node, d.source, d.remedy);
  }
  if (const auto ends = shortPositionTable(*model->graph)) return *ends;
  const std::lock_guard lock(mutex_);
  if (keep) kept_[{seq, batch}] = model;
  return model;
}

passes::Settings settingsOf(const Configuration& c, const passes::Settings& base, std::int64_t seq) {
  passes::Settings out = base;
  out.sp = c.sp;
  out.dp = c.dp;
  out.zero = std::min(c.zero, 1);
  out.save = c.save;
  out.tile_loss = c.tile_loss;
  out.batch = seq > 0 ? c.batch : 0;
  out.seq = seq;
  if (out.threads <= 0) out.threads = std::max(1, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) / out.ranks());
  return out;
}

Result<Footprint> Surveyor::at(const Configuration& c, std::int64_t seq, bool keep) {
  Configuration part = c.compiledPart();
  StepExtras extras;
  Result<std::shared_ptr<const Program>> compiled_part = compiled(part, seq, keep);
  if (!compiled_part && compiled_part.error().code == "batch-static" && c.zero == 3 && c.sp == 1 && c.dp > 1) {
    part.zero = 0;
    part.dp = 1;
    part.batch = c.batch / c.dp;
    extras.replicas = c.dp;
    compiled_part = compiled(part, seq, keep);
  }
  if (!compiled_part) return compiled_part.error();
  const std::shared_ptr<const Program> program = std::move(*compiled_part);
  Footprint out = program->footprint;
  std::shared_ptr<const Program> held = program;  // whose memory it is
  if ((c.tile_mlp || c.offload.checkpoints) && program->settings.communication == "overlap") {
    SP_ASSIGN(held, compiled(part, seq, keep, true));
    out.peak_low = out.peak_high = held->memory.peak;
    out.live = held->memory.live;
  }
  if (extras.replicas > 1) modelReplicas(out, parameterBytes(*program->graph, program->settings.wide_gradients), c.dp, program->settings.bucket_bytes);
  extras.gpus_per_node = gpus_per_node_;
  if (c.ring) {
    RingMemory ring = modelRing(*held->graph, held->memory);
    out.peak_low = ring.peak_low;
    out.peak_high = ring.peak_high;
    out.live = std::move(ring.live);
    extras.ring = true;
    out.modelled.push_back(strf("ring attention: from the program with exchanges, without their buffers at best, with up to %s for the blocks that go round", formatBytes(ring.most).c_str()));
  }
  if (c.tile_mlp) {
    const std::int64_t whole = out.peak_high;
    const TiledMlps tiled = tileMlps(*held->graph, out.live);
    std::vector<std::int64_t> unused = program->memory.live;
    extras.tiled = held == program ? tiled : tileMlps(*program->graph, unused);
    if (tiled.mlps == 0) {
      Error e = makeError("plan-illegal", "tiled MLPs: no MLP was found: products that make rows wider, elementwise ops, one product back");
      e.legal = "no --tile-mlp";
      return e;
    }
    if (!out.live.empty()) out.peak_high = *std::max_element(out.live.begin(), out.live.end());
    out.peak_low -= whole - out.peak_high;
    for (std::size_t i = 0; i < out.live.size() && i < tiled.joined.size(); ++i) out.live[i] += tiled.joined[i];  // at worst
    if (!out.live.empty()) out.peak_high = *std::max_element(out.live.begin(), out.live.end());
    out.modelled.push_back(tiledMlpText(tiled) + (out.peak_high == whole ? "; the peak is the same" : "; the peak without it: " + formatBytes(whole)) + "; at worst what comes out is there twice at the end, when its tiles are joined");
  }
  if (c.offload.checkpoints) {
    const std::vector<Checkpoint> checkpoints = findCheckpoints(*held->graph);
    extras.offloaded = held == program ? checkpoints : findCheckpoints(*program->graph);
    const std::int64_t unmoved = out.peak_high;
    out.host = moveToHost(checkpoints, out.live);
    if (!out.live.empty()) out.peak_high = *std::max_element(out.live.begin(), out.live.end());
    out.peak_low -= unmoved - out.peak_high;
    out.modelled.push_back(strf("offload: checkpoints between layers (%zu), %s on the host; %s", checkpoints.size(), formatBytes(out.host.low).c_str(),
                                out.peak_high == unmoved ? "none of them is in the peak" : ("the peak without it: " + formatBytes(unmoved)).c_str()));
  }
  if (c.offload.optimizer) {
    const OptimizerOnHost moved = optimizerOnHost(*program->graph, program->settings, extras.replicas);
    if (moved.states == 0) {
      Error e = makeError("plan-illegal", "offload of the optimizer: " + program->settings.optimizer + " keeps nothing of these parameters");
      e.legal = "--optimizer adamw, or no offload of it";
      return e;
    }
    moveOptimizer(out, moved);
    extras.passing_states = moved.states;
  }
  if (c.zero == 2) out.modelled.push_back("zero 2: the program of zero 1, which keeps gradients as blocks, too");
  if (c.zero == 3) {
    modelZero3(out, parameterBytes(*program->graph, program->settings.wide_gradients), c.ranks());
    extras.gathers_layers = true;
  }
  if (!c.ring && !c.tile_mlp && !c.offload.checkpoints) out.floor = program->memory.resident - (out.compiled_peak - out.peak_low);  // the models left take the same from any length
  // Of a device's memory the allocator holds more than is asked for, also where it gives back what it can.
  if (out.reserved) out.peak_high += std::max<std::int64_t>(0, out.reserved->least - out.compiled_peak);
  out.time = estimateStep(*program->graph, program->settings, profile_, extras);
  return out;
}

Result<std::shared_ptr<const Surveyor::Program>> Surveyor::compiled(const Configuration& c, std::int64_t seq, bool keep, bool unmoved) {
  const std::string key = strf("%lld %s%s", static_cast<long long>(seq), c.text().c_str(), unmoved ? " unmoved" : "");
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  for (const auto& [recent, program] : recent_)
    if (recent == key) return program;
  SP_TRY(request_.cancel.check());
  SP_ASSIGN(const auto model, shelf_.get(seq, c.batch, keep, diagnostics_));
  CompileRequest what;
  what.settings = settingsOf(c, base_, seq);
  if (unmoved) what.settings.communication = "fused";
  what.keep_graphs = false;
  if (profile_.device == "cuda" && !unmoved) what.allocator = passes::CachingOptions{.expandable = expandable_segments_};
  Request request;
  request.cancel = request_.cancel;
  request.diagnostics = &diagnostics_;
  ++compiles_;
  SP_ASSIGN(CompileOutcome outcome, compileShared(*model, what, keep ? &stages_ : nullptr, request));
  SP_TRY(checkSharded(outcome, c.sp, false));
  CompileFigures& figures = outcome.figures;
  if (figures.program < 0) return makeError("internal", "the pipeline left no program");
  auto out = std::make_shared<Program>();
  Footprint& f = out->footprint;
  f.seq = seq;
  f.peak_low = f.peak_high = f.compiled_peak = figures.memory.peak;
  f.classes = figures.memory.at_peak;
  f.reserved = figures.reserved;
  f.live = figures.memory.live;
  f.peak_node = figures.peak_node;
  f.peak_source = figures.peak_source;
  f.gathers = static_cast<std::int64_t>(figures.gathers.size());
  for (const passes::CollectiveTotal& total : figures.collectives) f.comm_bytes += total.bytes;
  out->memory = std::move(figures.memory);
  out->settings = what.settings;
  out->graph = outcome.compiled.programs[static_cast<std::size_t>(figures.program)];
  if (keep) {
    known_.emplace(key, out);
  } else {
    constexpr std::size_t kRecent = 12;
    recent_.emplace_back(key, out);
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  return std::shared_ptr<const Program>(std::move(out));
}

}  // namespace spscope::session
