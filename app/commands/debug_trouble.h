// SPDX-License-Identifier: Apache-2.0
// The debugger's answers about the numbers of a whole step, as text and as JSON.
#pragma once

#include "app/report.h"
#include "core/session/debug/command.h"

namespace spscope::app {

void troublePage(Page& page, const session::debug::TroubleReport& report);
Json troubleJson(const session::debug::TroubleReport& report);

void curvePage(Page& page, const session::debug::ErrorCurve& curve);
Json curveJson(const session::debug::ErrorCurve& curve);

void spikesPage(Page& page, const session::debug::SpikeReport& report);
Json spikesJson(const session::debug::SpikeReport& report);

}  // namespace spscope::app
