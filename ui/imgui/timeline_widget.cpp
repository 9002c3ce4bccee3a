// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/timeline_widget.h"

#include <QEvent>
#include <QFileInfo>
#include <QVBoxLayout>
#include <cmath>

#include "ui/imgui/gl_host.h"
#include "ui/imgui/raster_host.h"
#include "ui/imgui/timeline_canvas.h"

namespace spscope::ui {

struct TimelineWidget::Imgui {
  explicit Imgui(TimelineModel& model) : canvas(core, model) {}
  ImguiCore core;
  TimelineCanvas canvas;
};

TimelineWidget::TimelineWidget(Workspace& workspace, QWidget* parent) : QWidget(parent), workspace_(workspace), imgui_(std::make_unique<Imgui>(model_)) {
  uses_gl_ = GlHost::worthwhile();
  if (uses_gl_) host_ = new GlHost(imgui_->core, this);
  else host_ = new RasterHost(imgui_->core, this);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(host_);
  setFocusProxy(host_);
  setMinimumSize(260, 120);
  host_->setAccessibleName(QStringLiteral("Timeline"));
  imgui_->core.draw = [this] {
    ++frames_;
    imgui_->canvas.draw();
  };
  imgui_->canvas.on_choose = [this](int source, int event) { chosen(source, event); };
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kTrace) showTraces();
    if (topic == Topic::kSelection) followSelection();
  });
  applyTheme();
  showTraces();
}

TimelineWidget::~TimelineWidget() {
  workspace_.unlisten(listener_);
  delete host_;  // before the context that it shows
}

void TimelineWidget::showTraces() {
  // The older ones live until the model has let go of their indices.
  const auto before = std::exchange(trace_, workspace_.trace());
  const auto beside_before = std::exchange(beside_, workspace_.traceBeside());
  std::vector<TimelineShown> shown;
  for (const auto& document : {trace_, beside_}) {
    if (!document || !document->timeline) continue;
    const QString name = document->paths.empty() ? QString() : QFileInfo(QString::fromStdString(document->paths.front())).fileName();
    shown.push_back({document->timeline, name.toStdString()});
  }
  model_.show(std::move(shown));
  imgui_->canvas.message = workspace_.traceError() ? workspace_.traceError()->message : "No trace yet: run with a profile, or open one.";
  followSelection();
  refresh();
}

void TimelineWidget::followSelection() {
  const Selection& selection = workspace_.selection();
  if (!trace_) return;
  if (selection.event >= 0) {
    const TimelineModel::Chosen before = model_.chosen();
    if (before.source != 0 || before.event != selection.event) {
      model_.choose({.source = 0, .event = selection.event});
      if (!model_.boxOf(0, selection.event)) model_.reveal(0, selection.event);
    }
  } else if (selection.node != ir::kNone) {
    model_.chooseNode(selection.node, selection.rank);
  } else {
    model_.choose({});
  }
  refresh();
}

void TimelineWidget::chosen(int source, int event) {
  const auto& document = source == 0 ? trace_ : beside_;
  if (!document || event < 0) return;
  const trace::Trace& t = document->trace;
  const auto at = static_cast<std::size_t>(event);
  host_->setAccessibleDescription(QString::fromStdString(std::string(t.strings.text(t.events.name[at]))));
  if (source == 0) return workspace_.selectEvent(event);
  Selection selection = selectionOfEvent(t, event);
  selection.event = -1;  // events of the other trace mean nothing elsewhere
  if (selection.node != ir::kNone) workspace_.select(selection);
}

void TimelineWidget::refresh() { imgui_->core.request(); }

void TimelineWidget::focusSearch() {
  host_->setFocus(Qt::ShortcutFocusReason);
  imgui_->canvas.focusSearch();
  refresh();
}

QRect TimelineWidget::eventRect(int event) const {
  if (frames_ == 0) return {};
  const auto box = model_.boxOf(0, event);
  if (!box) return {};
  const double s = imgui_->core.scale(), y = imgui_->canvas.plotY();
  const QPoint from(static_cast<int>(std::floor(box->x0 / s)), static_cast<int>(std::floor((box->y0 + y) / s)));
  const QPoint to(static_cast<int>(std::ceil(box->x1 / s)) - 1, static_cast<int>(std::ceil((box->y1 + y) / s)) - 1);
  return QRect(from, to).translated(host_->pos());
}

QString TimelineWidget::summary() const { return QString::fromStdString(model_.summary()); }

void TimelineWidget::applyTheme() { imgui_->core.setTheme(Theme(palette().color(QPalette::Window).lightness() < 128)); }

void TimelineWidget::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::ParentChange) applyTheme();
  QWidget::changeEvent(event);
}

}  // namespace spscope::ui
