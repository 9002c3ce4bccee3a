// SPDX-License-Identifier: Apache-2.0
#include "core/ir/pending.h"

#include <algorithm>
#include <map>

#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"
#include "core/ir/verify_collectives.h"

namespace spscope::ir {
namespace {

constexpr std::string_view kSuffix = "_start.default";
const Symbol kSelf("self");

const UseList* operands(const Node& start) {
  const Attribute* self = start.find(kSelf);
  return self ? std::get_if<UseList>(self) : nullptr;
}

}  // namespace

bool isStart(Symbol op) { return op.str().ends_with(kSuffix) && isCollective(op); }

Symbol startOf(Symbol plain) {
  const std::string& name = plain.str();
  return Symbol(name.substr(0, name.size() - std::string_view(".default").size()) + std::string(kSuffix));
}

Symbol plainOf(Symbol start) {
  const std::string& name = start.str();
  return Symbol(name.substr(0, name.size() - kSuffix.size()) + ".default");
}

std::size_t partCount(const Node& start) {
  const UseList* list = operands(start);
  return list ? list->size() : 0;
}

ValueId sendOf(const Node& start, std::size_t i) {
  const std::size_t at = partCount(start) + i;
  return at < start.outputs.size() ? start.outputs[at] : kNone;
}

Node partOf(const Node& start, std::size_t i, int ranks) {
  Node part;
  part.id = start.id;
  part.op = plainOf(start.op);
  part.name = start.name;
  part.location = start.location;
  part.phase = start.phase;
  part.args.push_back({kSelf, (*operands(start))[i]});
  if (i < start.outputs.size()) part.outputs.push_back(start.outputs[i]);
  for (const Argument& argument : start.args) {
    if (std::holds_alternative<std::string>(argument.value)) part.args.push_back(argument);  // the axis
    const auto* list = std::get_if<std::vector<std::int64_t>>(&argument.value);
    if (!list) continue;
    const auto width = static_cast<std::size_t>(ranks);
    if (argument.name.str().ends_with("dim")) {
      if (i < list->size()) part.args.push_back({argument.name, (*list)[i]});
    } else if ((i + 1) * width <= list->size()) {
      const auto begin = list->begin() + static_cast<std::ptrdiff_t>(i * width);
      part.args.push_back({argument.name, std::vector<std::int64_t>(begin, begin + ranks)});
    }
  }
  return part;
}

Node partOf(const Graph& graph, const Node& start, std::size_t i) {
  return partOf(start, i, axisSize(graph.mesh, axisOf(start)));
}

bool isOutermost(const Dims& shape, std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d)
    if (shape[static_cast<std::size_t>(d)] != 1) return false;
  return true;
}

void appendPart(Node& start, const Node& plain) {
  for (const Argument& argument : plain.args) {
    if (const auto* use = std::get_if<Use>(&argument.value)) {
      if (start.find(argument.name) == nullptr) start.set(argument.name, UseList{});
      std::get<UseList>(*start.find(argument.name)).push_back(*use);
      continue;
    }
    if (std::holds_alternative<std::string>(argument.value)) {  // the axis is that of all parts
      start.set(argument.name, argument.value);
      continue;
    }
    if (start.find(argument.name) == nullptr) start.set(argument.name, std::vector<std::int64_t>{});
    auto& list = std::get<std::vector<std::int64_t>>(*start.find(argument.name));
    if (const auto* number = std::get_if<std::int64_t>(&argument.value)) list.push_back(*number);
    if (const auto* blocks = std::get_if<std::vector<std::int64_t>>(&argument.value))
      list.insert(list.end(), blocks->begin(), blocks->end());
  }
}

