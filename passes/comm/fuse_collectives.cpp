// SPDX-License-Identifier: Apache-2.0
#include "passes/comm/fuse_collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/ir/layout.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "passes/comm/collective_order.h"
#include "passes/memory/liveness.h"
#include "passes/rewrite_count.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

const Symbol kPass("fuse-collectives"), kSelf("self"), kDim("dim"), kBlocks("blocks"), kGatherDim("gather_dim"),
    kGatherBlocks("gather_blocks"), kScatterDim("scatter_dim");

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Group {
  std::vector<NodeId> members;  ///< in program order
  bool bucket = false;
};

/// Which collectives go together. Every collective is in exactly one group.
std::vector<Group> findGroups(const ir::Graph& graph, const CollectiveOrder& order, std::int64_t bucket_bytes) {
  std::vector<Group> groups;
  struct Open {
    std::size_t group;
    std::int64_t bytes;
  };
  using Kind = std::tuple<ir::DType, Symbol, ir::MeshAxis>;
  std::map<Kind, Open> open;       // buckets that are not full
  std::vector<std::size_t> run;    // the exchanges at hand, by number of the collective
  const auto closeRun = [&] {
    if (run.empty()) return;
    Group group;
    for (const std::size_t c : run) group.members.push_back(order.collectives()[c]);
    groups.push_back(std::move(group));
    run.clear();
  };
  for (std::size_t c = 0; c < order.collectives().size(); ++c) {
    const ir::Node& n = graph.node(order.collectives()[c]);
    const ir::Value& operand = graph.value(ir::useArg(n, kSelf));
    if (order.isGradientSum(c)) {
      const std::int64_t bytes = operand.localBytes();
      const Kind kind{operand.dtype, n.op, ir::axisOf(n)};
      auto entry = open.find(kind);
      if (entry == open.end() || entry->second.bytes + bytes > bucket_bytes) {
        groups.push_back({{}, true});
        entry = open.insert_or_assign(kind, Open{groups.size() - 1, 0}).first;
      }
      groups[entry->second.group].members.push_back(n.id);
      entry->second.bytes += bytes;
      continue;
    }
    bool joins = !run.empty();
    if (joins) {
      const ir::Node& first = graph.node(order.collectives()[run.front()]);
      joins = first.op == n.op && first.phase == n.phase && ir::axisOf(first) == ir::axisOf(n) && graph.value(ir::useArg(first, kSelf)).dtype == operand.dtype;
      for (const std::size_t earlier : run) joins = joins && !order.dependsOn(n.id, earlier);
    }
    if (!joins) closeRun();
    run.push_back(c);
  }
  closeRun();
  return groups;
}

/// Replaces the plain collectives by starts and waits, group by group.
class Fuser {
 public:
  Fuser(ir::Graph& graph, const PassContext& context) : g_(graph), context_(context) {}

