// SPDX-License-Identifier: Apache-2.0
// Graphs for tests: one of a transformer's size and texture, and random ones that use every part of the IR.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "core/ir/graph.h"
#include "core/ir/sp_ops.h"

namespace spscope::test {

/// A joint graph of about `nodes` nodes: names, locations, lists, phases and views as a captured 32-layer step has them.
inline ir::Graph syntheticJoint(int nodes) {
  using namespace ir;
  Graph g;
  g.name = "synthetic";
  g.form = Form::kJoint;
  g.mesh.axes = {{"dp", 1}, {"sp", 4}};
  const auto input = [&](std::string name, InputKind kind, Dims shape) {
    const ValueId v = g.addValue(name, DType::kF32, std::move(shape));
    Input in{v, kind, name, {}, std::nullopt, kind == InputKind::kParameter};
    if (kind == InputKind::kParameter) in.storage = StorageRef{"data/weights/" + name, 0, {64, 1}, DType::kUnknown};
    g.inputs.push_back(std::move(in));
    return v;
  };
  ValueId x = input("x", InputKind::kUser, {2, 16, 64});
  std::vector<ValueId> weights;
  for (int i = 0; i < nodes / 25; ++i)
    weights.push_back(input("model.layers." + std::to_string(i) + ".weight", InputKind::kParameter, {64, 64}));
  const int half = nodes / 2;
  for (int i = 0; i < nodes - 1; ++i) {
    const ValueId w = weights[static_cast<std::size_t>(i / 25) % weights.size()];
    const char* const ops[] = {"aten.mul.Tensor", "aten.view.default", "aten.mm.default", "aten.transpose.int", "aten.add.Tensor"};
    const NodeId n = g.addNode(ops[i % 5], std::string(baseName(ops[i % 5])) + "_" + std::to_string(i));
    Node& node = g.node(n);
    node.args.push_back({"self", Use{x}});
    if (i % 5 == 1) {
      node.args.push_back({"size", Dims{2, 16, 64}});
    } else if (i % 5 == 3) {
      node.args.push_back({"dim0", std::int64_t{0}});
      node.args.push_back({"dim1", std::int64_t{1}});
    } else {
      node.args.push_back({"other", Use{w}});
    }
    if (i % 4 == 0 || !node.location) {
      node.location = std::make_shared<const Location>(
          Location{"model.layers." + std::to_string(i / 100) + ".self_attn", "LlamaAttention",
                   "modeling_llama.py:" + std::to_string(100 + i % 90), {}});
    }
    node.provenance = {"build-joint", {i / 2}};
    node.phase = i < half ? Phase::kForward : Phase::kBackward;
    if (i >= half) node.forward = nodes - 1 - i;
    g.order.push_back(n);
    const ValueId next = g.addOutput(n, DType::kF32, {2, 16, 64});
    if (i % 5 == 1 || i % 5 == 3) {
      g.value(next).storage = x;
    } else {
      g.value(next).storage_bytes = 8192;
    }
    x = next;
  }
  const NodeId loss = g.addNode("aten.sum.default", "loss");
  g.node(loss).args.push_back({"self", Use{x}});
  g.node(loss).phase = Phase::kBackward;
  g.order.push_back(loss);
  g.outputs.push_back({g.addOutput(loss, DType::kF32, {}), OutputKind::kLoss, kNone});
  return g;
}

/// A random graph that uses every kind of attribute, placement, input and output. Not a program that could run.
inline ir::Graph randomGraph(unsigned seed) {
  using namespace ir;
  std::mt19937 rng(seed);
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const auto word = [&] {
    static const char* const kWords[] = {"x", "view_3.1", "with space", "a\"b\\c", "line\nbreak", "", "0start", "tab\t",
                                         "utf\xc3\xa9", "%odd", "model.layers.0", "\x01\x7f", "none", "P", "_"};
    return std::string(kWords[pick(15)]);
  };
  Graph g;
  g.name = word();
  g.form = static_cast<Form>(pick(4));
  g.mesh.axes = {{"dp", 1 + pick(2)}, {"sp", 2}};
  g.rank = pick(2);
  std::vector<ValueId> known;
  const auto decorate = [&](ValueId id) {
    Value& v = g.value(id);
    v.requires_grad = pick(2);
    if (pick(2)) {
      v.factors = plainFactors(v.shape);
      if (!v.factors.empty() && pick(2)) {
        FactorList& list = v.factors[0];
        list.clear();
        list.push_back({2, static_cast<Tag>(pick(4))});
        if (pick(2)) list.push_back({3, static_cast<Tag>(pick(4))});
        v.shape[0] = sizeOf(list);
        if (pick(2)) v.placement = Placement::sharded(0, pick(static_cast<int>(list.size())), {1, 1});
      }
      if (pick(4) == 0) v.factors.push_back({{1, Tag::kNone}});
      v.local = v.shape;
      if (!v.local.empty() && pick(2)) v.local[0] = 1;
    }
    if (!v.placement.isSharded() && pick(3) == 0) v.placement = Placement::partial();
    if (pick(3) == 0) v.storage_bytes = pick(1000);
    v.keep = static_cast<Keep>(pick(4));
    if (pick(4) == 0 && !known.empty()) v.storage = known[static_cast<std::size_t>(pick(static_cast<int>(known.size())))];
    known.push_back(id);
  };
  const auto shape = [&] {
    Dims d(static_cast<std::size_t>(pick(4)));
    for (auto& n : d) n = pick(5);
    return d;
  };
  const auto dtype = [&] { return static_cast<DType>(pick(22)); };
  for (int i = 0; i < 1 + pick(5); ++i) {
    Input in;
    in.value = g.addValue(word(), dtype(), shape());
    decorate(in.value);
    in.kind = static_cast<InputKind>(pick(4));
    in.name = word() + std::to_string(i);
    in.trainable = pick(2);
    for (int k = pick(3); k > 0; --k) in.aliases.push_back(word());
    if (pick(2)) in.storage = StorageRef{word(), pick(100), shape(), pick(2) ? DType::kF16 : DType::kUnknown};
    g.inputs.push_back(std::move(in));
  }
  const auto anyUse = [&] { return Use{known[static_cast<std::size_t>(pick(static_cast<int>(known.size())))]}; };
  const auto real = [&] {
    static const double kReals[] = {0.0, -0.0, 1.0, -2.5, 1e300, 5e-324, 1.0 / 3, 1.0 / 0.0, -1.0 / 0.0, 123456789.0, 1e22};
    return kReals[pick(11)];
  };
  const auto attribute = [&]() -> Attribute {
    switch (pick(20)) {
      case 0: return {};
      case 1: return UseList{};
      case 2: return UseList{anyUse(), Use{}, anyUse()};
      case 3: return UseList{Use{}};
      case 4: return std::int64_t{-5};
      case 5: return std::int64_t{9223372036854775807};
      case 6: return real();
      case 7: return pick(2) == 0;
      case 8: return word();
      case 9: return shape();
      case 10: return std::vector<double>{};
      case 11: return std::vector<double>{real(), real()};
      case 12: return std::vector<bool>{};
      case 13: return std::vector<bool>{true, false};
      case 14: return std::vector<std::string>{};
      case 15: return std::vector<std::string>{word(), word()};
      case 16: return dtype();
      case 17: return static_cast<MemoryFormat>(pick(4));
      case 18: return pick(2) ? Attribute(Layout::kStrided) : Attribute(Device{word()});
      default: return anyUse();
    }
  };
  for (int i = 0; i < pick(20); ++i) {
    const NodeId id = g.addNode(pick(9) ? "aten.op.default" : "odd op", word());
    for (int k = pick(4); k > 0; --k) {
      Attribute a = attribute();
      g.node(id).args.push_back({Symbol(pick(9) ? "arg_" + std::to_string(k) : std::string("odd name")), std::move(a)});
    }
    for (int k = pick(3); k > 0; --k) {
      if (pick(5) == 0) {
        g.node(id).outputs.push_back(kNone);
      } else {
        decorate(g.addOutput(id, dtype(), shape(), pick(2) ? word() : std::string()));
      }
    }
    Node& n = g.node(id);
    n.phase = static_cast<Phase>(pick(3));
    if (pick(3) == 0) n.forward = pick(id + 1);
    n.must_save = pick(4) == 0;
    if (pick(2)) n.location = std::make_shared<const Location>(Location{word(), word(), word(), {}, pick(3)});
    if (pick(2)) n.provenance = {"some-pass", {pick(5), pick(5)}};
    if (pick(6)) g.order.push_back(id);  // the others are dead, with outputs that nothing below may use
    else
      for (ValueId v : n.outputs)
        if (v != kNone) known.erase(std::find(known.begin(), known.end(), v));
  }
  std::shuffle(g.order.begin(), g.order.end(), rng);  // uses may stand before definitions
  for (int i = 0; i < pick(4); ++i)
    g.outputs.push_back({pick(4) ? anyUse().value : kNone, static_cast<OutputKind>(pick(4)), pick(3) - 1});
  return g;
}

}  // namespace spscope::test