namespace {

Status verifyStart(const Graph& graph, const Node& n) {
  const auto wrong = [&](const std::string& what) { return nodeError("verify-collective", graph, n, n.op.str() + ": " + what); };
  const std::size_t parts = partCount(n);
  const bool sums = plainOf(n.op) == sp::kAllReduce;
  if (parts == 0) return wrong("has no operands");
  if (n.outputs.size() != (sums ? parts : 2 * parts) || std::count(n.outputs.begin(), n.outputs.end(), kNone) > 0)
    return wrong(std::to_string(n.outputs.size()) + " results for " + std::to_string(parts) + " operands");
  if (!hasKnownAxis(n)) return wrong("names no axis of a mesh");
  const auto ranks = static_cast<std::size_t>(axisSize(graph.mesh, axisOf(n)));
  for (const Argument& argument : n.args)
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&argument.value);
        list && list->size() != parts * (argument.name.str().ends_with("dim") ? 1 : ranks))
      return wrong(argument.name.str() + " has " + std::to_string(list->size()) + " entries for " + std::to_string(parts) + " operands");
  for (std::size_t i = 0; i < parts; ++i) {
    const Value& operand = graph.value((*operands(n))[i].value);
    const Node part = partOf(n, i, static_cast<int>(ranks));
    SP_ASSIGN(const Dims result, collectiveResult(graph, part));
    const Value& receive = graph.value(n.outputs[i]);
    const ValueId owner = operand.storage == kNone ? operand.id : operand.storage;
    if (receive.local != (sums ? result : Dims{numel(result)}))
      return wrong("the receive buffer %" + receive.name + " has another size than the result");
    if (receive.storage != kNone && (!sums || receive.storage != owner))
      return wrong("the receive buffer %" + receive.name + " lies in another value's memory");
    if (sums) continue;
    const Value& send = graph.value(sendOf(n, i));
    if (send.dtype != operand.dtype || send.local != Dims{numel(operand.local)})
      return wrong("the send buffer %" + send.name + " does not hold the operand");
    if (send.storage != kNone && send.storage != owner)
      return wrong("the send buffer %" + send.name + " lies in another value's memory");
  }
  return {};
}

Status verifyWaitNode(const Graph& graph, const Node& n) {
  const auto wrong = [&](const std::string& what) { return nodeError("verify-collective", graph, n, n.op.str() + ": " + what); };
  const UseList* list = operands(n);
  if (!list || list->empty()) return wrong("waits for nothing");
  for (const Use& use : *list)
    if (use.value == kNone || graph.value(use.value).producer == kNone || !isStart(graph.node(graph.value(use.value).producer).op))
      return wrong("takes what is no buffer of a collective");
  const Node& start = graph.node(graph.value(list->front().value).producer);
  if (n.outputs.size() != partCount(start) || std::count(n.outputs.begin(), n.outputs.end(), kNone) > 0)
    return wrong("gives another number of results than there are operands");
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    const Value& receive = graph.value(start.outputs[i]);
    const Value& out = graph.value(n.outputs[i]);
    const Node part = partOf(graph, start, i);
    SP_ASSIGN(const Dims result, collectiveResult(graph, part));
    std::int64_t gathered = intArg(part, part.op == sp::kAllGather ? "dim" : "gather_dim", 0);
    if (part.op == sp::kReduceScatter || part.op == sp::kAllReduce) gathered = 0;
    const bool whole = out.local == result && isOutermost(result, gathered);
    if (out.dtype != receive.dtype || (!whole && out.local != receive.local))
      return wrong("the result %" + out.name + " is not what the collective receives");
    if (out.storage != (receive.storage == kNone ? receive.id : receive.storage))
      return wrong("the result %" + out.name + " does not lie in the receive buffer");
  }
  return {};
}

Status verifyUnpack(const Graph& graph, const Node& n) {
  const auto wrong = [&](const std::string& what) { return nodeError("verify-collective", graph, n, n.op.str() + ": " + what); };
  const ValueId self = useArg(n, kSelf);
  const auto blocks = intListArg(n, "blocks");
  if (self == kNone || !blocks || n.outputs.size() != 1 || n.outputs[0] == kNone) return wrong("lacks an argument or its result");
  const Value& in = graph.value(self);
  const Value& out = graph.value(n.outputs[0]);
  if (!hasKnownAxis(n)) return wrong("names no axis of a mesh");
  const std::int64_t dim = intArg(n, "dim", -1);
  if (dim < 0 || dim >= static_cast<std::int64_t>(out.local.size())) return wrong("the result has no dimension " + std::to_string(dim));
  std::int64_t whole = 0;
  for (const std::int64_t b : *blocks) whole += b < 0 ? -out.local[static_cast<std::size_t>(dim)] - 1 : b;
  if (blocks->size() != static_cast<std::size_t>(axisSize(graph.mesh, axisOf(n))) || whole != out.local[static_cast<std::size_t>(dim)])
    return wrong("the blocks do not make up dimension " + std::to_string(dim));
  if (in.local != Dims{numel(out.local)} || in.dtype != out.dtype) return wrong("the operand does not hold the result");
  return {};
}

}  // namespace

Status verifyPendingNode(const Graph& graph, const Node& node) {
  if (graph.form != Form::kJoint) return nodeError("verify-collective", graph, node, node.op.str() + ": only joint graphs have it");
  if (isStart(node.op)) return verifyStart(graph, node);
  return node.op == sp::kWait ? verifyWaitNode(graph, node) : verifyUnpack(graph, node);
}

