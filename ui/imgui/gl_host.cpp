// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/gl_host.h"

#include <imgui.h>
#include <imgui_impl_opengl3.h>

#include <QGuiApplication>
#include <QOffscreenSurface>
#include <QOpenGLContext>
#include <QOpenGLFunctions>
#include <cmath>

namespace spscope::ui {

bool GlHost::worthwhile() {
  const QString wanted = qEnvironmentVariable("SPSCOPE_TIMELINE");  // "gl", "raster"; otherwise what fits
  static const QStringList kPlatforms{QStringLiteral("xcb"), QStringLiteral("wayland"), QStringLiteral("windows"), QStringLiteral("cocoa"), QStringLiteral("eglfs")};
  if (wanted == QLatin1String("raster") || !kPlatforms.contains(QGuiApplication::platformName())) return false;
  QOffscreenSurface surface;
  surface.create();
  QOpenGLContext context;
  if (!context.create() || !context.makeCurrent(&surface)) return false;
  const auto* name = reinterpret_cast<const char*>(context.functions()->glGetString(GL_RENDERER));
  const QString renderer = QString::fromLatin1(name ? name : "").toLower();
  context.doneCurrent();
  const bool software = renderer.isEmpty() || renderer.contains(QLatin1String("llvmpipe")) || renderer.contains(QLatin1String("softpipe")) ||
                        renderer.contains(QLatin1String("swrast")) || renderer.contains(QLatin1String("software"));
  return !software || wanted == QLatin1String("gl");
}

GlHost::GlHost(ImguiCore& core, QWidget* parent) : QOpenGLWidget(parent), core_(core) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_InputMethodEnabled);
  core_.wake = [this] { update(); };
  core_.fonts_changed = [this] {
    if (!ready_ || !drawn_) return;
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_CreateFontsTexture();
  };
}

GlHost::~GlHost() {
  makeCurrent();
  release();
  doneCurrent();
  core_.wake = nullptr, core_.fonts_changed = nullptr;
}

void GlHost::release() {
  if (!ready_) return;
  core_.makeCurrent();
  ImGui_ImplOpenGL3_Shutdown();
  ready_ = drawn_ = false;
}

void GlHost::initializeGL() {
  // Floating a dock makes a new context: what belongs to the old one goes before it.
  connect(context(), &QOpenGLContext::aboutToBeDestroyed, this, [this] {
    makeCurrent();
    release();
    doneCurrent();
  }, Qt::DirectConnection);
  core_.makeCurrent();
  const auto version = context()->format().version();
  ImGui_ImplOpenGL3_Init(context()->isOpenGLES() ? "#version 300 es" : version >= qMakePair(3, 2) ? "#version 150" : "#version 130");
  ready_ = true;
}

void GlHost::paintGL() {
  if (!ready_) return;
  core_.makeCurrent();
  const double scale = devicePixelRatioF();
  const int width_px = static_cast<int>(std::lround(width() * scale)), height_px = static_cast<int>(std::lround(height() * scale));
  ImDrawData* drawn = core_.frame(width_px, height_px, scale);
  ImGui_ImplOpenGL3_NewFrame();  // makes its objects and the fonts' texture where there are none yet
  drawn_ = true;
  const Color ground = core_.theme().color(Tone::kPanel);
  QOpenGLFunctions* gl = context()->functions();
  gl->glViewport(0, 0, width_px, height_px);
  gl->glClearColor(static_cast<float>(ground.r) / 255, static_cast<float>(ground.g) / 255, static_cast<float>(ground.b) / 255, 1);
  gl->glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(drawn);
  if (const auto shape = static_cast<Qt::CursorShape>(core_.cursorShape()); cursor().shape() != shape) setCursor(shape);
}

bool GlHost::event(QEvent* event) {
  if (core_.handle(event, this)) return true;
  if (event->type() == QEvent::Show || event->type() == QEvent::Resize) core_.request();
  return QOpenGLWidget::event(event);
}

}  // namespace spscope::ui
