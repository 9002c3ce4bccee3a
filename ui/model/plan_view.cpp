// SPDX-License-Identifier: Apache-2.0
#include "ui/model/plan_view.h"

#include <algorithm>
#include <cmath>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/session/plan/peak_curves.h"

namespace spscope::ui {
namespace {

using session::PlanWant;

constexpr double kLeft = 66, kRight = 74, kTop = 22, kBottom = 20;

Error usage(const std::string& message, const std::string& legal) {
  Error e = makeError("usage", message, Outcome::kUsage);
  e.legal = legal;
  return e;
}

PlanWant wantOf(const std::string& text) { return text == "fits" ? PlanWant::kFits : text == "table" ? PlanWant::kTable : PlanWant::kMaxSeq; }

std::string bytesText(double bytes) { return formatBytes(std::llround(bytes)); }

std::string classesText(const session::Footprint& f) {
  std::string out = strf("At %lld tokens:", static_cast<long long>(f.seq));
  for (std::size_t c = 0; c < passes::kMemoryClasses; ++c)
    out += "\n" + std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c))) + " " + formatBytes(f.classes[c]);
  out += "\npeak at %" + f.peak_node + (f.peak_source.empty() ? "" : " (" + f.peak_source + ")");
  if (f.reserved) out += "\nthe allocator reserves " + formatBytes(f.reserved->reserved) + ", " + formatBytes(f.reserved->least) + " at least";
  for (const std::string& modelled : f.modelled) out += "\nmodelled: " + modelled;
  return out;
}

}  // namespace

PlanView::PlanView(Workspace& workspace) : workspace_(workspace), self_(std::make_shared<PlanView*>(this)) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kBusy || topic == Topic::kSettings) tell();
  });
  tell();
}

PlanView::~PlanView() {
  *self_ = nullptr;
  workspace_.unlisten(listener_);
  workspace_.lanes().cancel("plan");
}

std::vector<PlanField> PlanView::fields() const {
  std::vector<std::string> devices;
  for (const auto& [name, path] : session::deviceProfiles()) devices.push_back(name);
  return {{"device", "Device", "A profile that comes with the program, or a .toml file (docs/planning.md)", asked_.device, devices, true},
          {"gpus", "Devices", "How many there are", std::to_string(asked_.gpus), {"1", "2", "4", "8", "16"}, true},
          {"want", "Question", "max-seq: the longest context of each configuration; table: what each takes at the model's length; fits: the same, the least work first", asked_.want, {"max-seq", "table", "fits"}, false},
          {"headroom", "Headroom, %", "Share of the capacity that is left alone", asked_.headroom, {"0", "3", "5", "10"}, true}};
}

Status PlanView::set(const std::string& name, const std::string& value) {
  if (name == "device") {
    if (value.empty()) return usage("device: no name", "a name of the list, or a .toml file");
    asked_.device = value;
  } else if (name == "gpus") {
    if (int n = 0; readNumber(value, n, 1, 4096)) asked_.gpus = n;
    else return usage("gpus " + value + " is no number of devices", "1 to 4096");
  } else if (name == "want") {
    if (value != "max-seq" && value != "fits" && value != "table") return usage("want " + value + " is unknown", "max-seq, fits, table");
    asked_.want = value;
  } else if (name == "headroom") {
    if (double h = 0; readNumber(value, h, 0.0, 90.0)) asked_.headroom = value;
    else return usage("headroom " + value + " is no share in percent", "0 to 90");
  } else {
    return usage("there is no field " + name, "device, gpus, want, headroom");
  }
  tell();
  return {};
}

std::string PlanView::whyNotPlan() const {
  if (!workspace_.model()) return "Open a model first.";
  if (running()) return "It is being planned.";
  return {};
}

void PlanView::plan() {
  if (!workspace_.model()) return;
  const Asked asked = asked_;
  workspace_.lanes().submit("plan", [asked, model = workspace_.model(), settings = workspace_.settings(), self = self_](const JobContext& context) -> std::function<void()> {
    auto outcome = std::make_shared<session::PlanOutcome>();
    auto error = std::make_shared<std::optional<Error>>();
    DiagnosticSink quiet;
    session::Request request;
    request.cancel = context.cancel;
    request.progress = context.progress;
    request.diagnostics = &quiet;
    try {
      session::PlanRequest what;
      what.open = settings.open;
      what.open.path = model->path;
      what.settings = settings.compile;
      what.settings.threads = 0;
      what.space.gpus = asked.gpus;
      what.want = wantOf(asked.want);
      what.headroom = std::stod(asked.headroom) / 100;
      Result<session::DeviceProfile> profile = session::readDeviceProfile(asked.device);
      if (profile) {
        what.profile = std::move(*profile);
        what.settings.device = what.profile.device;
        if (Result<session::PlanOutcome> out = session::plan(what, request); out) *outcome = std::move(*out);
        else *error = out.error();
      } else {
        *error = profile.error();
      }
    } catch (const std::exception& e) {  // memory that is not there
      *error = makeError("internal", e.what());
    }
    return [asked, model, outcome, error, self] {
      PlanView* view = *self;
      if (view == nullptr) return;
      view->answered_ = asked;
      view->planned_path_ = model->path;
      view->error_ = *error;
      view->outcome_ = *error ? nullptr : outcome;
      view->focus_ = 0;
      if (*error) view->workspace_.log({Severity::kError, "plan", (*error)->code, (*error)->message, {}, {}, (*error)->legal});
      view->tell();
    };
  });
  tell();
}

