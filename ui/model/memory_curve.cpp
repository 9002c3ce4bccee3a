// SPDX-License-Identifier: Apache-2.0
#include "ui/model/memory_curve.h"

#include <algorithm>
#include <map>

#include "core/base/strings.h"
#include "passes/memory/step_model.h"

namespace spscope::ui {
namespace {

using passes::MemoryClass;
constexpr std::size_t kLiving = 12;

void keepLargest(std::vector<StepMemory::Living>& living) {
  std::stable_sort(living.begin(), living.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (living.size() > kLiving) living.resize(kLiving);
}

void findBackward(StepMemory& curve) {
  curve.backward_begins = static_cast<std::int32_t>(curve.places.size());
  for (std::size_t i = curve.places.size(); i-- > 0 && curve.places[i].backward;) curve.backward_begins = static_cast<std::int32_t>(i);
}

MemoryClass classOf(const passes::StepModel& model, const passes::StepStorage& s) {
  if (s.input) return MemoryClass::kParameters;
  if (s.gradient) return MemoryClass::kGradients;
  if (s.forward && (s.used_after || s.output)) return MemoryClass::kActivations;
  const bool collective = s.producer >= 0 && ir::isCollective(model.graph().node(model.nodes[static_cast<std::size_t>(s.producer)].id).op);
  return collective ? MemoryClass::kCommunication : MemoryClass::kTemporaries;
}

std::vector<StepMemory::Living> livingAt(const ir::Graph& graph, const passes::Settings& settings, std::int32_t place) {
  const passes::StepModel model(graph, passes::livenessOptions(settings, nullptr), passes::ratesOf(settings));
  std::vector<std::int32_t> last(model.storages.size(), -1);
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    for (const ir::ValueId v : model.outsOf(model.nodes[i])) last[static_cast<std::size_t>(model.storageOf(v))] = static_cast<std::int32_t>(i);
    for (const ir::ValueId v : model.usesOf(model.nodes[i])) last[static_cast<std::size_t>(model.storageOf(v))] = static_cast<std::int32_t>(i);
  }
  std::vector<StepMemory::Living> out;
  for (std::size_t i = 0; i < model.storages.size(); ++i) {
    const passes::StepStorage& s = model.storages[i];
    const bool there = s.input || (s.producer <= place && (s.output || last[i] >= place));
    if (!there || s.bytes == 0) continue;
    const ir::Value& base = graph.value(s.base);
    out.push_back({base.producer, "%" + base.name, s.bytes, classOf(model, s)});
  }
  keepLargest(out);
  return out;
}

std::optional<MemoryClass> classNamed(std::string_view name) {
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c)
    if (passes::memoryClassName(static_cast<MemoryClass>(c)) == name) return static_cast<MemoryClass>(c);
  return std::nullopt;
}

StepMemory noMemory(std::string why) {
  StepMemory out;
  out.absent = std::move(why);
  return out;
}

}  // namespace

StepMemory predictedCurve(const session::CompileOutcome& compiled, const passes::Settings& settings) {
  StepMemory out;
  if (compiled.figures.program < 0) return noMemory("nothing was compiled");
  const ir::Graph& graph = *compiled.compiled.programs[static_cast<std::size_t>(compiled.figures.program)];
  const passes::MemoryCurve& memory = compiled.figures.memory;
  for (std::size_t i = 0; i < memory.live.size(); ++i) {
    const ir::Node& node = graph.node(graph.order[i]);
    out.places.push_back({node.id, node.phase != ir::Phase::kForward, memory.live[i], i < memory.by_class.size() ? memory.by_class[i] : passes::ClassBytes{}});
    out.names.push_back("%" + node.name);
  }
  out.classes_known = memory.by_class.size() == memory.live.size();
  out.peak = memory.peak;
  out.peak_place = memory.peak_position;
  findBackward(out);
  if (out.peak_place >= 0) out.at_peak = livingAt(graph, settings, out.peak_place);
  return out;
}

