// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/footprint.h"

#include <algorithm>
#include <cctype>
#include <thread>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"
#include "core/session/plan/reserved.h"
#include "passes/memory/op_cost.h"

namespace spscope::session {
namespace {

/// "model.layers.3" of "model.layers.3.mlp.up_proj.weight"; "" for what is in no numbered module.
std::string layerOf(const std::string& parameter) {
  std::string prefix;
  for (const std::string& part : split(parameter, '.')) {
    prefix += (prefix.empty() ? "" : ".") + part;
    if (!part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) return prefix;
  }
  return {};
}

ParameterBytes parameterBytes(const ir::Graph& graph) {
  ParameterBytes out;
  std::map<std::string, std::int64_t> layers;
  for (const ir::Input& input : graph.inputs) {
    if (!input.trainable || input.value == ir::kNone) continue;
    const std::int64_t bytes = graph.value(input.value).localBytes();
    out.all += bytes;
    if (const std::string layer = layerOf(input.name); layer.empty()) out.outside_layers += bytes;
    else layers[layer] += bytes;
  }
  for (const auto& [name, bytes] : layers) out.largest_layer = std::max(out.largest_layer, bytes);
  return out;
}

/// Time of a rank's step at the middle of the rates, one thing after the other.
double workNs(const ir::Graph& graph, const DeviceProfile& profile, std::int64_t comm_bytes, double link) {
  const double attention = profile.attention.empty() ? profile.matmul.middle() : profile.attention.front().second.middle();
  double ns = static_cast<double>(comm_bytes) / link;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (ir::isCollective(node.op)) continue;
    const passes::OpCost cost = passes::costOf(graph, node, passes::DeviceRates{});
    const double compute = static_cast<double>(cost.flops) / (ir::isAttention(node.op) ? attention : profile.matmul.middle());
    ns += std::max(compute, static_cast<double>(cost.bytes) / profile.memory.middle());
  }
  return ns;
}

void modelZero3(Footprint& f, const ParameterBytes& p, int ranks, double link) {
  const std::int64_t freed = p.all - (p.all + ranks - 1) / ranks;
  const std::int64_t low = std::min(p.all, p.largest_layer > 0 ? p.largest_layer : p.outside_layers);
  const std::int64_t high = std::min(p.all, 2 * p.largest_layer + p.outside_layers);
  f.peak_low += low - freed;
  f.peak_high += high - freed;
  for (std::int64_t& bytes : f.live) bytes += high - freed;
  f.comm_bytes += freed;  // gathered for the forward and for the backward: once more than with ZeRO 1
  f.work_ns += static_cast<double>(freed) / link;
  f.modelled.push_back(strf("parameters of zero 3: a %dth kept, %s to %s gathered at a time", ranks, formatBytes(low).c_str(), formatBytes(high).c_str()));
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
  return out;
}

std::string_view verdictName(Verdict verdict) {
  return verdict == Verdict::kFits ? "fits" : verdict == Verdict::kUncertain ? "uncertain" : "does-not-fit";
}

Verdict verdictOf(std::int64_t peak_low, std::int64_t peak_high, const Room& room) {
  if (static_cast<double>(peak_high) <= room.sure) return Verdict::kFits;
  return static_cast<double>(peak_low) > room.hopeful ? Verdict::kDoesNotFit : Verdict::kUncertain;
}

Result<std::shared_ptr<const Model>> ModelShelf::get(std::int64_t seq, std::int64_t batch, bool keep, DiagnosticSink& diagnostics) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find({seq, batch}); found != kept_.end()) return found->second;
  }
  OpenRequest what = open_;
  what.seq = seq;
  what.batch = batch;
  Request request;
  request.cancel = request_.cancel;
  request.diagnostics = &diagnostics;
  SP_ASSIGN(std::shared_ptr<const Model> model, open(what, request));
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
  out.batch = c.batch;
  out.seq = seq;
  if (out.threads <= 0) out.threads = std::max(1, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) / out.ranks());
  return out;
}

double Surveyor::linkOf(const Configuration& c) const {
  return (c.ranks() > gpus_per_node_ && profile_.network_link.low > 0 ? profile_.network_link : profile_.node_link).middle();
}

Result<Footprint> Surveyor::at(const Configuration& c, std::int64_t seq, bool keep) {
  Configuration base = c;
  base.zero = std::min(c.zero, 1);
  SP_ASSIGN(Footprint out, compiled(base, seq, keep));
  if (c.zero == 2) out.modelled.push_back("zero 2: the program of zero 1, which keeps gradients as blocks, too");
  if (c.zero == 3) modelZero3(out, parameters_, c.ranks(), linkOf(c));
  // Of a device's memory the allocator holds more than is asked for, also where it gives back what it can.
  if (out.reserved) out.peak_high += std::max<std::int64_t>(0, out.reserved->least - out.compiled_peak);
  return out;
}

Result<Footprint> Surveyor::compiled(const Configuration& c, std::int64_t seq, bool keep) {
  const std::string key = strf("%lld %s", static_cast<long long>(seq), c.text().c_str());
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  SP_TRY(request_.cancel.check());
  SP_ASSIGN(const auto model, shelf_.get(seq, c.batch, keep, diagnostics_));
  CompileRequest what;
  what.settings = settingsOf(c, base_, seq);
  what.keep_graphs = false;
  Request request;
  request.cancel = request_.cancel;
  request.diagnostics = &diagnostics_;
  ++compiles_;
  SP_ASSIGN(CompileOutcome outcome, compileShared(*model, what, keep ? &stages_ : nullptr, request));
  SP_TRY(checkSharded(outcome, c.sp, false));
  const CompileFigures& figures = outcome.figures;
  Footprint out;
  out.seq = seq;
  out.peak_low = out.peak_high = out.compiled_peak = figures.memory.peak;
  out.classes = figures.memory.at_peak;
  out.live = figures.memory.live;
  out.peak_node = figures.peak_node;
  out.peak_source = figures.peak_source;
  out.gathers = static_cast<std::int64_t>(figures.gathers.size());
  for (const passes::CollectiveTotal& total : figures.collectives) out.comm_bytes += total.bytes;
  if (figures.program >= 0) {
    const ir::Graph& program = *outcome.compiled.programs[static_cast<std::size_t>(figures.program)];
    out.work_ns = workNs(program, profile_, out.comm_bytes, linkOf(c));
    parameters_ = parameterBytes(program);
    if (profile_.device == "cuda") {
      SP_ASSIGN(out.reserved, reservedFor(program, what.settings));
    }
  }
  if (keep) known_.emplace(key, out);
  return out;
}

}  // namespace spscope::session
