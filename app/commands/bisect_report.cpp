// SPDX-License-Identifier: Apache-2.0
#include "app/commands/bisect_report.h"

#include "core/base/strings.h"

namespace spscope::app {

namespace {

/// Where only values were compared, what has no counterpart in the unsharded graph (labels, for one) was not.
bool sawAll(const session::BisectStage& s) { return s.judged_by.starts_with("loss"); }

}  // namespace

Json bisectJson(const session::Bisection& b) {
  Json stages = Json::array();
  for (const session::BisectStage& s : b.stages) {
    Json row = {{"pass", s.pass}, {"verdict", s.judged_by.empty() ? "not run" : s.equal ? "equal" : "different"}, {"judged_by", s.judged_by}, {"whole", sawAll(s)}};
    if (!s.judged_by.empty() && s.judged_by != "values") row["loss_rel"] = s.loss_rel;
    if (s.judged_by == "loss and gradients") row["grad_rel_max"] = s.grad_rel_max;
    stages.push_back(std::move(row));
  }
  Json out = {{"pass", b.pass}, {"suspects", b.suspects}, {"stages", std::move(stages)}, {"rewrite", nullptr}};
  if (const auto& r = b.rewrite) out["rewrite"] = {{"application", r->application}, {"applications", r->applications}, {"node", r->node}, {"judged_by", r->judged_by}};
  return out;
}

void bisectPage(Page& page, const session::Bisection& b) {
  std::vector<std::vector<std::string>> rows{{"after", "is", "judged by", "loss", "worst gradient"}};
  bool unseen = false;
  for (const session::BisectStage& s : b.stages) {
    const bool partly = s.equal && !s.judged_by.empty() && !sawAll(s);
    unseen = unseen || partly;
    rows.push_back({s.pass, s.judged_by.empty() ? "not run" : partly ? "nothing seen" : s.equal ? "equal" : "different", s.judged_by, sawAll(s) ? strf("%.3g", s.loss_rel) : "",
                    s.judged_by == "loss and gradients" ? strf("%.3g", s.grad_rel_max) : ""});
  }
  page.table(std::move(rows));
  if (unseen && !b.pass.empty()) page.line("nothing seen: values that have a counterpart in the unsharded graph are right there; others (labels, sums) show later");
  if (b.pass.empty()) page.line("no stage differs with all ranks in this process: look at what the ranks do on their own");
  else if (b.suspects.size() > 1) page.line("first seen after " + b.pass + "; the stages before it that cannot run by themselves are suspects too: " + join(b.suspects, ", "));
  else page.line("the result first differs after " + b.pass);
  if (!b.rewrite) return;
  const auto ll = [](std::int64_t n) { return static_cast<long long>(n); };
  if (b.rewrite->application > 0)
    page.line(strf("with rewrite %lld of the %lld that it makes, at %%", ll(b.rewrite->application), ll(b.rewrite->applications)) + b.rewrite->node + " (judged by " + b.rewrite->judged_by + ")");
  else page.line(strf("its %lld rewrites depend on each other: which of them it was cannot be told", ll(b.rewrite->applications)));
}

}  // namespace spscope::app
