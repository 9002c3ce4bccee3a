// SPDX-License-Identifier: Apache-2.0
// The shown graph for a report: SVG as it is drawn (modules open as in the view), or the stage's text.
#pragma once

#include <string>

#include "core/base/result.h"
#include "ui/model/graph_document.h"

namespace spscope::ui {

std::string sceneSvg(GraphScene& scene, const Colouring& colouring, const Theme& theme);
/// By the name: ".svg", ".txt". Errors: usage (another ending), file-unwritable.
Status exportText(GraphDocument& document, const std::string& path, const Theme& theme);

}  // namespace spscope::ui
