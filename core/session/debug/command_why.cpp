// SPDX-License-Identifier: Apache-2.0
// Commands that ask for reasons.
#include "core/session/debug/command_work.h"

namespace spscope::session::debug {
namespace {

Status why(Work& w) {
  SP_ASSIGN(w.out.about, w.takeValue());
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.why, w.debugger.why(w.out.about));
  return {};
}

}  // namespace

std::vector<Command> whyCommands() {
  return {
      {{"why", "y", "%NAME", "why it is placed so, exchanged, kept, this large; which pass made it, from what"}, why},
  };
}

}  // namespace spscope::session::debug
