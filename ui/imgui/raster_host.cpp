// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/raster_host.h"

#include <QPaintEvent>
#include <QPainter>
#include <QTimer>
#include <cmath>

namespace spscope::ui {

RasterHost::RasterHost(ImguiCore& core, QWidget* parent) : QWidget(parent), core_(core) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_InputMethodEnabled);
  setAttribute(Qt::WA_OpaquePaintEvent);
  core_.wake = [this] { schedule(); };
  core_.fonts_changed = [this] {
    const ImguiCore::Atlas atlas = core_.atlas();
    raster_.setAtlas(atlas.alpha, atlas.width, atlas.height);
  };
}

RasterHost::~RasterHost() { core_.wake = nullptr, core_.fonts_changed = nullptr; }

void RasterHost::schedule() {
  stale_ = true;
  if (scheduled_ || !isVisible()) return;
  scheduled_ = true;
  QTimer::singleShot(0, this, [this] {
    scheduled_ = false;
    if (stale_ && isVisible()) makeFrame();
  });
}

void RasterHost::makeFrame() {
  const double scale = devicePixelRatioF();
  const QSize size(static_cast<int>(std::lround(width() * scale)), static_cast<int>(std::lround(height() * scale)));
  if (size.isEmpty()) return;
  stale_ = false;
  const bool fresh = image_.size() != size;
  if (fresh) image_ = QImage(size, QImage::Format_RGB32);
  image_.setDevicePixelRatio(scale);
  const ImDrawData* drawn = core_.frame(size.width(), size.height(), scale);
  const Color ground = core_.theme().color(Tone::kPanel);
  const std::uint32_t background = 0xff000000u | static_cast<std::uint32_t>(ground.r) << 16 | static_cast<std::uint32_t>(ground.g) << 8 | ground.b;
  const auto changed = raster_.paint(*drawn, background, reinterpret_cast<std::uint32_t*>(image_.bits()), size.width(), size.height(),
                                     static_cast<int>(image_.bytesPerLine() / 4), fresh);
  for (const PixelBox& box : changed) {
    const int x0 = static_cast<int>(std::floor(box.x0 / scale)), y0 = static_cast<int>(std::floor(box.y0 / scale));
    update(QRect(QPoint(x0, y0), QPoint(static_cast<int>(std::ceil(box.x1 / scale)), static_cast<int>(std::ceil(box.y1 / scale)))));
  }
  if (const auto shape = static_cast<Qt::CursorShape>(core_.cursorShape()); cursor().shape() != shape) setCursor(shape);
}

void RasterHost::paintEvent(QPaintEvent* event) {
  const double scale = devicePixelRatioF();
  const QSize size(static_cast<int>(std::lround(width() * scale)), static_cast<int>(std::lround(height() * scale)));
  if (stale_ || image_.size() != size) makeFrame();
  QPainter painter(this);
  for (const QRect& r : event->region())
    painter.drawImage(QRectF(r), image_, QRectF(r.x() * scale, r.y() * scale, r.width() * scale, r.height() * scale));
}

bool RasterHost::event(QEvent* event) {
  if (core_.handle(event, this)) return true;
  if (event->type() == QEvent::Show || event->type() == QEvent::Resize) core_.request();
  return QWidget::event(event);
}

}  // namespace spscope::ui