StepMemory measuredCurve(const TraceDocument& document, std::int64_t number) {
  const trace::Trace& t = document.trace;
  std::int32_t rank = -1;
  for (std::size_t r = 0; r < t.ranks.size(); ++r)
    if (t.ranks[r].number == number || (t.ranks[r].number == trace::kUnknown && static_cast<std::int64_t>(r) == number)) rank = static_cast<std::int32_t>(r);
  const trace::MemoryUse* use = nullptr;
  for (const trace::MemoryUse& u : document.memory)
    if (u.rank == rank && (use == nullptr || u.peak_bytes > use->peak_bytes)) use = &u;
  if (use == nullptr || use->curve.empty()) return noMemory(strf("no memory was recorded of rank %lld", static_cast<long long>(number)));

  // The step with the highest peak; everything, where the trace knows no steps.
  trace::Interval span{use->curve.front().time, use->curve.back().time + 1};
  std::string step;
  std::int64_t best = -1;
  std::vector<std::pair<trace::Interval, trace::NodeIndex>> ran;
  for (std::size_t e = 0; e < t.events.size(); ++e) {
    if (t.tracks[static_cast<std::size_t>(t.events.track[e])].rank != rank) continue;
    if (t.events.category[e] == trace::Category::kOperator && t.events.node[e] != trace::kNoIndex) ran.push_back({{t.events.start[e], t.events.end[e]}, t.events.node[e]});
    if (t.events.category[e] != trace::Category::kRange) continue;
    const std::string name(t.strings.text(t.events.name[e]));
    if (!name.starts_with("step ")) continue;
    std::int64_t peak = -1;
    for (const trace::MemoryPoint& p : use->curve)
      if (p.time >= t.events.start[e] && p.time < t.events.end[e]) peak = std::max(peak, p.live);
    if (peak > best) best = peak, step = name, span = {t.events.start[e], t.events.end[e]};
  }
  std::erase_if(ran, [&](const auto& r) { return r.first.start < span.start || r.first.start >= span.end; });
  if (ran.empty()) return noMemory("the trace names no nodes of a graph: its memory cannot be shown along the program");
  std::stable_sort(ran.begin(), ran.end(), [](const auto& a, const auto& b) { return a.first.start < b.first.start; });

  std::vector<const trace::MemoryEvent*> events;
  for (const trace::MemoryEvent& m : t.memory)
    if (m.rank == rank && m.device == use->device) events.push_back(&m);
  std::stable_sort(events.begin(), events.end(), [](const auto* a, const auto* b) { return a->time < b->time; });

  StepMemory out;
  out.classes_known = std::any_of(events.begin(), events.end(), [&](const auto* m) { return m->memory_class != 0; });
  out.note = strf("rank %lld", static_cast<long long>(number)) + (step.empty() ? "" : ", " + step + " of the run");
  passes::ClassBytes now{};
  std::int64_t live = 0;
  std::map<trace::NodeIndex, std::int64_t> by_node;
  std::map<trace::NodeIndex, MemoryClass> class_of;
  std::map<trace::NodeIndex, std::int64_t> at_peak;
  if (use->before_recording > 0) live = now[static_cast<std::size_t>(MemoryClass::kParameters)] = use->before_recording;
  std::size_t next = 0;
  // `place` null: what comes before the step.
  const auto until = [&](std::int64_t time, StepMemory::Place* place) {
    for (; next < events.size() && events[next]->time < time; ++next) {
      const trace::MemoryEvent& m = *events[next];
      const MemoryClass c = classNamed(t.strings.text(m.memory_class)).value_or(MemoryClass::kTemporaries);
      now[static_cast<std::size_t>(c)] += m.bytes;
      live += m.bytes;
      by_node[m.node] += m.bytes;
      if (m.bytes > 0) class_of[m.node] = c;
      if (place == nullptr || live <= place->live) continue;
      place->live = live;
      place->classes = now;
      if (live <= out.peak) continue;
      out.peak = live;
      out.peak_place = static_cast<std::int32_t>(out.places.size());
      at_peak = by_node;
    }
  };
  until(ran.front().first.start, nullptr);
  for (std::size_t i = 0; i < ran.size(); ++i) {
    const trace::GraphNode& node = t.nodes[static_cast<std::size_t>(ran[i].second)];
    StepMemory::Place place{node.id == trace::kUnknown ? ir::kNone : static_cast<ir::NodeId>(node.id), node.phase == trace::Phase::kBackward || node.phase == trace::Phase::kRecompute, live, now};
    if (live > out.peak) out.peak = live, out.peak_place = static_cast<std::int32_t>(i), at_peak = by_node;
    until(i + 1 < ran.size() ? ran[i + 1].first.start : span.end, &place);
    out.places.push_back(place);
    out.names.emplace_back(t.strings.text(node.name));
  }
  findBackward(out);
  for (const auto& [index, bytes] : at_peak) {
    if (bytes <= 0) continue;
    if (index == trace::kNoIndex) {
      out.at_peak.push_back({ir::kNone, "parameters, optimizer, inputs", bytes, MemoryClass::kParameters});
      continue;
    }
    const trace::GraphNode& node = t.nodes[static_cast<std::size_t>(index)];
    out.at_peak.push_back({node.id == trace::kUnknown ? ir::kNone : static_cast<ir::NodeId>(node.id), std::string(t.strings.text(node.name)), bytes, class_of[index]});
  }
  keepLargest(out.at_peak);
  return out;
}

}  // namespace spscope::ui
