// SPDX-License-Identifier: Apache-2.0
#include "ui/model/memory_view.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

const std::string kUnsharded = "unsharded";
const std::string kMeasured = "measured:";

passes::Settings settingsOf(const std::string& key, passes::Settings settings) {
  if (key == kUnsharded) {
    settings.sp = settings.dp = 1;
    settings.zero = 0;
    settings.save = "all";
  } else {
    settings.save = key;
  }
  return settings;
}

bool has(const std::vector<std::string>& keys, const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

bool alive(const ir::Graph& graph, ir::NodeId node, const std::string& name) {
  return node >= 0 && static_cast<std::size_t>(node) < graph.nodeCount() && "%" + graph.node(node).name == name &&
         std::find(graph.order.begin(), graph.order.end(), node) != graph.order.end();
}

}  // namespace

MemoryView::MemoryView(Workspace& workspace) : workspace_(workspace), self_(std::make_shared<MemoryView*>(this)) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kSettings || topic == Topic::kCompiled || topic == Topic::kTrace) rebuild();
    if (topic == Topic::kSelection) told();
  });
  rebuild();
}

MemoryView::~MemoryView() {
  *self_ = nullptr;
  workspace_.unlisten(listener_);
}

void MemoryView::told() {
  if (on_changed) on_changed();
}

std::string MemoryView::fingerprint() const {
  const passes::Settings& s = workspace_.settings().compile;
  std::string out = strf("%p %d %d %s %s %lld %s %s %d %s", static_cast<const void*>(workspace_.model().get()), s.sp, s.dp, s.device.c_str(), s.communication.c_str(),
                         static_cast<long long>(s.bucket_bytes), formatDouble(s.flops_per_ns).c_str(), formatDouble(s.bytes_per_ns).c_str(), s.threads, s.optimizer.c_str());
  out += strf(" %d %d%s%s", s.zero, s.accumulate, s.tile_loss ? " tiled" : "", s.read_masks ? "" : " whole masks");
  for (const auto& [name, dim] : s.sequence_marks) out += " " + name + ":" + std::to_string(dim);
  return out;
}

const StepMemory* MemoryView::curveOf(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() || !it->second.curve || it->second.curve->places.empty() ? nullptr : it->second.curve.get();
}

const MemoryChoice* MemoryView::find(const std::string& key) const {
  for (const MemoryChoice& c : choices_)
    if (c.key == key) return &c;
  return nullptr;
}

