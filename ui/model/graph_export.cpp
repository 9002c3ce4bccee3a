// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph_export.h"


#include "core/base/new_file.h"
#include "core/base/strings.h"
#include "core/base/xml_text.h"
#include "core/ir/text.h"

namespace spscope::ui {
namespace {

std::string hex(Color c) { return strf("#%02x%02x%02x", c.r, c.g, c.b); }

Tone outline(Change change) {
  switch (change) {
    case Change::kAdded: return Tone::kAdded;
    case Change::kRemoved: return Tone::kRemoved;
    case Change::kChanged: return Tone::kChanged;
    case Change::kNone: break;
  }
  return Tone::kSecondary;
}

/// What fits into a box of this width.
std::string fitting(const std::string& text, float width, float per_character) {
  const auto room = static_cast<std::size_t>(std::max(1.0f, width / per_character));
  std::size_t columns = 0, at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0u) != 0x80u && columns++ == room) break;
  return at == text.size() ? text : text.substr(0, at) + "\u2026";
}

}  // namespace

std::string sceneSvg(GraphScene& graph_scene, const Colouring& colouring, const Theme& theme) {
  const GraphDrawing& scene = graph_scene.scene();
  std::string out = strf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n",
                         scene.size.width, scene.size.height, scene.size.width, scene.size.height);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"" + hex(theme.color(Tone::kWindow)) + "\"/>\n";
  const auto text = [&](float x, float y, const char* anchor, Tone color, const std::string& words, const char* more) {
    out += strf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\"%s>", x, y, anchor, hex(theme.color(color)).c_str(), more) + xmlEscaped(words) + "</text>\n";
  };
  const auto box = [&](const SceneBox& b) {
    const bool frame = b.kind == SceneBox::Kind::kFrame;
    const BoxFill fill = colouring.of(b);
    Color inside = fill.heat >= 0 ? theme.heat(fill.heat) : fill.fill >= 0 ? theme.fill(static_cast<std::uint64_t>(fill.fill)) : theme.color(fill.tone);
    if (frame) inside = theme.mix(theme.color(Tone::kWindow), theme.color(Tone::kRaised), b.depth % 2 == 0 ? 0.45 : 0.9);
    const Tone border = frame ? Tone::kLine : outline(b.change);
    out += strf("<g><title>%s</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"5\" fill=\"%s\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n",
                xmlEscaped(boxTip(graph_scene.source(), b)).c_str(), b.rect.x, b.rect.y, b.rect.width, b.rect.height, hex(inside).c_str(), hex(theme.color(border)).c_str(),
                b.change == Change::kNone ? "1" : "2", b.change == Change::kRemoved ? " stroke-dasharray=\"5 3\"" : "");
    const float middle = b.rect.x + b.rect.width / 2;
    if (frame) {
      text(b.rect.x + 10, b.rect.y + 17, "start", Tone::kSecondary, b.title, "");
    } else {
      const float y = b.rect.y + (b.subtitle.empty() ? b.rect.height / 2 + 4 : b.rect.height / 2 - 2);
      text(middle, y, "middle", Tone::kText, fitting(b.title, b.rect.width - 10, SceneMetrics::kCharWidth), " font-weight=\"600\"");
      if (!b.subtitle.empty()) text(middle, b.rect.y + b.rect.height - 6, "middle", Tone::kSecondary, fitting(b.subtitle, b.rect.width - 10, SceneMetrics::kSmallCharWidth), " font-family=\"monospace\" font-size=\"10\"");
      const char* sign = b.change == Change::kAdded ? "+" : b.change == Change::kRemoved ? "\u2212" : b.change == Change::kChanged ? "~" : "";
      if (*sign) text(b.rect.x + 4, b.rect.y + 12, "start", outline(b.change), sign, " font-weight=\"700\"");
      if (!fill.letter.empty() && b.node >= 0) text(b.rect.right() - 4, b.rect.y + 10, "end", Tone::kSecondary, fill.letter, " font-size=\"9\"");
    }
    out += "</g>\n";
  };
  for (const SceneBox& b : scene.boxes)
    if (b.kind == SceneBox::Kind::kFrame) box(b);
  for (const SceneEdge& e : scene.edges) {
    if (e.portal || e.points.size() < 2) continue;
    const Tone color = e.change == Change::kRemoved ? Tone::kRemoved : e.change == Change::kAdded ? Tone::kAdded : e.kind == LinkKind::kCollective ? Tone::kTransfer : e.kind == LinkKind::kSaved ? Tone::kSaved : Tone::kSecondary;
    out += strf("<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s d=\"M%.1f %.1f", hex(theme.color(color)).c_str(), e.kind == LinkKind::kCollective ? "2" : "1.2",
                e.kind == LinkKind::kSaved ? " stroke-dasharray=\"5 3\"" : "", e.points[0].x, e.points[0].y);
    for (std::size_t i = 1; i < e.points.size(); ++i) {
      const Point a = e.points[i - 1], b = e.points[i];
      const float bend = (b.y - a.y) / 2;
      out += strf(" C%.1f %.1f %.1f %.1f %.1f %.1f", a.x, a.y + bend, b.x, b.y - bend, b.x, b.y);
    }
    out += "\"/>\n";
  }
  for (const SceneBox& b : scene.boxes)
    if (b.kind != SceneBox::Kind::kFrame) box(b);
  return out + "</svg>\n";
}

Status exportText(GraphDocument& document, const std::string& path, const Theme& theme) {
  if (document.scene() == nullptr || document.colouring() == nullptr) return makeError("usage", "export: no graph is open", Outcome::kNo);
  std::string bytes;
  if (path.ends_with(".svg")) {
    bytes = sceneSvg(*document.scene(), *document.colouring(), theme);
  } else if (path.ends_with(".txt")) {
    bytes = ir::printGraph(*document.source()->graph);
  } else {
    Error e = makeError("usage", "a graph is not exported as " + path, Outcome::kNo);
    e.legal = ".png, .svg, .txt";
    return e;
  }
  return writeWholeFile(path, bytes);
}

}  // namespace spscope::ui
