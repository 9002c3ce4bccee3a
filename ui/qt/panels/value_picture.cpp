// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/value_picture.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

namespace dbg = session::debug;

constexpr double kSide = 8, kCaption = 15, kHeatHeight = 96, kBarsHeight = 34, kCell = 24;
constexpr int kMostRanks = 4;

const LookedValue* chosenOf(const NodeLook* look) {
  if (look == nullptr || look->chosen < 0) return nullptr;
  const LookedValue& v = look->values[static_cast<std::size_t>(look->chosen)];
  return v.look ? &v : nullptr;
}

/// Few rows are not drawn out to tall ones.
double heatHeight(const NodeLook& look) {
  return look.heat && look.heat->cells.shape.size() == 2 ? std::min(kHeatHeight, kCell * static_cast<double>(look.heat->cells.shape[0])) : 0;
}

std::vector<const dbg::RankValue*> drawnRanks(const NodeLook& look, const LookedValue& v) {
  std::vector<const dbg::RankValue*> out;
  for (const dbg::RankValue& r : v.look->ranks)
    if (look.asked.rank < 0 ? static_cast<int>(out.size()) < kMostRanks : r.rank == look.asked.rank) out.push_back(&r);
  return out;
}

/// Magnitudes are told apart from the darkest to the lightest; what is no number is crossed, too.
void drawHeat(QPainter& painter, const QRectF& place, const exec::ValueWindow& cells) {
  const auto rows = cells.shape.size() == 2 ? cells.shape[0] : 0, columns = cells.shape.size() == 2 ? cells.shape[1] : 0;
  if (rows == 0 || columns == 0) return;
  double top = 0.0;
  for (const double x : cells.values) top = std::isfinite(x) ? std::max(top, x) : top;
  const Theme& theme = currentTheme();
  const double w = std::min(place.width() / static_cast<double>(columns), kCell), h = std::min(place.height() / static_cast<double>(rows), kCell);
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double x = cells.values[static_cast<std::size_t>(r * columns + c)];
      // Edges on whole pixels: no seams.
      const QRect cell(QPoint(static_cast<int>(std::lround(place.left() + static_cast<double>(c) * w)), static_cast<int>(std::lround(place.top() + static_cast<double>(r) * h))),
                       QPoint(static_cast<int>(std::lround(place.left() + static_cast<double>(c + 1) * w)) - 1, static_cast<int>(std::lround(place.top() + static_cast<double>(r + 1) * h)) - 1));
      if (std::isfinite(x)) {
        painter.fillRect(cell, toQt(theme.mix(theme.color(Tone::kWindow), theme.color(Tone::kAccent), top > 0 ? 0.06 + 0.94 * std::sqrt(x / top) : 0.06)));
        continue;
      }
      painter.fillRect(cell, tone(Tone::kBad));
      painter.setPen(tone(Tone::kWindow));
      painter.drawLine(cell.topLeft(), cell.bottomRight());
      painter.drawLine(cell.topRight(), cell.bottomLeft());
    }
  painter.setRenderHint(QPainter::Antialiasing, true);
}

void drawBars(QPainter& painter, const QRectF& place, const std::vector<std::int64_t>& bars) {
  if (bars.empty()) return;
  const std::int64_t most = *std::max_element(bars.begin(), bars.end());
  const double w = place.width() / static_cast<double>(bars.size());
  painter.setPen(Qt::NoPen);
  painter.setBrush(tone(Tone::kAccent));
  for (std::size_t i = 0; i < bars.size(); ++i) {
    if (bars[i] == 0) continue;
    // The root: single outliers stay in sight.
    const double h = std::max(1.5, place.height() * std::sqrt(static_cast<double>(bars[i]) / static_cast<double>(most)));
    painter.drawRect(QRectF(place.left() + static_cast<double>(i) * w, place.bottom() - h, std::max(1.0, w - 1), h));
  }
  painter.setPen(tone(Tone::kLine));
  painter.drawLine(place.bottomLeft(), place.bottomRight());
}

}  // namespace

ValuePicture::ValuePicture(QWidget* parent) : QWidget(parent) {
  setAccessibleName(QStringLiteral("Picture of the value"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void ValuePicture::setLook(std::shared_ptr<const NodeLook> look) {
  look_ = std::move(look);
  setVisible(chosenOf(look_.get()) != nullptr);
  updateGeometry();
  update();
}

QSize ValuePicture::sizeHint() const {
  const LookedValue* v = chosenOf(look_.get());
  if (v == nullptr) return {240, 0};
  const double bars = static_cast<double>((drawnRanks(*look_, *v).size() + 1) / 2) * (kBarsHeight + kCaption + 4);
  return {240, static_cast<int>((look_->heat ? kCaption + heatHeight(*look_) + 6 : 0) + bars + 4)};
}

void ValuePicture::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), tone(Tone::kPanel));
  const LookedValue* v = chosenOf(look_.get());
  if (v == nullptr) return;
  painter.setFont(smallFont());
  const auto caption = [&](const QRectF& place, const QString& text) {
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, painter.fontMetrics().elidedText(text, Qt::ElideRight, static_cast<int>(place.width())));
  };
  const double wide = width() - 2 * kSide;
  double y = 2;
  if (look_->heat) {
    double top = 0.0;
    for (const double x : look_->heat->cells.values) top = std::isfinite(x) ? std::max(top, x) : top;
    caption({kSide, y, wide, kCaption}, (look_->heat->rank < 0 ? QStringLiteral("put together") : QStringLiteral("rank %1").arg(look_->heat->rank)) + toQt(strf(": largest magnitudes, up to %.4g", top)));
    y += kCaption;
    drawHeat(painter, {kSide, y, wide, heatHeight(*look_)}, look_->heat->cells);
    y += heatHeight(*look_) + 6;
  }
  const auto ranks = drawnRanks(*look_, *v);
  const bool two = ranks.size() > 1;
  const double each = two ? (wide - 12) / 2 : wide;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const exec::ValueSummary& s = ranks[i]->summary;
    const double x = kSide + (i % 2 == 1 ? each + 12 : 0);
    caption({x, y, each, kCaption}, toQt(strf("rank %d: %.3g … %.3g", ranks[i]->rank, s.min, s.max)));
    drawBars(painter, {x, y + kCaption, each, kBarsHeight}, s.histogram);
    if (i % 2 == 1 || i + 1 == ranks.size()) y += kBarsHeight + kCaption + 4;
  }
}

}  // namespace spscope::ui
