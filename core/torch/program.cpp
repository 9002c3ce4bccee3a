// SPDX-License-Identifier: Apache-2.0
#include "core/torch/program_impl.h"

#include <algorithm>
#include <map>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "core/torch/own_ops.h"
#include "core/torch/rng_ops.h"

namespace spscope::exec {
namespace {

Error at(const ir::Node& node, std::string_view code, std::string message) {
  Error error = makeError(code, std::move(message));
  error.node = "%" + node.name;
  if (node.location) error.source = node.location->source;
  return error;
}

/// Position of the last node that reads each value, or that defines it where nobody does; -1 for values of no node.
std::vector<std::int64_t> lastUses(const ir::Graph& graph) {
  std::vector<std::int64_t> last(graph.valueCount(), -1);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const ir::Node& node = graph.node(graph.order[i]);
    const auto mark = [&](ir::ValueId v) { last[static_cast<std::size_t>(v)] = static_cast<std::int64_t>(i); };
    ir::forEachUse(node, [&](const ir::Use& use) { mark(use.value); });
    for (const ir::ValueId v : node.outputs)
      if (v != ir::kNone) mark(v);
  }
  return last;
}

/// The mesh of the program's ranks: the graph's, or (graphs that do not say one) all ranks on the sequence axis.
ir::Mesh meshOf(const ir::Graph& graph, const ProgramOptions& options) {
  if (ir::axisSize(graph.mesh, ir::MeshAxis::kAll) == options.ranks) return graph.mesh;
  return {{{"sp", options.ranks}}};
}

/// A start node as the executor needs it; the results are named by its wait.
Result<Program::Impl::Exchange> readStart(const ir::Graph& graph, const ir::Node& node, int rank, int ranks) {
  Program::Impl::Exchange out;
  const std::size_t parts = ir::partCount(node);
  const bool sums = ir::plainOf(node.op) == ir::sp::kAllReduce;
  if (parts == 0 || node.outputs.size() != (sums ? parts : 2 * parts))
    return at(node, "sp-op", node.op.str() + ": buffers and operands do not fit");
  for (std::size_t i = 0; i < parts; ++i) {
    const ir::Node part = ir::partOf(node, i, ranks);
    const ir::ValueId input = ir::useArg(part, "self");
    SP_ASSIGN(Redistribution r, describe(part, graph.value(input).local, rank, ranks));
    out.bytes += r.bytesSent(ir::sizeOf(graph.value(input).dtype));
    out.parts.push_back(std::move(r));
    out.inputs.push_back(input);
    out.receives.push_back(node.outputs[i]);
    if (!sums) out.sends.push_back(ir::sendOf(node, i));
    out.in_place.push_back(graph.value(node.outputs[i]).storage != ir::kNone);
  }
  return out;
}

}  // namespace

Program::~Program() = default;
std::size_t Program::nodeCount() const { return impl_->steps.size(); }
const ir::Node& Program::node(std::size_t position) const { return *impl_->steps[position].node; }
bool Program::isCollective(std::size_t position) const {
  const Impl::Step& step = impl_->steps[position];
  const std::int32_t sp = step.sp;
  return step.start >= 0 || (sp >= 0 && impl_->redistributions[static_cast<std::size_t>(sp)].communicates());
}
bool Program::hasRandomNodes() const { return impl_->random; }