void PlanView::tell() {
  if (!workspace_.model()) {
    header_ = "Open a model, then ask what fits.";
  } else if (running()) {
    const JobProgress& p = workspace_.progress();
    header_ = p.lane == "plan" && p.total > 0 ? strf("%lld of %lld %s", static_cast<long long>(p.done), static_cast<long long>(p.total), p.what.c_str()) : "Planning";
  } else if (error_) {
    header_ = error_->message + (error_->legal.empty() ? "" : " (legal: " + error_->legal + ")");
  } else if (outcome_ && !outcome_->rows.empty()) {
    const session::PlanRow& row = outcome_->rows.front();
    std::string device = answered_.device.substr(answered_.device.find_last_of('/') + 1);
    if (device.ends_with(".toml")) device.resize(device.size() - 5);
    const std::string where = strf("%d x %s", answered_.gpus, device.c_str());
    if (wantOf(answered_.want) == PlanWant::kMaxSeq)
      header_ = row.max_seq > 0 ? strf("Longest on %s: %lld tokens with ", where.c_str(), static_cast<long long>(row.max_seq)) + row.configuration.text() : "Nothing fits surely on " + where;
    else
      header_ = strf("%lld tokens on %s: ", static_cast<long long>(outcome_->file_seq), where.c_str()) + session::verdictText(row) + " with " + row.configuration.text();
    if (planned_path_ != workspace_.model()->path) header_ += " (of what was open before)";
  } else {
    header_ = "Which configurations fit, and how long a context can be: choose a device, then Plan.";
  }
  if (on_changed) on_changed();
}

std::vector<std::string> PlanView::columns() const {
  if (wantOf(answered_.want) == PlanWant::kMaxSeq) return {"sp x dp", "ZeRO", "memory", "loss", "longest", "perhaps", "peak there", "a step", "work", "needs in all"};
  return {"sp x dp", "ZeRO", "memory", "loss", "verdict", "peak", "a step", "work", "needs in all"};
}

std::vector<PlanTableRow> PlanView::rows() const {
  std::vector<PlanTableRow> out;
  if (!outcome_) return out;
  const bool longest = wantOf(answered_.want) == PlanWant::kMaxSeq;
  double least = 0;
  for (const session::PlanRow& row : outcome_->rows)
    if (!row.illegal && (least == 0 || row.work_per_token < least)) least = row.work_per_token;
  for (std::size_t i = 0; i < outcome_->rows.size(); ++i) {
    const session::PlanRow& row = outcome_->rows[i];
    const session::Configuration& c = row.configuration;
    PlanTableRow r;
    r.legal = !row.illegal;
    r.focused = static_cast<int>(i) == focus_;
    r.best = std::find(outcome_->pareto.begin(), outcome_->pareto.end(), i) != outcome_->pareto.end();
    r.verdict = row.verdict;
    r.cells = {strf("%d x %d", c.sp, c.dp), std::to_string(c.zero), c.save, c.tile_loss ? "tiled" : "whole"};
    if (row.illegal) {
      r.tooltip = row.illegal->message + (row.illegal->legal.empty() ? "" : "\nlegal: " + row.illegal->legal);
      r.cells.emplace_back("not legal");
    } else {
      r.tooltip = classesText(row.footprint);
      const std::string star = r.best ? " *" : "";
      if (longest) r.cells.insert(r.cells.end(), {row.max_seq > 0 ? std::to_string(row.max_seq) + star : "-", row.possible_seq > row.max_seq ? std::to_string(row.possible_seq) : "-"});
      else r.cells.push_back(session::verdictText(row) + star);
      r.cells.push_back(bytesText(static_cast<double>(row.footprint.peak_high)));
      r.cells.push_back(session::timeText(row.footprint.time));
      r.cells.push_back(least > 0 ? strf("%.2f", row.work_per_token / least) : "-");
      r.cells.push_back(bytesText(row.need_low) + " to " + bytesText(row.need_high));
    }
    r.cells.resize(columns().size());
    out.push_back(std::move(r));
  }
  return out;
}

void PlanView::focus(int row) {
  if (!outcome_ || row < 0 || row >= static_cast<int>(outcome_->rows.size()) || row == focus_) return;
  focus_ = row;
  tell();
}

