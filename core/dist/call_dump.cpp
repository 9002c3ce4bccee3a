// SPDX-License-Identifier: Apache-2.0
#include "core/dist/call_dump.h"

#include <map>
#include <numeric>

#include "core/base/json_text.h"
#include "core/base/strings.h"
#include "core/dist/run_directory.h"

namespace spscope::dist {
namespace {

/// As the recorder names them.
std::string_view scalarType(ir::DType type) {
  switch (type) {
    case ir::DType::kF64: return "Double";
    case ir::DType::kF32: return "Float";
    case ir::DType::kF16: return "Half";
    case ir::DType::kBF16: return "BFloat16";
    case ir::DType::kI64: return "Long";
    case ir::DType::kI32: return "Int";
    case ir::DType::kBool: return "Bool";
    case ir::DType::kU8: return "Byte";
    default: return ir::longName(type);
  }
}

/// Where ranks have blocks of several sizes, the name says it: then a rank's own block is not compared with another's.
std::string opName(const RecordedCall& call) { return call.op + (call.even || call.op == "all_to_all" ? "" : "_v"); }

std::string sizes(std::int64_t elements) { return elements < 0 ? "[]" : strf("[[%lld]]", static_cast<long long>(elements)); }
std::string types(const RecordedCall& call, std::int64_t elements) { return elements < 0 ? "[]" : "[" + jsonQuoted(scalarType(call.dtype)) + "]"; }

}  // namespace

std::string callDump(const RankRecord& rank, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::map<std::string, std::pair<int, std::vector<int>>> groups{{"", {0, all}}};
  for (const RecordedCall& call : rank.calls)
    if (!call.group.empty()) groups.try_emplace(call.group, static_cast<int>(groups.size()), call.members);
  const auto name = [](const std::string& group) { return group.empty() ? std::string("0") : group; };
  std::vector<std::string> config, entries;
  for (const auto& [group, what] : groups) {
    const std::vector<std::int64_t> members(what.second.begin(), what.second.end());
    config.push_back(jsonQuoted(name(group)) + ": {\"name\": " + jsonQuoted(name(group)) + ", \"desc\": " + jsonQuoted(group.empty() ? "default_pg" : group) + ", \"ranks\": \"[" +
                     join(members, ", ") + "]\"}");
  }
  for (const RecordedCall& call : rank.calls) {
    const bool ended = call.end_ns > 0;
    entries.push_back(strf("{\"record_id\": %lld, \"pg_id\": %d, \"process_group\": [%s, %s], \"collective_seq_id\": %lld, \"p2p_seq_id\": 0, \"op_id\": %lld, \"profiling_name\": %s",
                           static_cast<long long>(call.record - 1), groups.at(call.group).first, jsonQuoted(name(call.group)).c_str(),
                           jsonQuoted(call.group.empty() ? "default_pg" : call.group).c_str(), static_cast<long long>(call.sequence), static_cast<long long>(call.sequence),
                           jsonQuoted("gloo:" + opName(call)).c_str()) +
                      strf(", \"time_created_ns\": %lld, \"state\": \"%s\", \"retired\": %s, \"is_p2p\": false, \"input_sizes\": %s, \"input_dtypes\": %s, \"output_sizes\": %s, "
                           "\"output_dtypes\": %s",
                           static_cast<long long>(call.begin_ns), ended ? "completed" : "started", ended ? "true" : "false", sizes(call.sent).c_str(), types(call, call.sent).c_str(),
                           sizes(call.received).c_str(), types(call, call.received).c_str()) +
                      (ended ? strf(", \"time_discovered_completed_ns\": %lld", static_cast<long long>(call.end_ns)) : std::string()) +
                      (call.node.empty() ? ", \"frames\": []}" : strf(", \"frames\": [{\"name\": %s, \"filename\": \"step\", \"line\": %lld}]}", jsonQuoted(call.node).c_str(), static_cast<long long>(call.step))));
  }
  return strf("{\"version\": \"2.10\", \"comm_lib_version\": \"spscope\", \"rank\": %d, \"pg_config\": {", rank.rank) + join(config, ", ") + "}, \"pg_status\": {}, \"entries\": [\n" +
         join(entries, ",\n") + "\n]}\n";
}

Status writeCallDumps(const std::string& directory, std::span<const RankRecord> ranks) {
  for (const RankRecord& r : ranks) SP_TRY(writeText(directory + strf("/rank_%d.json", r.rank), callDump(r, static_cast<int>(ranks.size()))));
  return {};
}

}  // namespace spscope::dist
