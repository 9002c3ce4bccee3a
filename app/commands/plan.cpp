// SPDX-License-Identifier: Apache-2.0
// spscope plan: which configurations fit a device, and how long each can go.
#include "core/session/plan/plan.h"

#include <algorithm>

#include "app/commands/command.h"
#include "app/commands/plan_report.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

class Plan : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string summary() const override { return "what fits a device, and how long a context can be, in which configuration"; }
  std::string description() const override {
    std::string text =
        "Compiles a model in many configurations and holds the predicted peak of a rank's step against what a device has: its capacity without the headroom, less what lies "
        "outside of torch's allocator, less the buffers of communicators. The last two are intervals, so the answer may be `uncertain`. Nothing is run, and no device is needed.\n"
        "With --want max-seq the longest sequence of each configuration is searched for; the length that is printed was compiled, and one step more does not surely fit.\n"
        "Devices that are known:";
    for (const auto& [device, path] : session::deviceProfiles()) text += "\n  " + device;
    return text;
  }
  std::string examples() const override {
    return "  spscope plan model.pt2 --on H100-80 --gpus 8                               how long, with what\n"
           "  spscope plan model.pt2 --on A100-40 --gpus 4 --want fits --seq 65536       does anything fit?\n"
           "  spscope plan model.pt2 --on H200-141 --gpus 8 --save sac --zero 1 --row 1  the first row's run command";
  }
  std::string meaningOfNo() const override { return "nothing fits surely (--want fits, max-seq); cancelled; or an output could not be written"; }

  void declare(CLI::App& command) override {
    model_.declare(command);
    command.remove_option(command.get_option("--batch"));
    command.option_defaults()->group("Device");
    command.add_option("--on", on_, "a device that is known (see above), or a profile: a .toml file (docs/planning.md)")->required()->type_name("DEVICE");
    command.add_option("--gpus", space_.gpus, "devices per node")->required()->check(CLI::Range(1, 4096))->type_name("N");
    command.add_option("--nodes", space_.nodes, "nodes")->check(CLI::Range(1, 4096))->capture_default_str()->type_name("N");
    command.add_option("--headroom", headroom_, "share of the capacity that is left alone, for what the allocator cannot use")->capture_default_str()->type_name("X%");
    command.option_defaults()->group("Question");
    command.add_option("--want", want_, "max-seq: the longest sequence of each configuration; fits: does one fit at this length; table: what each one takes at this length")
        ->check(CLI::IsMember({"max-seq", "fits", "table"}))->capture_default_str()->type_name("max-seq|fits|table");
    command.add_option("--step", step_, "sequences are multiples of it (default: 1024; 16 where the file's is shorter)")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))->type_name("N");
    command.add_option("--longest", most_, "no longer sequence is looked at")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 36))->capture_default_str()->type_name("N");
    command.option_defaults()->group("Configurations");
    command.add_option("--sp", space_.sp, "ranks that share a sequence, a list: 2,4 (default: every divisor of all ranks)")->delimiter(',')->type_name("P");
    command.add_option("--dp", space_.dp, "replicas, a list (default: as many as there are ranks for)")->delimiter(',')->type_name("D");
    command.add_option("--zero", space_.zero, "a list of 0, 1, 2, 3; 2 and 3 are modelled (default: 0,1)")->delimiter(',')->check(CLI::Range(0, 3))->type_name("Z");
    command.add_option("--save", space_.save, "what is kept, a list of all, sac, min-cut, layer-inputs, budget=F (default: all four)")->delimiter(',')->type_name("POLICY");
    command.add_option("--batch", space_.batch, "rows of all replicas together, a list (default: the file's, or one per replica)")->delimiter(',')->type_name("B");
    command.add_flag("--rivals", rivals_, "instead of all combinations: how others train this graph on these devices, and how we do (docs/planning.md)");
    offload_flag_ = command.add_option("--offload", offload_, "what lies on the host, modelled: a list of none, checkpoints, optimizer, checkpoints+optimizer (all); alone: none,checkpoints")
                        ->expected(0, 1)->type_name("LIST");
    command.add_flag("--tile-mlp", tile_mlp_, "with MLPs a tile of tokens at a time, too; modelled");
    command.add_flag("--expandable-segments", expandable_, "PyTorch's allocator as PYTORCH_ALLOC_CONF=expandable_segments:True sets it: pages instead of blocks, which leave fewer gaps");
    command.add_flag("--grid", grid_, "every row at doubling lengths, too, from the first one to the first that does not fit");
    CLI::Option* tiled = command.add_flag("--tile-loss", tiled_, "only with the loss a block of tokens at a time (default: both)");
    command.add_flag("--whole-loss", whole_, "only with the loss as a whole")->excludes(tiled);
    command.add_option("--optimizer", settings_.optimizer, "what updates the weights; adamw keeps two moments of each")->check(CLI::IsMember({"adamw", "sgd"}))->capture_default_str()->type_name("adamw|sgd");
    command.add_option("--accumulate", settings_.accumulate, "batches per step of the optimizer")->check(CLI::Range(1, 1 << 20))->capture_default_str()->type_name("K");
    command.add_option("--master-weights", master_weights_, "on: 16-bit parameters are trained on float32 copies, with float32 optimizer states")
        ->check(CLI::IsMember({"on", "off"}))->capture_default_str()->type_name("on|off");
    command.add_option("--grad-dtype", grad_dtype_, "in what gradients of 16-bit parameters are summed over the ranks; param: in their own type")
        ->check(CLI::IsMember({"float32", "param"}))->capture_default_str()->type_name("float32|param");
    command.add_option("--threads", threads_, "threads that plan (default: cores)")->check(CLI::Range(1, 4096))->type_name("N");
    command.option_defaults()->group("Output");
    command.add_option("--row", row_, "explain this row: its run command, memory by class, levers")->check(CLI::Range(1, 1 << 20))->type_name("N");
    command.add_option("--markdown", markdown_, "write the answer as Markdown; -: to standard output, in place of the text")->type_name("OUT");
  }

  bool mayBeAbandoned() const override { return true; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    session::PlanRequest what;
    SP_ASSIGN(what.open, model_.request());
    SP_ASSIGN(what.open, session::resolveStage(what.open));
    SP_ASSIGN(what.profile, session::readDeviceProfile(on_));
    SP_ASSIGN(what.headroom, headroom());
    what.space = space_;
    if (tiled_) what.space.tile_loss = {true};
    if (whole_) what.space.tile_loss = {false};
    if (tile_mlp_) what.space.tile_mlp = {false, true};
    if (offload_flag_->count() > 0) {
      SP_ASSIGN(what.space.offload, session::parseOffloads(offload_.empty() ? "none,checkpoints" : offload_));
    }
    what.rivals = rivals_;
    if (rivals_)
      for (const auto& [flag, given] : {std::pair{"--sp", !space_.sp.empty()}, {"--dp", !space_.dp.empty()}, {"--save", !space_.save.empty()}})
        if (given) return makeError("usage", std::string("--rivals and ") + flag + ": a rival is a mesh and a memory policy of its own", Outcome::kUsage);
    what.grid = grid_;
    what.expandable_segments = expandable_;
    if (expandable_ && what.profile.device != "cuda") return makeError("usage", "--expandable-segments: only the allocator of a GPU has them, and " + what.profile.name + " is none", Outcome::kUsage);
    what.want = want_ == "fits" ? session::PlanWant::kFits : want_ == "table" ? session::PlanWant::kTable : session::PlanWant::kMaxSeq;
    what.step = step_;
    what.most = most_;
    what.threads = threads_;
    what.settings = settings_;
    what.settings.device = what.profile.device;
    what.settings.threads = 0;
    what.settings.master_weights = master_weights_ == "on";
    what.settings.wide_gradients = grad_dtype_ == "float32";
    SP_ASSIGN(what.settings.sequence_marks, model_.marks());
    SP_ASSIGN(const session::PlanOutcome outcome, session::plan(what, request));
    report.stopClock();
    if (!outcome.has_sequence && what.want == session::PlanWant::kMaxSeq) what.want = session::PlanWant::kTable;
    const std::size_t legal = legalRows(outcome);
    if (row_ > 0 && static_cast<std::size_t>(row_) > legal) {
      Error e = makeError("usage", strf("--row %d: there are %zu legal rows", row_, legal), Outcome::kUsage);
      e.legal = strf("--row 1 to %zu", legal);
      return e;
    }
    const std::size_t row = row_ > 0 ? static_cast<std::size_t>(row_ - 1) : startOfLevers(outcome, what.want);
    addPlanJson(report.json, what, outcome, row);
    SP_TRY(report.answer(planPage(what, outcome, row, row_ > 0), markdown_, "spscope plan " + model_.path));
    const bool any = std::any_of(outcome.rows.begin(), outcome.rows.end(), [](const session::PlanRow& r) { return !r.illegal && r.verdict == session::Verdict::kFits; });
    return what.want == session::PlanWant::kTable || any ? 0 : 1;
  }

 private:
  /// "3%", "3 %" or 3: a share.
  Result<double> headroom() const {
    std::string text = headroom_;
    while (!text.empty() && (text.back() == '%' || text.back() == ' ')) text.pop_back();
    if (!text.empty() && numberFrom(0, 90)(text).empty()) return std::stod(text) / 100;
    Error e = makeError("usage", "--headroom " + headroom_ + " is no share", Outcome::kUsage);
    e.legal = "--headroom 0% to 90%";
    return e;
  }

  ModelFlags model_;
  session::ConfigurationSpace space_;
  passes::Settings settings_;
  std::string on_, want_ = "max-seq", headroom_ = "3%", markdown_, master_weights_ = "on", grad_dtype_ = "float32", offload_;
  CLI::Option* offload_flag_ = nullptr;
  std::int64_t step_ = 0, most_ = std::int64_t{1} << 24;
  int row_ = 0, threads_ = 0;
  bool tiled_ = false, whole_ = false, rivals_ = false, tile_mlp_ = false, grid_ = false, expandable_ = false;
};

}  // namespace

std::unique_ptr<Command> makePlan() { return std::make_unique<Plan>(); }

}  // namespace spscope::app
