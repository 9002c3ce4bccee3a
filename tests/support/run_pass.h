// SPDX-License-Identifier: Apache-2.0
// Runs one pass of the memory room on a joint graph, as the manager would.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "passes/memory/report.h"
#include "passes/pass.h"

namespace spscope::testing {

/// Its statistics come back; `report` as PassContext::memory.
inline std::map<std::string, std::int64_t> runPass(const passes::Pass& pass, ir::Graph& graph, const std::string& policy,
                                                   passes::MemoryReport* report = nullptr) {
  passes::Settings settings;
  settings.save = policy;
  DiagnosticSink diagnostics;
  std::map<std::string, std::int64_t> statistics;
  passes::PassContext context{settings};
  context.diagnostics = &diagnostics;
  context.statistics = &statistics;
  context.memory = report;
  EXPECT_TRUE(pass.checkLegal(graph, context));
  EXPECT_TRUE(pass.run(graph, context));
  return statistics;
}

}  // namespace spscope::testing
