// SPDX-License-Identifier: Apache-2.0
// Where a command ran, for the page that is attached to a ticket.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spscope::app {

/// Name and value: program, compiler, libtorch, operating system, processor, cores, load, memory.
std::vector<std::pair<std::string, std::string>> systemFacts();

}  // namespace spscope::app
