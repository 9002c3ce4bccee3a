// SPDX-License-Identifier: Apache-2.0
// After which pass, and with which of its rewrites, a result first differs: as text and as JSON.
#pragma once

#include "app/report.h"
#include "core/session/bisect.h"

namespace spscope::app {

Json bisectJson(const session::Bisection& bisection);
void bisectPage(Page& page, const session::Bisection& bisection);

}  // namespace spscope::app
