// SPDX-License-Identifier: Apache-2.0
// Commands about the numbers of the whole step, which they run apart from the debugged one.
#include "core/session/debug/command_work.h"

namespace spscope::session::debug {
namespace {

Status wrong(Work& w) {
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.wrong, w.debugger.firstWrong());
  return {};
}

Status bisect(Work& w) {
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.bisection, w.debugger.bisect());
  return {};
}

Status trouble(Work& w) {
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.trouble, firstTrouble(w.debugger.sides(), w.debugger.request()));
  return {};
}

Status curve(Work& w) {
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.curve, errorCurve(w.debugger.sides(), w.debugger.origin(), w.debugger.request()));
  return {};
}

Status spikes(Work& w) {
  SP_ASSIGN(const std::int64_t steps, w.takeCount(20));
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.spikes, findSpikes(steps, w.debugger.sides(), w.debugger.origin(), w.debugger.request()));
  return {};
}

}  // namespace

std::vector<Command> troubleCommands() {
  return {
      {{"wrong", "", "", "the first node of the whole step whose value is not the unsharded one"}, wrong},
      {{"bisect", "", "", "after which pass, and with which of its rewrites, the whole step first differs"}, bisect},
      {{"trouble", "", "", "the first NaN or Inf of the step: which node makes it, of what, and why"}, trouble},
      {{"curve", "", "", "the error of every node against float64; which ops lose digits, which rank is out of line, what leaves its type's range"}, curve},
      {{"spikes", "", "[N]", "train N steps (20): which jump in loss or gradient, by which batch, row and position, from which node on"}, spikes},
  };
}

}  // namespace spscope::session::debug
