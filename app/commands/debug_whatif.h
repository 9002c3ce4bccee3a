// SPDX-License-Identifier: Apache-2.0
// The debugger's answer to "what if", as text and as JSON.
#pragma once

#include "app/report.h"
#include "core/session/debug/command.h"

namespace spscope::app {

void whatIfPage(Page& page, const session::debug::WhatIf& answer);
Json whatIfJson(const session::debug::WhatIf& answer);

}  // namespace spscope::app