  bool run() {
    const CollectiveOrder order(g_);
    const auto started = [&](NodeId id) { return ir::isStart(g_.node(id).op); };
    if (order.collectives().empty() || std::any_of(order.collectives().begin(), order.collectives().end(), started))
      return false;  // nothing to do, or done already
    std::vector<Group> groups = findGroups(g_, order, context_.settings.bucket_bytes);
    std::erase_if(groups, [&](const Group& group) { return !mayRewrite(g_, group.members.front()); });
    std::map<NodeId, std::size_t> group_of;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (const NodeId id : groups[i].members) group_of[id] = i;
      context_.count("collectives-before", static_cast<std::int64_t>(groups[i].members.size()));
      context_.count("collectives-after");
      if (groups[i].bucket) context_.count("buckets");
    }
    program_ = std::move(g_.order);
    g_.order.clear();
    done_.assign(g_.nodeCount() + 4 * group_of.size(), false);
    std::vector<NodeId> put_off;  // read what a bucket will give
    for (const NodeId id : program_) {
      if (done_[at(id)]) continue;
      const auto entry = group_of.find(id);
      if (entry == group_of.end()) {
        if (ready(id))
          emit(id);
        else
          put_off.push_back(id);
        continue;
      }
      const Group& group = groups[entry->second];
      if (group.bucket && id != group.members.back()) continue;
      if (!group.bucket)
        for (const NodeId member : group.members) needOperands(member);
      emitGroup(group);
      std::vector<NodeId> rest;
      for (const NodeId waiting : put_off)
        if (ready(waiting))
          emit(waiting);
        else
          rest.push_back(waiting);
      put_off = std::move(rest);
    }
    moveOwners();
    sumInPlace();
    return true;
  }

 private:
  bool ready(NodeId id) const {
    bool all = true;
    ir::forEachUse(g_.node(id), [&](const ir::Use& use) {
      const NodeId producer = g_.value(use.value).producer;
      all = all && (producer == kNone || done_[at(producer)]);
    });
    return all;
  }
  void emit(NodeId id) {
    g_.order.push_back(id);
    done_[at(id)] = true;
  }
  /// What the operands of a later member need, before its time.
  void needOperands(NodeId id) {
    std::vector<NodeId> producers;
    ir::forEachUse(g_.node(id), [&](const ir::Use& use) { producers.push_back(g_.value(use.value).producer); });
    for (const NodeId producer : producers) {
      if (producer == kNone || done_[at(producer)]) continue;
      needOperands(producer);
      emit(producer);
    }
  }

  /// A collective that is only split into a start and a wait stays the work of the pass that made it: a mistake in it is that one's.
  ir::Provenance provenanceOf(const Group& group) const {
    const ir::Provenance& own = g_.node(group.members.front()).provenance;
    if (group.members.size() == 1 && !own.pass.empty()) return own;
    ir::Provenance fused;
    fused.pass = kPass;
    fused.from.assign(group.members.begin(), group.members.end());
    return fused;
  }

  NodeId addNode(Symbol op, const Group& group, ir::Provenance provenance, const char* suffix) {
    const ir::Node& first = g_.node(group.members.front());
    const ir::LocationRef location = first.location;
    const ir::Phase phase = first.phase;
    const NodeId forward = first.forward;
    const NodeId id = g_.addNode(op, first.name + suffix);
    ir::Node& n = g_.node(id);
    n.location = location;
    n.phase = phase;
    n.forward = forward;
    n.provenance = std::move(provenance);
    if (done_.size() <= at(id)) done_.resize(at(id) + 1, false);
    return id;
  }
  /// A flat buffer of as many elements as `like` has; with memory of its own where `owner` is kNone.
  ValueId addBuffer(NodeId node, ValueId like, ValueId owner, bool flat) {
    const ir::Dims shape = flat ? ir::Dims{ir::numel(g_.value(like).local)} : g_.value(like).local;
    const ValueId id = g_.addOutput(node, g_.value(like).dtype, shape);
    ir::Value& v = g_.value(id);
    v.storage = owner;
    v.storage_bytes = owner == kNone ? v.localBytes() : 0;
    return id;
  }
  ValueId ownerOf(ValueId v) const { return g_.value(v).storage == kNone ? v : g_.value(v).storage; }
  bool contiguous(ValueId v) const { return ir::surelyContiguous(g_, v); }
  /// The value becomes result number `index` of another node; its name and id stay.
  void adopt(NodeId node, ValueId v) {
    g_.value(v).producer = node;
    g_.value(v).output_index = static_cast<int>(g_.node(node).outputs.size());
    g_.node(node).outputs.push_back(v);
  }

  void emitGroup(const Group& group) {
    const Symbol plain = g_.node(group.members.front()).op;
    const bool sums = plain == ir::sp::kAllReduce;
    const ir::Provenance provenance = provenanceOf(group);
    const NodeId start = addNode(ir::startOf(plain), group, provenance, ".start");
    std::vector<ValueId> results, receives, sends;
    for (const NodeId member : group.members) {
      ir::appendPart(g_.node(start), g_.node(member));
      results.push_back(g_.node(member).outputs[0]);
      done_[at(member)] = true;
    }
    for (const ValueId result : results) {
      receives.push_back(addBuffer(start, result, kNone, !sums));
      g_.value(receives.back()).keep = g_.value(result).keep;
    }
    if (!sums)
      for (const NodeId member : group.members) {
        const ValueId operand = ir::useArg(g_.node(member), kSelf);
        const Symbol dim = plain == ir::sp::kAllToAll ? kScatterDim : kDim;
        const bool in_order = plain == ir::sp::kAllGather || ir::isOutermost(g_.value(operand).local, ir::intArg(g_.node(member), dim, 0));
        sends.push_back(addBuffer(start, operand, in_order && contiguous(operand) ? ownerOf(operand) : kNone, true));
      }
    emit(start);

    const NodeId wait = addNode(ir::sp::kWait, group, provenance, ".wait");
    ir::UseList buffers;
    for (const auto* list : {&receives, &sends})
      for (const ValueId v : *list) buffers.push_back({v});
    g_.node(wait).set(kSelf, std::move(buffers));
    std::vector<NodeId> unpacks;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ir::Node& member = g_.node(group.members[i]);
      const bool gathers = plain == ir::sp::kAllToAll || plain == ir::sp::kAllGather;
      const Symbol dim = plain == ir::sp::kAllToAll ? kGatherDim : kDim;
      if (!gathers || ir::isOutermost(g_.value(results[i]).local, ir::intArg(member, dim, 0))) {
        adopt(wait, results[i]);
        moved_[results[i]] = receives[i];
        continue;
      }
      const std::int64_t gather_dim = ir::intArg(member, dim, 0);
      const ir::Dims blocks = *ir::intListArg(member, plain == ir::sp::kAllToAll ? kGatherBlocks : kBlocks);
      const ValueId flat = addBuffer(wait, results[i], receives[i], true);
      ir::Provenance part = provenance;
      if (group.members.size() > 1) part.from.assign(1, group.members[i]);
      const NodeId unpack = addNode(ir::sp::kUnpack, {{group.members[i]}, false}, std::move(part), ".unpack");
      ir::setAxis(g_.node(unpack), ir::axisOf(g_.node(group.members[i])));
      g_.node(unpack).set(kSelf, ir::Use{flat});
      g_.node(unpack).set(kDim, gather_dim);
      g_.node(unpack).set(kBlocks, blocks);
      adopt(unpack, results[i]);
      unpacks.push_back(unpack);
    }
    emit(wait);
    for (const NodeId unpack : unpacks) emit(unpack);
  }

  /// Results that lie in a receive buffer now, and all their views.
  void moveOwners() {
    for (const auto& [result, receive] : moved_) {
      g_.value(result).storage = receive;
      g_.value(result).storage_bytes = 0;
    }
    moveViews(moved_);
  }
  void moveViews(const std::map<ValueId, ValueId>& owners) {
    if (owners.empty()) return;
    for (const NodeId id : g_.order)
      for (const ValueId out : g_.node(id).outputs) {
        if (out == kNone) continue;
        const auto entry = owners.find(g_.value(out).storage);
        if (entry != owners.end()) g_.value(out).storage = entry->second;
      }
  }

  void sumInPlace() {
    std::vector<std::int64_t> last(g_.valueCount(), -1);  // by storage: the last place that reads it
    for (std::size_t i = 0; i < g_.order.size(); ++i)
      ir::forEachUse(g_.node(g_.order[i]), [&](const ir::Use& use) { last[at(ownerOf(use.value))] = static_cast<std::int64_t>(i); });
    for (const ir::Output& output : g_.outputs)
      if (output.value != kNone) last[at(ownerOf(output.value))] = static_cast<std::int64_t>(g_.order.size());
    std::map<ValueId, ValueId> owners;
    for (std::size_t i = 0; i < g_.order.size(); ++i) {
      const ir::Node& n = g_.node(g_.order[i]);
      if (!ir::isStart(n.op) || ir::plainOf(n.op) != ir::sp::kAllReduce) continue;
      std::map<ValueId, int> operands;
      for (std::size_t part = 0; part < ir::partCount(n); ++part) ++operands[ownerOf(operandOf(n, part))];
      for (std::size_t part = 0; part < ir::partCount(n); ++part) {
        const ir::Value& operand = g_.value(operandOf(n, part));
        const ir::Value& owner = g_.value(ownerOf(operand.id));
        const std::int64_t bytes = owner.storage_bytes > 0 ? owner.storage_bytes : owner.localBytes();
        // A small part of a large storage would keep all of it. The result of a sum in place is not summed in place again:
        // each storage changes once.
        if (owner.producer == kNone || owners.contains(owner.id) || last[at(owner.id)] > static_cast<std::int64_t>(i) || operands[owner.id] > 1 ||
            bytes != operand.localBytes() || !contiguous(operand.id))
          continue;
        ir::Value& receive = g_.value(n.outputs[part]);
        owners[receive.id] = owner.id;
        receive.storage = owner.id;
        receive.storage_bytes = 0;
        context_.count("in-place");
      }
    }
    moveViews(owners);
  }
  static ValueId operandOf(const ir::Node& start, std::size_t part) {
    return std::get<ir::UseList>(*start.find(kSelf))[part].value;
  }

  ir::Graph& g_;
  const PassContext& context_;
  std::vector<NodeId> program_;
  std::vector<bool> done_;               ///< by node: it stands in the new order
  std::map<ValueId, ValueId> moved_;     ///< results that need no unpacking -> their receive buffers
};

}  // namespace

Pass fuseCollectivesPass() {
  return {{"fuse-collectives",
           "Sum gradients in buckets and exchange what belongs together at once, each as a start and a wait",
           {{"collectives-before", "collectives one by one"},
            {"collectives-after", "collectives that are issued"},
            {"buckets", "sums of gradients among them"},
            {"in-place", "sums made in their operand"},
            {"predicted-peak-bytes", "predicted peak of the step"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
            if (context.settings.communication == "plain" || !Fuser(graph, context).run()) return false;
            if (!context.brief) context.count("predicted-peak-bytes", predictMemory(graph, livenessOptions(context.settings, context.services)).peak);
            return true;
          }};
}

}  // namespace spscope::passes
