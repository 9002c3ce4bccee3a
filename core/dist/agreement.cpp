// SPDX-License-Identifier: Apache-2.0
#include "core/dist/agreement.h"

#include <algorithm>
#include <map>

#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/dist/message.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"

namespace spscope::dist {
namespace {

/// The value that most ranks have; of several, that of the lowest rank.
const std::string& commonest(const std::vector<std::string>& values) {
  std::map<std::string, int> counts;
  for (const std::string& v : values) ++counts[v];
  const std::string* best = &values.front();
  for (const std::string& v : values)
    if (counts[v] > counts[*best]) best = &v;
  return *best;
}

std::string ranksText(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int r : ranks) names.push_back(std::to_string(r));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

std::vector<int> ranksWithout(const std::vector<std::string>& values, const std::string& value) {
  std::vector<int> out;
  for (std::size_t r = 0; r < values.size(); ++r)
    if (values[r] != value) out.push_back(static_cast<int>(r));
  return out;
}

/// "line 12: rank 1 has 'x', rank 0 'y'", of the first line in which the two texts differ.
std::string firstDifference(const std::string& odd, int odd_rank, const std::string& usual, int usual_rank) {
  const auto a = split(odd, '\n'), b = split(usual, '\n');
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto show = [&](const std::vector<std::string>& lines) { return i < lines.size() ? "'" + lines[i] + "'" : std::string("nothing"); };
  return strf("entry %zu: rank %d has %s, rank %d %s", i + 1, odd_rank, show(a).c_str(), usual_rank, show(b).c_str());
}

}  // namespace

Status agree(Collectives& group, const std::vector<Fact>& facts) {
  Message mine{"facts", {}};
  for (const Fact& f : facts) mine.fields[f.name] = f.detail.empty() ? f.value : f.value + " " + hashHex(f.detail);
  SP_ASSIGN(const auto texts, group.allGatherText(mine.encode()));
  std::vector<Message> all;
  for (const std::string& text : texts) all.push_back(Message::decode(text).value_or(Message{}));

  // Ranks of different builds may compare different things; asking for details would then not be the same on all.
  const auto names = [](const Message& m) {
    std::vector<std::string> out;
    for (const auto& field : m.fields) out.push_back(field.first);
    return join(out, ", ");
  };
  std::vector<std::string> sets;
  for (const Message& m : all) sets.push_back(names(m));
  if (const auto odd = ranksWithout(sets, commonest(sets)); !odd.empty())
    return makeError("ranks-disagree", strf("%s run%s another build: it compares %s, the others %s", ranksText(odd).c_str(),
                                            odd.size() == 1 ? "s" : "", sets[static_cast<std::size_t>(odd.front())].c_str(),
                                            commonest(sets).c_str()), Outcome::kRunFailed);

  std::vector<std::string> findings;
  for (const Fact& f : facts) {
    std::vector<std::string> values;
    for (const Message& m : all) values.push_back(m.at(f.name));
    const std::string usual = commonest(values);
    const std::vector<int> odd = ranksWithout(values, usual);
    if (odd.empty()) continue;
    const int usual_rank = static_cast<int>(std::find(values.begin(), values.end(), usual) - values.begin());
    std::string what = strf("%s: %s '%s', rank %d '%s'", f.name.c_str(), ranksText(odd).c_str(),
                            values[static_cast<std::size_t>(odd.front())].c_str(), usual_rank, usual.c_str());
    if (!f.detail.empty()) {  // all ranks see the same texts, so all come here
      SP_ASSIGN(const auto details, group.allGatherText(f.detail));
      what = strf("%s: %s", f.name.c_str(),
                  firstDifference(details[static_cast<std::size_t>(odd.front())], odd.front(),
                                  details[static_cast<std::size_t>(usual_rank)], usual_rank).c_str());
    }
    findings.push_back(strf("%s %s: %s", ranksText(odd).c_str(), odd.size() == 1 ? "differs" : "differ", what.c_str()));
  }
  if (findings.empty()) return {};
  Error error = makeError("ranks-disagree", findings.front(), Outcome::kRunFailed);
  error.notes.assign(findings.begin() + 1, findings.end());
  return error;
}

namespace {

std::string lineOf(const ir::Graph& graph, const ir::Node& node) {
  std::string line = node.op.str();
  const ir::ValueId self = ir::useArg(node, "self");
  if (self != ir::kNone) line += " " + std::string(ir::shortName(graph.value(self).dtype));
  if (node.op == ir::sp::kAllReduce && self != ir::kNone) line += strf(" %lld", static_cast<long long>(ir::numel(graph.value(self).local)));
  for (const ir::Argument& argument : node.args) {
    if (const auto* number = std::get_if<std::int64_t>(&argument.value))
      line += strf(" %s=%lld", argument.name.str().c_str(), static_cast<long long>(*number));
    else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&argument.value))
      line += " " + argument.name.str() + "=" + join(*list, "+");
    else if (const auto* text = std::get_if<std::string>(&argument.value))
      line += " " + argument.name.str() + "=" + *text;
  }
  return line;
}

}  // namespace

std::string collectiveList(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (!ir::isCollective(node.op)) continue;
    if (!ir::isStart(node.op)) {
      lines.push_back(lineOf(graph, node));
      continue;
    }
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < ir::partCount(node); ++i) parts.push_back(lineOf(graph, ir::partOf(graph, node, i)));
    lines.push_back(join(parts, ", "));
  }
  return join(lines, "\n");
}

}  // namespace spscope::dist