Result<std::shared_ptr<const Program>> Program::prepare(std::shared_ptr<const ir::Graph> graph,
                                                        const ProgramOptions& options) {
  registerOwnOps();
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return makeError("program-invalid", strf("rank %d of %d", options.rank, options.ranks));
  if (graph->form == ir::Form::kPlanned)
    return makeError("program-invalid", "the graph is planned but not sharded yet: it has no program for one rank");
  const std::shared_ptr<Program> program(new Program());
  registerRngOps();
  program->graph_ = graph;
  program->options_ = options;
  program->impl_ = std::make_unique<Impl>();
  Impl& impl = *program->impl_;
  impl.mesh = meshOf(*graph, options);
  for (const ir::MeshAxis axis : {ir::MeshAxis::kSequence, ir::MeshAxis::kData, ir::MeshAxis::kAll})
    impl.groups[static_cast<std::size_t>(axis)] = ir::groupName(impl.mesh, options.rank, axis);

  std::vector<char> defined(graph->valueCount(), 0);
  for (const ir::Input& input : graph->inputs) defined[static_cast<std::size_t>(input.value)] = 1;
  std::vector<std::int64_t> last = lastUses(*graph);
  // Inputs and outputs live until the step ends. (A user input may be shared with the caller: freeing it here would
  // gain nothing.)
  std::vector<char> kept(graph->valueCount(), options.keep_values ? 1 : 0);
  for (const ir::Input& input : graph->inputs) kept[static_cast<std::size_t>(input.value)] = 1;
  for (const ir::Output& output : graph->outputs)
    if (output.value != ir::kNone) kept[static_cast<std::size_t>(output.value)] = 1;

  std::map<ir::NodeId, std::int32_t> started;
  impl.steps.reserve(graph->order.size());
  for (std::size_t i = 0; i < graph->order.size(); ++i) {
    const ir::Node& node = graph->node(graph->order[i]);
    Impl::Step step;
    step.node = &node;
    if (node.op == ir::sp::kRedistribute)
      return at(node, "program-invalid", "a redistribution that is not lowered to a collective");
    if (ir::isStart(node.op)) {
      const ir::MeshAxis axis = ir::axisOf(node);
      SP_ASSIGN(Impl::Exchange exchange, readStart(*graph, node, ir::axisRank(impl.mesh, options.rank, axis), ir::axisSize(impl.mesh, axis)));
      step.start = static_cast<std::int32_t>(impl.exchanges.size());
      started[node.id] = step.start;
      impl.exchanges.push_back(std::move(exchange));
    } else if (node.op == ir::sp::kWait) {
      ir::forEachUse(node, [&](const ir::Use& use) {
        const auto entry = started.find(graph->value(use.value).producer);
        if (step.wait < 0 && entry != started.end()) step.wait = entry->second;
      });
      if (step.wait < 0) return at(node, "sp-op", "waits for what nobody has started");
      Impl::Exchange& exchange = impl.exchanges[static_cast<std::size_t>(step.wait)];
      if (!exchange.results.empty() || node.outputs.size() != exchange.parts.size())
        return at(node, "sp-op", "waits a second time, or not for all operands");
      exchange.results.assign(node.outputs.begin(), node.outputs.end());
    } else if (isRedistribution(node.op) || node.op == ir::sp::kUnpack) {
      const ir::ValueId self = ir::useArg(node, "self");
      if (self == ir::kNone || node.outputs.size() != 1)
        return at(node, "sp-op", node.op.str() + " needs one operand and one output");
      const ir::MeshAxis axis = ir::axisOf(node);
      const int rank = ir::axisRank(impl.mesh, options.rank, axis), ranks = ir::axisSize(impl.mesh, axis);
      SP_ASSIGN(Redistribution r, node.op == ir::sp::kUnpack ? describeUnpack(node, graph->value(node.outputs[0]).local, rank, ranks)
                                                             : describe(node, graph->value(self).local, rank, ranks));
      step.sp = static_cast<std::int32_t>(impl.redistributions.size());
      step.input = self;
      step.output = node.outputs[0];
      impl.redistributions.push_back(std::move(r));
    } else {
      SP_ASSIGN(step.op, exec::prepare(node));
      impl.random = impl.random || ir::isRandom(node.op);
    }
    std::optional<ir::ValueId> undefined;
    ir::forEachUse(node, [&](const ir::Use& use) {
      if (!defined[static_cast<std::size_t>(use.value)] && !undefined) undefined = use.value;
    });
    if (undefined)
      return at(node, "program-invalid", "the operand %" + graph->value(*undefined).name + " is not defined before it is used");
    step.free_begin = static_cast<std::int32_t>(impl.frees.size());
    const auto freeIfLast = [&](ir::ValueId v) {
      if (v == ir::kNone || kept[static_cast<std::size_t>(v)] ||
          last[static_cast<std::size_t>(v)] != static_cast<std::int64_t>(i))
        return;
      last[static_cast<std::size_t>(v)] = -1;  // once, also where the node reads it twice
      impl.frees.push_back(v);
    };
    ir::forEachUse(node, [&](const ir::Use& use) { freeIfLast(use.value); });
    for (const ir::ValueId v : node.outputs) {
      if (v == ir::kNone) continue;
      defined[static_cast<std::size_t>(v)] = 1;
      freeIfLast(v);
    }
    step.free_end = static_cast<std::int32_t>(impl.frees.size());
    impl.steps.push_back(std::move(step));
  }
  for (const Impl::Exchange& exchange : impl.exchanges)
    if (exchange.results.empty())
      return makeError("program-invalid", "a started collective is never waited for: %" + graph->value(exchange.receives[0]).name);
  for (const ir::Output& output : graph->outputs)
    if (output.value != ir::kNone && !defined[static_cast<std::size_t>(output.value)])
      return makeError("program-invalid", "the output %" + graph->value(output.value).name + " is never computed");
  return std::shared_ptr<const Program>(program);
}

}  // namespace spscope::exec