void MemoryView::rebuild() {
  if (const std::string now = fingerprint(); now != made_for_) {
    std::erase_if(entries_, [](const auto& e) { return !e.first.starts_with(kMeasured); });
    made_for_ = now;
    workspace_.lanes().cancel("memory");
    for (auto& [key, entry] : entries_) entry.asked = entry.curve || !entry.failed.empty();
  }
  if (trace_ != workspace_.trace()) {
    trace_ = workspace_.trace();
    std::erase_if(entries_, [](const auto& e) { return e.first.starts_with(kMeasured); });
    std::erase_if(shown_, [](const std::string& key) { return key.starts_with(kMeasured); });
    if (trace_) {  // the rank with the highest peak is the one to look at
      const trace::MemoryUse* most = nullptr;
      for (const trace::MemoryUse& u : trace_->memory)
        if (most == nullptr || u.peak_bytes > most->peak_bytes) most = &u;
      if (most != nullptr) shown_.push_back(kMeasured + std::to_string(trace_->trace.ranks[static_cast<std::size_t>(most->rank)].number));
    }
  }
  const std::string before = current_;
  current_ = workspace_.settings().compile.save;
  if (current_ != before) {
    std::erase(shown_, before);
    if (focus_ == before) focus_ = current_;
    if (!has(shown_, current_)) shown_.insert(shown_.begin(), current_);
  }
  if (workspace_.compiled() != compiled_) {
    compiled_ = workspace_.compiled();
    if (compiled_) entries_[current_] = {std::make_shared<const StepMemory>(predictedCurve(*compiled_, workspace_.settings().compile)), {}, true};
  }

  choices_.clear();
  const auto add = [&](const std::string& key, std::string label, std::string tooltip) {
    MemoryChoice c;
    c.key = key;
    c.label = std::move(label);
    c.tooltip = std::move(tooltip);
    choices_.push_back(std::move(c));
  };
  if (workspace_.model()) {
    add(kUnsharded, "unsharded", "Predicted: one rank computes everything and keeps what the backward uses");
    std::vector<std::string> policies{"sac", "all", "min-cut", "layer-inputs"};
    if (!has(policies, current_)) policies.push_back(current_);
    for (const std::string& policy : policies)
      add(policy, policy, strf("Predicted: the rank of %d with the highest peak, memory policy %s", workspace_.settings().compile.ranks(), policy.c_str()));
  }
  if (trace_)
    for (const trace::Rank& r : trace_->trace.ranks) {
      const bool first = choices_.empty() || !choices_.back().key.starts_with(kMeasured);
      add(kMeasured + std::to_string(r.number), strf("measured, rank %lld", static_cast<long long>(r.number)), "What the recorded run allocated on that rank, in the step with the highest peak");
      if (!first) choices_.back().brief = strf("rank %lld", static_cast<long long>(r.number));
    }
  if (find(focus_) == nullptr) focus_ = find(current_) != nullptr ? current_ : choices_.empty() ? "" : choices_.back().key;
  if (!focus_.empty() && !has(shown_, focus_)) shown_.push_back(focus_);
  askForMissing();
}

void MemoryView::askForMissing() {
  // What the traces hold is read at once; programs are compiled in one job, one after the other, each told when it is there.
  std::vector<std::string> keys;
  bool fresh = false;
  for (const std::string& key : shown_) {
    Entry& entry = entries_[key];
    if (entry.curve || !entry.failed.empty()) continue;
    // The shown program itself comes with the compilation.
    if (!key.starts_with(kMeasured) && (!workspace_.model() || key == current_)) continue;
    if (key.starts_with(kMeasured) && !trace_) continue;
    fresh = fresh || !entry.asked;
    entry.asked = true;
    keys.push_back(key);
  }
  if (fresh) {
    workspace_.lanes().submit("memory", [keys, model = workspace_.model(), settings = workspace_.settings().compile, trace = trace_, made_for = made_for_, self = self_,
                                         lanes = &workspace_.lanes()](const JobContext& context) -> std::function<void()> {
      for (const std::string& key : keys) {
        if (context.cancel.cancelled()) break;
        Entry entry;
        entry.asked = true;
        if (key.starts_with(kMeasured)) {
          entry.curve = std::make_shared<const StepMemory>(measuredCurve(*trace, std::stoll(key.substr(kMeasured.size()))));
          entry.failed = entry.curve->absent;
        } else {
          session::CompileRequest what;
          what.settings = settingsOf(key, settings);
          what.keep_graphs = false;
          DiagnosticSink quiet;
          session::Request request;
          request.cancel = context.cancel;
          request.diagnostics = &quiet;
          try {
            if (const auto compiled = session::compile(*model, what, request); compiled) entry.curve = std::make_shared<const StepMemory>(predictedCurve(*compiled, what.settings));
            else entry.failed = compiled.error().message;
          } catch (const std::exception& e) {  // memory that is not there
            entry.failed = e.what();
          }
        }
        if (context.cancel.cancelled()) break;
        lanes->post([key, entry, trace, made_for, self] {
          MemoryView* view = *self;
          if (view == nullptr || (key.starts_with(kMeasured) ? view->trace_ != trace : view->made_for_ != made_for)) return;
          view->entries_[key] = entry;
          view->rebuild();
        });
      }
      return {};
    });
  }

  for (MemoryChoice& c : choices_) {
    const Entry& entry = entries_[c.key];
    c.shown = has(shown_, c.key);
    c.focused = c.key == focus_;
    c.waiting = c.shown && entry.asked && !entry.curve && entry.failed.empty();
    c.absent = entry.failed;
    c.peak = entry.curve ? entry.curve->peak : 0;
  }

  const StepMemory* curve = focused();
  const std::int64_t limit = workspace_.settings().memory_limit_bytes;
  if (curve != nullptr) {
    const MemoryChoice* c = find(focus_);
    const std::string& name = curve->names[static_cast<std::size_t>(curve->peak_place)];
    header_ = c->label + (focus_.starts_with(kMeasured) ? "" : focus_ == kUnsharded ? "" : strf(" on %d ranks", workspace_.settings().compile.ranks())) + " · peak " + formatBytes(curve->peak) +
              (limit > 0 ? " of " + formatBytes(limit) : "") + " at " + name + (curve->places[static_cast<std::size_t>(curve->peak_place)].backward ? " (backward)" : " (forward)");
  } else if (const MemoryChoice* c = find(focus_); c != nullptr && !c->absent.empty()) {
    header_ = c->label + ": " + c->absent;
  } else if (!workspace_.model() && !trace_) {
    header_ = "Open a model and compile it, or open a trace.";
  } else if (workspace_.compileError() && focus_ == current_) {
    header_ = "No program: " + workspace_.compileError()->message;
  } else if (focus_ == current_ && !workspace_.jobs().busy("compile")) {
    header_ = "Compile to see where the memory goes.";
  } else {
    header_ = "Being computed.";
  }
  told();
}