Status PlanView::take(int row) {
  const int count = outcome_ ? static_cast<int>(outcome_->rows.size()) : 0;
  if (row < 0 || row >= count) return usage(strf("there is no row %d", row + 1), count > 0 ? strf("1 to %d", count) : "plan first");
  const session::PlanRow& r = outcome_->rows[static_cast<std::size_t>(row)];
  if (r.illegal) return usage("row " + std::to_string(row + 1) + " is not legal: " + r.illegal->message, r.illegal->legal);
  const session::Configuration& c = r.configuration;
  if (c.zero > 1) workspace_.log({Severity::kWarning, "plan", "plan-modelled", strf("ZeRO %d is modelled only: the settings have ZeRO 1", c.zero), {}, {}, {}});
  focus_ = row;
  const auto outcome = outcome_;  // what is set is heard: it must not go meanwhile
  const std::pair<const char*, std::string> settings[] = {
      {"sp", std::to_string(c.sp)}, {"dp", std::to_string(c.dp)}, {"batch", std::to_string(c.batch)}, {"seq", std::to_string(r.footprint.seq)}, {"save", c.save},
      {"zero", std::to_string(std::min(c.zero, 1))}, {"tile-loss", c.tile_loss ? "on" : "off"}};
  for (const auto& [name, value] : settings) SP_TRY(workspace_.set(name, value));
  workspace_.compile();
  tell();
  return {};
}

PlanPicture PlanView::picture(double width, double height) const {
  PlanPicture out;
  out.left = kLeft;
  out.top = kTop;
  out.right = std::max(kLeft + 1, width - kRight);
  out.bottom = std::max(kTop + 1, height - kBottom);
  if (!outcome_) {
    out.absent = running() ? "Planning" : "The peak against the length, once it is planned.";
    return out;
  }
  const session::PeakCurves curves = session::peakCurves(*outcome_, static_cast<std::size_t>(focus_));
  if (curves.curves.empty()) {
    const bool illegal = outcome_->rows[static_cast<std::size_t>(focus_)].illegal.has_value();
    out.absent = illegal ? "This configuration is not legal." : "One length has no curve: ask for max-seq.";
    return out;
  }
  double most = std::max(1.0, curves.room.hopeful), last = 1;
  for (const session::PeakCurve& curve : curves.curves)
    for (const session::PeakCurve::Point& p : curve.points) most = std::max(most, p.bytes), last = std::max(last, static_cast<double>(p.seq));
  most *= 1.05;
  const auto atX = [&](double seq) { return out.left + seq / last * (out.right - out.left); };
  const auto atY = [&](double bytes) { return out.bottom - bytes / most * (out.bottom - out.top); };
  const session::Configuration& c = outcome_->rows[static_cast<std::size_t>(focus_)].configuration;
  out.title = strf("Peak of one rank: sp %d, dp %d, ZeRO %d, %s", c.sp, c.dp, c.zero, c.tile_loss ? "tiled loss" : "whole loss");
  for (std::size_t i = 0; i < curves.curves.size(); ++i) {
    const session::PeakCurve& curve = curves.curves[i];
    PlanPicture::Line line;
    line.number = static_cast<int>(i);
    line.name = curve.name;
    for (const session::PeakCurve::Point& p : curve.points) line.points.push_back({atX(static_cast<double>(p.seq)), atY(p.bytes)});
    if (curve.longest > 0) {
      line.longest = PlanPicture::Point{atX(static_cast<double>(curve.longest)), atY(curve.bytes_there)};
      line.longest_text = std::to_string(curve.longest);
    }
    out.lines.push_back(std::move(line));
  }
  const double step = std::exp2(std::ceil(std::log2(most / std::clamp((out.bottom - out.top) / 28, 1.0, 5.0))));
  for (double y = 0; y <= most; y += step) out.scale.push_back({atY(y), bytesText(y)});
  const double power = std::pow(10, std::floor(std::log10(last / 4)));
  const double across = power * (last / 4 >= 5 * power ? 5 : last / 4 >= 2 * power ? 2 : 1) ;
  const double enough = std::max(across, across * std::ceil(last / across / std::max(1.0, (out.right - out.left) / 90)));
  for (double x = 0; x <= last; x += enough) out.lengths.push_back({atX(x), strf("%.0f", x)});
  if (curves.room.sure > 0) out.room.push_back({atY(curves.room.sure), "fits below " + bytesText(curves.room.sure)});
  if (curves.room.hopeful > curves.room.sure) out.room.push_back({atY(curves.room.hopeful), "perhaps below " + bytesText(curves.room.hopeful)});
  if (out.room.size() == 2 && out.room[0].at - out.room[1].at < 16) std::swap(out.room[1].text, out.room[0].text), out.room[0].text.clear();  // room for one name
  return out;
}

}  // namespace spscope::ui
