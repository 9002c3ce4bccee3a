// SPDX-License-Identifier: Apache-2.0
// Commands that move the ranks, on and back.
#include "core/base/numbers.h"
#include "core/session/debug/command_work.h"

namespace spscope::session::debug {
namespace {

Status step(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const std::int64_t count, w.takeCount(1));
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.step(count, rank));
  return {};
}

Status next(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.next(w.info.name == "out" ? 1 : 0, rank));
  return {};
}

Status collective(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.untilCollective(rank));
  return {};
}

Status until(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const NodeQuery query, takeQuery(w.words));
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.until(query, rank));
  return {};
}

Status resume(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.resume(rank));
  return {};
}

Status back(Work& w) {
  if (w.words.empty() || numberIn<std::int64_t>(w.words.front())) {
    SP_ASSIGN(const std::int64_t count, w.takeCount(1));
    SP_TRY(w.nothingLeft());
    SP_ASSIGN(w.out.stop, w.debugger.back(count));
    return {};
  }
  SP_ASSIGN(const NodeQuery query, takeQuery(w.words));
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.backTo(query));
  return {};
}

Status restart(Work& w) {
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.stop, w.debugger.back(w.debugger.where().made));
  return {};
}

Status where(Work& w) {
  SP_TRY(w.nothingLeft());
  w.out.stop = w.debugger.where();
  return {};
}

}  // namespace

std::vector<Command> moveCommands() {
  return {
      {{"step", "s", "[N] [rank R]", "run the next node (N of them) of every rank, or of one"}, step},
      {{"next", "n", "[rank R]", "run to the end of the module"}, next},
      {{"out", "o", "[rank R]", "run to the end of the module around it"}, next},
      {{"collective", "", "[rank R]", "run to the next collective"}, collective},
      {{"until", "u", "WHAT [rank R]", "run until such a node is next: %name, op GLOB, module GLOB, source FILE:LINE, phase P, collective [KIND], stage NAME"}, until},
      {{"continue", "c", "[rank R]", "run to a breakpoint or to the end of the step"}, resume},
      {{"back", "b", "[N] | WHAT", "go back N moves, or to where such a node was next"}, back},
      {{"restart", "", "", "go back to the beginning of the step"}, restart},
      {{"where", "w", "", "the node that each rank runs next"}, where},
  };
}

}  // namespace spscope::session::debug