void MemoryView::show(const std::string& key, bool shown) {
  if (find(key) == nullptr || has(shown_, key) == shown) return;
  if (shown) shown_.push_back(key);
  else std::erase(shown_, key);
  if (!shown && key == focus_) {
    focus_ = shown_.empty() ? std::string() : shown_.front();
    if (focus_.empty()) return rebuild();  // the compiled one comes back: a panel without a curve answers nothing
  }
  askForMissing();
}

void MemoryView::focus(const std::string& key) {
  if (find(key) == nullptr) return;
  focus_ = key;
  if (!has(shown_, key)) shown_.push_back(key);
  askForMissing();
}

bool MemoryView::overLimit() const {
  const std::int64_t limit = workspace_.settings().memory_limit_bytes;
  return limit > 0 && focused() != nullptr && focused()->peak > limit;
}

const std::vector<StepMemory::Living>& MemoryView::atPeak() const {
  static const std::vector<StepMemory::Living> none;
  return focused() == nullptr ? none : focused()->at_peak;
}

void MemoryView::selectNode(ir::NodeId node, const std::string& name) {
  const auto& stages = workspace_.stages();
  if (stages.empty()) return;
  // Programs of other settings number their nodes differently: the name has to agree, too.
  const auto shown = workspace_.graph();
  if (shown && !alive(*shown, node, name)) {
    const int last = static_cast<int>(stages.size()) - 1;
    const ir::Graph* graph = stages.back().graph.get();
    if (graph == nullptr) return;
    if (!alive(*graph, node, name)) {
      const auto it = std::find_if(graph->order.begin(), graph->order.end(), [&](ir::NodeId id) { return "%" + graph->node(id).name == name; });
      if (it == graph->order.end()) return workspace_.log({Severity::kRemark, "memory", "", name + " is not in the program that is shown: its settings are others", {}, {}, {}});
      node = *it;
    }
    workspace_.showStage(last);
  }
  Selection s;
  s.node = node;
  workspace_.select(s);
}

void MemoryView::selectPeak() {
  if (const StepMemory* curve = focused(); curve != nullptr && curve->peak_place >= 0)
    selectNode(curve->places[static_cast<std::size_t>(curve->peak_place)].node, curve->names[static_cast<std::size_t>(curve->peak_place)]);
}

void MemoryView::click(const MemoryViewport& viewport, double x) {
  if (const auto hover = at(viewport, x)) selectNode(hover->node, hover->name);
}

}  // namespace spscope::ui
