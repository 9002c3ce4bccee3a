// SPDX-License-Identifier: Apache-2.0
// The sections of the inspector's page, one function each: what they say of a node of the shown stage.
#pragma once

#include "core/ir/text.h"
#include "ui/model/inspector.h"

namespace spscope::ui {

/// What a section may look at. Pointers are the caller's.
struct InspectorScope {
  const Workspace* workspace = nullptr;
  const ir::Graph* graph = nullptr;    ///< the shown stage
  std::string stage;                   ///< its name
  const ir::Graph* program = nullptr;  ///< what runs in the end; null before a compilation
  const NodeTimes* times = nullptr;    ///< null: no trace, or it is still read
  bool reading = false;
};

InspectorSection opSection(const InspectorScope& scope, const ir::Node& node);
InspectorSection valuesSection(const InspectorScope& scope, const ir::Node& node);
InspectorSection placementSection(const InspectorScope& scope, const ir::Node& node);
/// Which pass made it, from what, back to the file; and in which stages it changed.
InspectorSection provenanceSection(const InspectorScope& scope, const ir::Node& node);
InspectorSection sourceSection(const InspectorScope& scope, const ir::LocationRef& location);
/// Saved, recomputed or freed, and why.
InspectorSection memorySection(const InspectorScope& scope, const ir::Node& node);
InspectorSection costSection(const InspectorScope& scope, const ir::Node& node);
InspectorSection timesSection(const InspectorScope& scope, ir::NodeId node);
InspectorSection usersSection(const InspectorScope& scope, const ir::Node& node);
/// What it computes on each rank, in a step of virtual ranks that was asked for, and how far that is from unsharded.
InspectorSection numbersSection(const InspectorScope& scope, const ir::Node& node);
InspectorSection inputSection(const InspectorScope& scope, const ir::Value& value);
InspectorSection valueUsersSection(const InspectorScope& scope, const ir::Value& value);
InspectorPage inspectModule(const InspectorScope& scope, const std::string& path);

}  // namespace spscope::ui
