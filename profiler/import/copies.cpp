// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/copies.h"

#include <array>

namespace spscope::trace {
namespace {

constexpr std::array<std::string_view, 11> kOperations{"", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr std::array<std::string_view, 8> kMemory{"Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"};

std::uint8_t memoryOf(std::string_view name) {
  for (std::size_t i = 0; i < kMemory.size(); ++i)
    if (kMemory[i] == name) return static_cast<std::uint8_t>(i);
  return 7;
}

std::string_view memoryName(std::uint8_t kind) { return kMemory[kind < kMemory.size() ? kind : 7]; }

}  // namespace

Copy copyOfName(std::string_view name) {
  Copy out;
  for (std::size_t i = 1; i < kOperations.size(); ++i)
    if (name.find(kOperations[i]) != std::string_view::npos) out.copy_kind = static_cast<std::uint8_t>(i);
  const auto open = name.find('('), close = name.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return out;
  const std::string_view kinds = name.substr(open + 1, close - open - 1);
  const auto arrow = kinds.find(" -> ");
  if (arrow != std::string_view::npos) out.source_kind = memoryOf(kinds.substr(0, arrow)), out.target_kind = memoryOf(kinds.substr(arrow + 4));
  else out.target_kind = memoryOf(kinds);
  return out;
}

std::string memcpyName(const Copy& copy) {
  std::string out = "Memcpy";
  if (copy.copy_kind > 0 && copy.copy_kind < kOperations.size()) (out += ' ') += kOperations[copy.copy_kind];
  return ((((out += " (") += memoryName(copy.source_kind)) += " -> ") += memoryName(copy.target_kind)) += ')';
}

std::string memsetName(const Copy& copy) { return "Memset (" + std::string(memoryName(copy.target_kind)) + ")"; }

std::string_view syncName(std::int64_t type) {
  static constexpr std::array<std::string_view, 5> kNames{"Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return kNames[type >= 1 && type <= 4 ? static_cast<std::size_t>(type) : 0];
}

}  // namespace spscope::trace
