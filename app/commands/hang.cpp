// SPDX-License-Identifier: Apache-2.0
// spscope hang: why somebody's run stands still, from the Flight Recorder's dumps of its ranks.
#include <algorithm>

#include "app/commands/command.h"
#include "core/base/codes.h"
#include "core/base/strings.h"
#include "core/hang/verdict.h"

namespace spscope::app {
namespace {

using io::RecordedOp;
using Rows = std::vector<std::vector<std::string>>;

std::string title(const RecordedOp* op) {
  if (!op) return "-";
  const std::string pair = op->source >= 0 && op->target >= 0 ? strf(" %d->%d", op->source, op->target) : "";
  return op->op + pair + strf(" #%lld", static_cast<long long>(op->seq));
}

std::string place(const RecordedOp* op) {
  const io::RecordedFrame* frame = op ? hang::userFrame(*op) : nullptr;
  return frame ? frame->file + strf(":%lld", static_cast<long long>(frame->line)) + (frame->name.empty() ? "" : " " + frame->name) : "-";
}

Json opJson(const RecordedOp* op) {
  if (!op) return Json();
  Json frames = Json::array();
  for (const auto& f : op->frames) frames.push_back({{"name", f.name}, {"file", f.file}, {"line", f.line}});
  const auto time = [](std::int64_t ns) { return ns > 0 ? Json(ns) : Json(); };
  return {{"op", op->op}, {"seq", op->seq}, {"p2p", op->is_p2p}, {"record", op->record}, {"state", op->state}, {"completed", op->completed}, {"backend", op->backend},
          {"input_sizes", op->input_sizes}, {"input_dtypes", op->input_dtypes}, {"output_sizes", op->output_sizes}, {"output_dtypes", op->output_dtypes},
          {"created_ns", time(op->created_ns)}, {"started_ns", time(op->started_ns)}, {"source", place(op) == "-" ? Json() : Json(place(op))}, {"frames", frames}};
}

class Hang : public Command {
 public:
  std::string name() const override { return "hang"; }
  std::string summary() const override { return "why a run hangs, from PyTorch Flight Recorder dumps of its ranks: who, where, why"; }
  std::string description() const override {
    return "Reads the dumps that PyTorch's Flight Recorder writes when a collective times out (one file a rank, pickled or JSON; nothing in them is executed), puts the ranks' "
           "collectives side by side, and says which rank is at fault, how certain that is, and what the dumps cannot tell. "
           "How dumps are taken: docs/hangs.md.";
  }
  std::string examples() const override {
    return "  spscope hang dumps/                             a folder of rank_0, rank_1 ...\n"
           "  spscope hang /tmp/nccl_trace_rank_*             files\n"
           "  spscope hang /tmp --prefix nccl_trace_rank_     a folder that holds other files too\n"
           "  spscope hang dumps/ --json hang.json";
  }
  std::string meaningOfNo() const override { return "the ranks hang, or do not do the same"; }
  void declare(CLI::App& command) override {
    command.add_option("DUMP", dumps_, "dumps, or folders of them; the rank is the number at the end of a file's name")->required()->type_name("DUMP");
    command.add_option("--prefix", prefix_, "of a folder only the files that begin so")->type_name("TEXT");
  }
  bool mayBeAbandoned() const override { return true; }

  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(dumps_.front());
    SP_ASSIGN(const auto dumps, io::readFlightRecorders(dumps_, prefix_));
    SP_TRY(request.cancel.check());
    if (std::all_of(dumps.begin(), dumps.end(), [](const io::RecorderDump& d) { return d.ops.empty() && d.unreadable_ops == 0; }))
      return makeError("hang-no-entries", dumps.size() == 1 ? dumps.front().path + " holds no collective" : strf("none of the %zu dumps holds a collective", dumps.size()));
    const hang::Finding found = hang::analyse(dumps);
    report.stopClock();
    fill(report.json, dumps, found);
    write(report.page, found);
    return found.verdict.code.empty() || found.verdict.code == "hang-slow-rank" ? 0 : 1;
  }

 private:
  static void fill(Json& json, const std::vector<io::RecorderDump>& dumps, const hang::Finding& found) {
    const hang::Verdict& v = found.verdict;
    json["verdict"] = {{"code", v.code.empty() ? Json() : Json(v.code)}, {"culprits", v.culprits}, {"certainty", v.code.empty() ? Json() : Json(hang::nameOf(v.certainty))}, {"why", v.why},
                       {"group", v.group}, {"seq", v.seq ? Json(*v.seq) : Json()}, {"op", v.op}, {"waiting", v.waiting}, {"missing", v.missing}, {"call", opJson(v.where)}};
    json["dumps"] = Json::array();
    for (const auto& d : dumps)
      json["dumps"].push_back({{"rank", d.rank}, {"file", d.path}, {"format", d.version}, {"comm_lib", d.comm_lib_version}, {"host", d.host}, {"entries", d.ops.size()},
                               {"overwritten", d.ops.empty() ? 0 : d.ops.front().record}, {"unreadable", d.unreadable_ops}});
    json["groups"] = Json::array();
    for (const auto& g : found.groups)
      json["groups"].push_back({{"group", g.title()}, {"ranks", g.members}, {"ranks_known", g.members_known}, {"without_dump", g.without_dump}});
    json["places"] = Json::array();
    for (const auto& p : found.places)
      json["places"].push_back({{"rank", p.rank}, {"group", p.group->title()}, {"last_completed", opJson(p.last_completed)}, {"first_open", opJson(p.first_open)},
                                {"since_ns", p.since_ns > 0 ? Json(p.since_ns) : Json()}});
    json["other"] = found.other;
    json["unknown"] = found.unknown;
  }

  static void write(Page& page, const hang::Finding& found) {
    const hang::Verdict& v = found.verdict;
    if (v.code.empty()) page.line("No hang: nobody waits, and the ranks did the same as far as the dumps reach.");
    else {
      page.line(strf("%s[%s]: %s", v.code == "hang-slow-rank" ? "slow" : "hang", v.code.c_str(), v.why.c_str()));
      const std::string who = v.culprits.empty() ? "cannot be told from the dumps" : hang::ranksText(v.culprits);
      page.line(strf("  at fault: %s (%s)", who.c_str(), std::string(hang::nameOf(v.certainty)).c_str()));
      if (v.seq) page.line(strf("  where: %s #%lld of group %s", v.op.c_str(), static_cast<long long>(*v.seq), v.group.c_str()));
      if (place(v.where) != "-") page.line("  source: " + place(v.where));
      if (const CodeInfo* info = findCode(v.code)) page.line("  remedy: " + std::string(info->remedy));
    }
    Rows rows{{"rank", "group", "last completed", "first not completed", "state", "since", "sizes", "source"}};
    for (const auto& p : found.places)
      rows.push_back({std::to_string(p.rank), p.group->title(), title(p.last_completed), title(p.first_open), p.first_open ? p.first_open->state : "-",
                      p.since_ns > 0 ? formatNs(p.since_ns) : "-", p.first_open ? hang::shapeOf({p.first_open}) : "-", place(p.first_open)});
    page.heading("Where the ranks are");
    page.table(std::move(rows));
    const auto list = [&](const char* heading, const std::vector<std::string>& lines) {
      if (lines.empty()) return;
      page.heading(heading);
      for (const std::string& line : lines) page.line("- " + line);
    };
    list("Also", found.other);
    list("What the dumps cannot tell", found.unknown);
  }

  std::vector<std::string> dumps_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<Command> makeHang() { return std::make_unique<Hang>(); }

}  // namespace spscope::app
