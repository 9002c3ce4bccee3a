// SPDX-License-Identifier: Apache-2.0
// What the panels Values and Why say of a node that is looked at, as sections of rows like the inspector's.
#pragma once

#include "ui/model/debug/node_look.h"
#include "ui/model/inspector.h"

namespace spscope::ui {

/// Of the chosen value: figures of each rank, the difference from the unsharded one, a window or the beginning. A row that brings a
/// freed value back has InspectorRow::act "again".
InspectorPage valuePage(const NodeLook& look);
/// Question, answer, and who says so.
InspectorPage whyPage(const NodeLook& look);

/// One row of the list of values.
struct ValueRow {
  std::string name, role, shape, figures;
  bool bad = false;     ///< it holds something that is not finite, or differs
  bool quiet = false;   ///< there is nothing to look at now
};
ValueRow valueRow(const NodeLook& look, std::size_t place);

}  // namespace spscope::ui