Status verifyPending(const Graph& graph) {
  const auto ownerOf = [&](ValueId v) { return graph.value(v).storage == kNone ? v : graph.value(v).storage; };
  std::vector<NodeId> pending(graph.valueCount(), kNone);  // by value: the start that it is a buffer of, until its wait
  std::vector<bool> taken(graph.valueCount(), false);      // the same, after the wait
  std::map<ValueId, int> sent;                             // storages on their way, how many times
  std::map<ValueId, NodeId> changed;                       // storages that a start has changed, for good
  std::map<ValueId, bool> result;                          // values that may be read of a changed storage
  std::map<NodeId, bool> waited;                           // every start; has it been waited for

  for (const NodeId id : graph.order) {
    const Node& n = graph.node(id);
    const bool wait = n.op == sp::kWait;
    Status wrong;
    forEachUse(n, [&](const Use& use) {
      if (!wrong) return;
      const Value& v = graph.value(use.value);
      if (!wait && pending[static_cast<std::size_t>(use.value)] != kNone)
        wrong = nodeError("verify-wait", graph, n, "reads the buffer %" + v.name + " before %" +
                              graph.node(pending[static_cast<std::size_t>(use.value)]).name + " is waited for");
      else if (!wait && taken[static_cast<std::size_t>(use.value)])
        wrong = nodeError("verify-wait", graph, n, "reads the buffer %" + v.name + " beside its wait");
      else if (!wait && changed.contains(ownerOf(use.value)) && !result.contains(use.value))
        wrong = nodeError("verify-wait", graph, n, "reads %" + v.name + ", which %" + graph.node(changed[ownerOf(use.value)]).name +
                              " has changed in place");
    });
    SP_TRY(wrong);
    if (isStart(n.op)) {
      waited[id] = false;
      for (const ValueId out : n.outputs) pending[static_cast<std::size_t>(out)] = id;
      for (std::size_t i = 0; i < partCount(n); ++i) {
        const ValueId owner = ownerOf((*operands(n))[i].value);
        const bool in_place = ownerOf(n.outputs[i]) == owner;
        if (in_place && (sent[owner] > 0 || changed.contains(owner) || graph.value(owner).producer == kNone))
          return nodeError("verify-wait", graph, n, "changes %" + graph.value(owner).name + " in place, which " +
                               (graph.value(owner).producer == kNone ? "is an input" : "is on its way already"));
        if (in_place) changed[owner] = id;
        if (sendOf(n, i) != kNone) ++sent[ownerOf(sendOf(n, i))];
      }
      continue;
    }
    if (!wait) {  // views of what an in-place sum gave may be read, too
      for (const ValueId out : n.outputs)
        if (out != kNone && changed.contains(ownerOf(out))) result[out] = true;
      continue;
    }
    const UseList* list = operands(n);
    const NodeId of = list && !list->empty() ? pending[static_cast<std::size_t>(list->front().value)] : kNone;
    if (of == kNone)
      return nodeError("verify-wait", graph, n, list && !list->empty() && taken[static_cast<std::size_t>(list->front().value)]
                                                    ? "waits a second time" : "waits for what nobody has started");
    const Node& start = graph.node(of);
    const bool all = list->size() == start.outputs.size() &&
                     std::equal(list->begin(), list->end(), start.outputs.begin(), [](const Use& u, ValueId v) { return u.value == v; });
    if (!all) return nodeError("verify-wait", graph, n, "does not take all results of %" + start.name + " in their order");
    waited[of] = true;
    for (std::size_t i = 0; i < start.outputs.size(); ++i) {
      pending[static_cast<std::size_t>(start.outputs[i])] = kNone;
      taken[static_cast<std::size_t>(start.outputs[i])] = true;
    }
    for (std::size_t i = 0; i < partCount(start); ++i)
      if (sendOf(start, i) != kNone) --sent[ownerOf(sendOf(start, i))];
    for (const ValueId out : n.outputs) result[out] = true;
  }
  for (const auto& [id, done] : waited)
    if (!done) return nodeError("verify-wait", graph, graph.node(id), "is never waited for");
  for (const Output& output : graph.outputs) {
    if (output.value == kNone) continue;
    const auto v = static_cast<std::size_t>(output.value);
    if (taken[v] || (changed.contains(ownerOf(output.value)) && !result.contains(output.value)))
      return nodeError("verify-wait", graph, graph.node(graph.value(output.value).producer),
                       "the output %" + graph.value(output.value).name + " is a buffer of a collective, not its result");
  }
  return {};
}

}  // namespace spscope::ir
