// SPDX-License-Identifier: Apache-2.0
// spscope calibrate: this machine as a device profile, for spscope plan.
#include "core/session/plan/calibrate.h"

#include "app/commands/command.h"
#include "app/options.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

class Calibrate : public Command {
 public:
  std::string name() const override { return "calibrate"; }
  std::string summary() const override { return "measure this machine: a device profile for plan"; }
  std::string description() const override {
    return "Measures matrix products, attention, memory and small kernels with all cores, lets rank processes talk to each other over Gloo, looks at what a rank takes besides its tensors and at how "
           "much memory there is, and writes a profile in which every figure is an interval and says how it was measured. Do it on a machine that does nothing else.";
  }
  std::string examples() const override {
    return "  spscope calibrate -o here.toml\n"
           "  spscope plan model.pt2 --on here.toml --gpus 2";
  }
  std::string meaningOfNo() const override { return "cancelled; or the profile could not be written"; }

  void declare(CLI::App& command) override {
    command.add_option("-o,--output", output_, "the profile to write; -: to standard output")->required()->type_name("FILE");
    command.add_option("--name", what_.name, "of the profile")->capture_default_str()->type_name("NAME");
    command.add_option("--device", what_.device, "what is measured; GPUs cannot be measured yet")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str()->type_name("cpu|cuda");
    command.add_option("--ranks", what_.ranks, "ranks that talk to each other")->check(CLI::Range(2, 64))->capture_default_str()->type_name("P");
    command.add_option("--seconds", what_.seconds, "for the kernels")->check(numberFrom(0.1, 600))->capture_default_str()->type_name("S");
  }

  Result<int> run(Report& report, const session::Request& request) override {
    if (output_ != "-") SP_TRY(checkOutput(output_));  // before anything is measured
    SP_ASSIGN(const session::DeviceProfile profile, session::calibrate(what_, request));
    const std::string text = session::deviceProfileText(profile, "A device profile for spscope plan (docs/planning.md), measured by spscope calibrate.");
    SP_TRY(session::parseDeviceProfile(output_, text));  // what plan would say of it is said here
    report.stopClock();
    report.json["output"] = output_;
    report.json["profile"] = Json::object();
    std::vector<std::vector<std::string>> rows{{"figure", "low", "high", "source"}};
    const auto add = [&](const char* name, const session::Figure& f, const char* unit, double scale) {
      if (f.high == 0 && f.source.empty()) return;
      report.json["profile"][name] = {{"low", f.low}, {"high", f.high}, {"source", f.source}};
      rows.push_back({name, scale == 0 ? formatBytes(static_cast<std::int64_t>(f.low)) : strf("%.4g %s", f.low * scale, unit), scale == 0 ? formatBytes(static_cast<std::int64_t>(f.high)) : strf("%.4g %s", f.high * scale, unit), f.source});
    };
    add("memory.capacity", profile.capacity, "", 0);
    add("memory.outside", profile.outside, "", 0);
    add("communication.per_group", profile.per_group, "", 0);
    add("compute.matmul", profile.matmul, "GFLOP/s", 1);
    add("compute.matmul_float32", profile.matmul_float32, "GFLOP/s", 1);
    add("compute.memory", profile.memory, "GB/s", 1);
    add("compute.launch", profile.launch, "us", 1e-3);
    for (const auto& [kernel, figure] : profile.attention) add(("attention." + kernel).c_str(), figure, "GFLOP/s", 1);
    add("links.node", profile.node_link, "GB/s", 1);
    add("links.node_latency", profile.node_latency, "us", 1e-3);
    if (output_ == "-") {
      std::string shown = text;
      shown.pop_back();
      report.page.line(shown);
      return 0;
    }
    SP_TRY(writeOutput(output_, text));
    report.page.table(std::move(rows));
    report.page.line("written to " + output_ + ": spscope plan MODEL --on " + output_ + " --gpus N");
    return 0;
  }

 private:
  session::CalibrateRequest what_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> makeCalibrate() { return std::make_unique<Calibrate>(); }

}  // namespace spscope::app
