// SPDX-License-Identifier: Apache-2.0
// The arguments of a launch request: the flags of `spscope debug` by their names, as "sp": 4, "tileLoss": true, "seed-weights": 3.
#pragma once

#include "app/dap/wire/message.h"
#include "app/debug_flags.h"

namespace spscope::app::dap {

struct Launch {
  DebugFlags flags;
  bool stop_on_entry = false;
  std::vector<std::string> folders;    ///< where source files lie, if not where the exporting machine had them
  std::vector<std::string> unknown;    ///< arguments that mean nothing here, each with what may be meant
};

/// `defaults`: what stood on the command line. Changes the working folder where "cwd" is given. Errors: usage, dap-argument.
Result<Launch> readLaunch(const Fields& arguments, const DebugFlags& defaults);

}  // namespace spscope::app::dap
