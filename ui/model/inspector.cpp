// SPDX-License-Identifier: Apache-2.0
#include "ui/model/inspector.h"

#include <algorithm>

#include "ui/model/debug/debug_session.h"
#include "ui/model/inspector_sections.h"

namespace spscope::ui {
namespace {

bool alive(const ir::Graph& graph, ir::NodeId node) {
  return node >= 0 && static_cast<std::size_t>(node) < graph.nodeCount() &&
         std::find(graph.order.begin(), graph.order.end(), node) != graph.order.end();
}

/// The program that was compiled, of the class of ranks that the stages show; null before.
const ir::Graph* programOf(const Workspace& w) {
  return w.compiled() && !w.compiled()->compiled.programs.empty() ? w.compiled()->compiled.programs.front().get() : nullptr;
}

InspectorPage inspectNode(const InspectorScope& scope, ir::NodeId id) {
  const ir::Graph& g = *scope.graph;
  const ir::Node& node = g.node(id);
  InspectorPage page;
  page.title = "%" + node.name;
  page.subtitle = node.op.str() + " · stage " + scope.stage;
  page.sections = {opSection(scope, node), valuesSection(scope, node), placementSection(scope, node), provenanceSection(scope, node),
                   sourceSection(scope, node.location), memorySection(scope, node), costSection(scope, node), timesSection(scope, id),
                   usersSection(scope, node), numbersSection(scope, node)};
  if (node.location) page.source = sourceLineOf(*node.location);
  return page;
}

InspectorPage inspectInput(const InspectorScope& scope, ir::ValueId id) {
  const ir::Value& value = scope.graph->value(id);
  InspectorPage page;
  page.title = "%" + value.name;
  page.subtitle = "input · stage " + scope.stage;
  page.sections = {inputSection(scope, value), valueUsersSection(scope, value)};
  return page;
}

/// A node that the shown stage does not have, or no longer.
InspectorPage inspectElsewhere(const Workspace& w, const InspectorScope& scope, ir::NodeId id) {
  InspectorPage page;
  InspectorSection where{"Stages", {}, ""};
  for (const Workspace::Stage& stage : w.stages()) {
    if (!stage.graph || !alive(*stage.graph, id)) continue;
    if (page.title.empty()) page.title = "%" + stage.graph->node(id).name;
    where.rows.push_back({stage.name, ir::nodeText(*stage.graph, stage.graph->node(id)), true, {}});
  }
  if (page.title.empty()) {
    page.title = "node " + std::to_string(id);
    where.absent = "No stage of this compilation has it: it belongs to another model or to other settings.";
  }
  page.subtitle = "not in stage " + scope.stage;
  page.sections = {std::move(where), timesSection(scope, id)};
  return page;
}

}  // namespace

const InspectorSection* InspectorPage::find(const std::string& wanted) const {
  for (const InspectorSection& s : sections)
    if (s.title == wanted) return &s;
  return nullptr;
}

std::string pageText(const InspectorPage& page) {
  std::string out = page.title.empty() ? page.hint : page.title + "\n" + page.subtitle;
  out += "\n";
  for (const InspectorSection& s : page.sections) {
    out += "\n" + s.title + "\n";
    for (const InspectorRow& r : s.rows) out += "  " + r.label + (r.label.empty() ? "" : ": ") + r.text + "\n";
    if (!s.absent.empty()) out += "  " + s.absent + "\n";
  }
  return out;
}

InspectorPage inspect(const Workspace& w, const NodeTimes* times, bool reading) {
  InspectorPage page;
  const auto graph = w.graph();
  if (!graph) {
    page.hint = "Open a model: what is selected in it is explained here.";
    return page;
  }
  Selection s = w.selection();
  InspectorScope scope;
  scope.workspace = &w;
  scope.graph = graph.get();
  scope.stage = w.stages()[static_cast<std::size_t>(w.stage())].name;
  scope.program = programOf(w);
  scope.times = times;
  scope.reading = reading;
  if (s.node == ir::kNone && s.event >= 0 && w.trace()) {  // an event of the timeline means its node
    const trace::Trace& t = w.trace()->trace;
    if (static_cast<std::size_t>(s.event) < t.events.size())
      if (const trace::NodeIndex n = t.events.node[static_cast<std::size_t>(s.event)]; n != trace::kNoIndex)
        s.node = static_cast<ir::NodeId>(t.nodes[static_cast<std::size_t>(n)].id);
  }
  if (s.node == ir::kNone && s.value != ir::kNone && static_cast<std::size_t>(s.value) < graph->valueCount()) {
    const ir::NodeId producer = graph->value(s.value).producer;
    if (producer == ir::kNone) return inspectInput(scope, s.value);
    s.node = producer;
  }
  if (s.node != ir::kNone) return alive(*graph, s.node) ? inspectNode(scope, s.node) : inspectElsewhere(w, scope, s.node);
  if (!s.module.empty()) return inspectModule(scope, s.module);
  page.hint = s.event >= 0 ? "This event belongs to no node of the graph." : "Select a node, a module, a point of the memory curve or an event of the timeline.";
  return page;
}

Inspector::Inspector(Workspace& workspace) : workspace_(workspace), self_(std::make_shared<Inspector*>(this)) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kTrace) readTimes();
    if (topic == Topic::kModel || topic == Topic::kCompiled || topic == Topic::kStage || topic == Topic::kSelection || topic == Topic::kTrace || topic == Topic::kValues) refresh();
    // Of the debugger only whether a breakpoint is at its line: a reader's place in the page is kept.
    if (topic == Topic::kDebug && pageText(inspect(workspace_, times_.get(), read_ && !times_)) != pageText(page_)) refresh();
  });
  readTimes();
  page_ = inspect(workspace_, times_.get(), read_ && !times_);
}

Inspector::~Inspector() {
  *self_ = nullptr;
  workspace_.unlisten(listener_);
}

void Inspector::readTimes() {
  if (read_ == workspace_.trace()) return;
  read_ = workspace_.trace();
  times_.reset();
  if (!read_) return workspace_.lanes().cancel("node times");
  workspace_.lanes().submit("node times", [document = read_, self = self_](const JobContext& context) -> std::function<void()> {
    auto times = std::make_shared<const NodeTimes>(nodeTimes(*document, context.cancel));
    return [times, document, self] {
      if (*self == nullptr || (*self)->read_ != document) return;
      (*self)->times_ = times;
      (*self)->refresh();
    };
  });
}

void Inspector::follow(const InspectorRow& row) {
  const InspectorRow here = row;  // the page goes with the selection
  if (here.target) workspace_.select(*here.target);
  if (here.read_values != ir::kNone) workspace_.readValues(here.read_values);
  if (here.act.starts_with("break ")) workspace_.debug().toggleBreakpoint(here.act.substr(6));
}

void Inspector::refresh() {
  page_ = inspect(workspace_, times_.get(), read_ && !times_);
  if (on_changed) on_changed();
}

}  // namespace spscope::ui
