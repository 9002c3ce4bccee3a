// SPDX-License-Identifier: Apache-2.0
// The proof can fail: each mistake that people make with sequence parallelism, put by hand into the compiled step of a model
// that is right, is seen: as it stands, and after collectives are fused and put behind compute.
#include "tests/numeric/faults_fixture.h"

namespace spscope::zoo {
namespace {

TEST_F(Faults, WithoutOneTheProgramIsRight) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph&, int) {});
  EXPECT_TRUE(seen.equal) << seen.loss_rel << " " << seen.gradient_rel;
  EXPECT_TRUE(seen.first.node.empty());
}

TEST_F(Faults, AGradientThatIsNotSummed) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) { drop(g, find(g, "sp.all_reduce.default", backward)); });
  EXPECT_FALSE(seen.equal);
  EXPECT_LE(seen.loss_rel, 1e-10);  // the loss says nothing about it
  EXPECT_GT(seen.gradient_rel, 0.1);
  EXPECT_EQ(seen.first.node, "linear_14.bwd.mm");  // what the result is now: the head's gradient, the first of the backward
  EXPECT_EQ(seen.first.parameter, "model.lm_head.weight");
  EXPECT_EQ(seen.first.phase, ir::Phase::kBackward);
  EXPECT_EQ(seen.first.pass, "build-joint");
  EXPECT_EQ(seen.first.source, "modeling_llama.py:471");
  EXPECT_THAT(seen.first.ranks, testing::ElementsAre(0, 1));
  EXPECT_EQ(seen.first.remark, "the values of the ranks add up to the right one: a sum over the ranks is missing");
}

TEST_F(Faults, AGradientThatIsSummedTwice) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) {
    const NodeId sum = find(g, "sp.all_reduce.default", backward);
    const ValueId once = g.node(sum).outputs[0];
    const ValueId twice = insert(g, sum, "sp.all_reduce.default", {{"self", Use{once}}}, once, g.value(once).local);
    for (ir::Output& out : g.outputs)
      if (out.value == once) out.value = twice;
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_LE(seen.loss_rel, 1e-10);
  EXPECT_NEAR(seen.gradient_rel, kRanks - 1, 1e-6);
  EXPECT_EQ(seen.first.node, "fault");
  EXPECT_NEAR(seen.first.got, kRanks * seen.first.wanted, 1e-9);
}

TEST_F(Faults, ALossThatIsNotSummed) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) { drop(g, find(g, "sp.all_reduce.default", forward)); });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 0.1);
  EXPECT_EQ(seen.first.node, "cross_entropy_loss_mean");
  EXPECT_EQ(seen.first.parameter, "loss");
  EXPECT_EQ(seen.first.pass, "parallelize-loss");
  EXPECT_EQ(seen.first.remark, "the values of the ranks add up to the right one: a sum over the ranks is missing");
}

TEST_F(Faults, MeanOfLocalMeans) {
  for (const char* name : {"llama_causal_gqa_pos", "llama_deadshard_pos"}) {
    SCOPED_TRACE(name);
    use(name);
    // The mean over each rank's own labels, then the mean of the ranks.
    const Seen seen = see([](Graph& g, int) {
      const NodeId slice = labelSlice(g);
      const NodeId count = find(g, "aten.sum.default", [](const Node& n) { return n.name.find("_valid") != std::string::npos; });
      g.node(g.value(ir::useArg(g.node(count), "self")).producer).set("self", Use{g.node(slice).outputs[0]});
      const ValueId valid = g.node(count).outputs[0];
      const ValueId scaled = insert(g, count, "aten.mul.Scalar", {{"self", Use{valid}}, {"other", std::int64_t{kRanks}}}, valid, {});
      for (const NodeId id : g.order)
        if (g.node(id).op.str() == "aten.div.Tensor" && ir::useArg(g.node(id), "other") == valid) g.node(id).set("other", Use{scaled});
    });
    EXPECT_FALSE(seen.equal);
    EXPECT_GT(seen.loss_rel, 1e-4);
    EXPECT_GT(seen.gradient_rel, 1e-3);
    EXPECT_EQ(seen.first.node, "cross_entropy_loss_mean");  // the first that has a counterpart: sums and counts have none
    EXPECT_EQ(seen.first.placement, "partial sum");
  }
}

TEST_F(Faults, LabelsShiftedInsideEachShard) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) {
    const NodeId slice = labelSlice(g);
    const ValueId whole = labels(g);
    const ir::Dims local = g.value(g.node(slice).outputs[0]).local;
    const std::int64_t width = local.at(1);
    const ValueId own = insert(g, slice, "sp.slice.default",
                               {{"self", Use{whole}}, {"dim", std::int64_t{1}}, {"blocks", std::vector<std::int64_t>(kRanks, width)}}, whole, local);
    const ValueId padded = insert(g, g.value(own).producer, "aten.constant_pad_nd.default",
                                  {{"self", Use{own}}, {"pad", std::vector<std::int64_t>{0, 1}}, {"value", std::int64_t{-100}}}, whole,
                                  {local[0], width + 1});
    const ValueId shifted = insert(g, g.value(padded).producer, "aten.slice.Tensor",
                                   {{"self", Use{padded}}, {"dim", std::int64_t{1}}, {"start", std::int64_t{1}}, {"end", width + 1}}, whole, local);
    const ValueId contiguous = insert(g, g.value(shifted).producer, "aten.clone.default",
                                      {{"self", Use{shifted}}, {"memory_format", ir::MemoryFormat::kContiguous}}, whole, local);
    g.replaceAllUses(g.node(slice).outputs[0], contiguous);
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-4);
  EXPECT_GT(seen.gradient_rel, 1e-3);
  EXPECT_EQ(seen.first.node, "fault.2");  // the shifted block: the labels no more
}

TEST_F(Faults, AttentionWithoutItsCausalMask) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) {
    int changed = 0;
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false), ++changed;
    EXPECT_EQ(changed, 4);  // two layers, forward and backward
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-4);
  EXPECT_EQ(seen.first.node, "scaled_dot_product_attention");
  EXPECT_EQ(seen.first.pass, "lower-attention");
  EXPECT_EQ(seen.first.placement, "sharded on dimension 1 in blocks of 4, 4");
  EXPECT_EQ(seen.first.shape, (ir::Dims{2, 8, 64, 4}));
  EXPECT_THAT(seen.first.index, testing::SizeIs(4));
}

TEST_F(Faults, AMaskThatIsDropped) {
  use("llama_gqa_pad");
  const Seen seen = see([](Graph& g, int) {
    int changed = 0;
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op) && g.node(id).find("mask_rule")) g.node(id).set("mask_rule", ir::Dims{}), ++changed;
    EXPECT_EQ(changed, 4);
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-6);
  EXPECT_EQ(seen.first.node, "scaled_dot_product_attention");
}

TEST_F(Faults, AClauseOfAMaskThatIsDropped) {
  use("llama_packed_pos");
  const Seen seen = see([](Graph& g, int) {
    for (const NodeId id : g.order) {
      if (!ir::isAttention(g.node(id).op)) continue;
      ir::Dims rule = ir::intListArg(g.node(id), "mask_rule").value_or(ir::Dims{});
      EXPECT_EQ(rule.size(), 10U);  // causal, document
      rule.resize(5);
      g.node(id).set("mask_rule", rule);
    }
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-6);
}

TEST_F(Faults, PositionsThatStartAnewOnEveryRank) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) {
    const NodeId slice = find(g, "sp.slice.default", [&](const Node& n) { return g.value(n.outputs[0]).dtype == ir::DType::kF64; });
    const ValueId table = ir::useArg(g.node(slice), "self");
    const ir::Dims local = g.value(g.node(slice).outputs[0]).local;
    const std::int64_t dim = ir::intArg(g.node(slice), "dim", -1);
    const ValueId first = insert(g, slice, "aten.slice.Tensor",
                                 {{"self", Use{table}}, {"dim", dim}, {"start", std::int64_t{0}}, {"end", local.at(static_cast<std::size_t>(dim))}},
                                 table, local);
    g.replaceAllUses(g.node(slice).outputs[0], first);
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.gradient_rel, 1e-6);
  EXPECT_EQ(seen.first.node, "mul.1");  // the first reader of the table, put in for it
  EXPECT_THAT(seen.first.ranks, testing::ElementsAre(1));  // rank 0 starts at 0 anyway
}

TEST_F(Faults, GradientsOfKeysAndValuesExchanged) {
  use("llama_causal_mha_pos");
  const Seen seen = see([](Graph& g, int) {
    const auto isExchange = [](const Node& n) { return backward(n) && ir::intArg(n, "gather_dim", -1) == 1; };
    const NodeId first = find(g, "sp.all_to_all.default", isExchange);
    const NodeId second = find(g, "sp.all_to_all.default", [&](const Node& n) { return isExchange(n) && n.id != first; });
    const ValueId a = ir::useArg(g.node(first), "self"), b = ir::useArg(g.node(second), "self");
    g.node(first).set("self", Use{b});
    g.node(second).set("self", Use{a});
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_LE(seen.loss_rel, 1e-10);
  EXPECT_GT(seen.gradient_rel, 0.1);
  EXPECT_EQ(seen.first.op, "aten.mul.Tensor");  // of the rotary embedding of keys, which reads the wrong one
  EXPECT_EQ(seen.first.phase, ir::Phase::kBackward);
  EXPECT_EQ(seen.first.source, "modeling_llama.py:249");
}

TEST_F(Faults, AMistakeOnOneRankOnly) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int rank) {
    if (rank != 1) return;
    const NodeId sum = find(g, "sp.all_reduce.default", backward);
    for (ir::Output& out : g.outputs)
      if (out.value == g.node(sum).outputs[0]) out.value = ir::useArg(g.node(sum), "self");
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.gradient_rel, 0.1);
  EXPECT_EQ(seen.first.node, "linear_14.bwd.mm");
  EXPECT_THAT(seen.first.ranks, testing::ElementsAre(1));
}

TEST_F(Faults, AGradientThatIsMissing) {
  use("nanogpt");
  const Seen seen = see([](Graph& g, int) {
    std::erase_if(g.outputs, [&](const ir::Output& out) {
      return out.kind == ir::OutputKind::kGradient && g.inputs[static_cast<std::size_t>(out.input)].name == "blocks.0.attn.qkv.weight";
    });
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_NEAR(seen.gradient_rel, 1.0, 1e-12);
  EXPECT_EQ(seen.worst, "blocks.0.attn.qkv.weight");
  EXPECT_EQ(seen.first.parameter, "blocks.0.attn.qkv.weight");
  EXPECT_EQ(seen.first.remark, "the program does not compute this gradient");
}

TEST_F(Faults, TheGradientOfASumThatIsSummed) {
  use("llama_causal_gqa_pos");
  const Seen seen = see([](Graph& g, int) {  // of the loss: every rank has its own share of it, whole
    const NodeId first = find(g, "aten.div.Tensor", backward);
    const ValueId once = g.node(first).outputs[0];
    const ValueId summed = insert(g, first, "sp.all_reduce.default", {{"self", Use{once}}}, once, g.value(once).local);
    for (const NodeId id : g.order)
      if (id != g.value(summed).producer)
        ir::forEachUse(g.node(id), [&](Use& use) {
          if (use.value == once) use.value = summed;
        });
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_LE(seen.loss_rel, 1e-10);
  EXPECT_NEAR(seen.gradient_rel, kRanks - 1, 1e-6);
  EXPECT_EQ(seen.first.phase, ir::Phase::kBackward);
  EXPECT_THAT(seen.first.reference_node, testing::AnyOf("cross_entropy_loss.bwd._log_softmax_backward_data", "linear_14.bwd.view"));
}

TEST_F(Faults, AGradientOfASliceThatIsNotGathered) {
  use("s_pos_param", kRanks, /*stress=*/true);
  const Seen seen = see([](Graph& g, int rank) {  // its own block, zeros where the others' are
    const NodeId gather = find(g, "sp.all_gather.default", backward);
    const ValueId own = ir::useArg(g.node(gather), "self"), whole = g.node(gather).outputs[0];
    const std::int64_t width = g.value(own).local.at(1);
    const ValueId padded = insert(g, gather, "aten.constant_pad_nd.default",
                                  {{"self", Use{own}}, {"pad", std::vector<std::int64_t>{0, 0, rank == 0 ? 0 : width, rank == 0 ? width : 0}}, {"value", 0.0}}, whole,
                                  g.value(whole).local);
    g.replaceAllUses(whole, padded);
    std::erase(g.order, gather);
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_EQ(seen.first.node, "slice_1.bwd.slice_backward");
  EXPECT_THAT(seen.first.ranks, testing::ElementsAre(0, 1));
}

TEST_F(Faults, KeyHeadsTiledInsteadOfInterleaved) {
  use("llama_causal_gqa_pos", 4);  // two kv heads on four ranks: each is needed twice
  const Seen seen = see([](Graph& g, int) {
    int changed = 0;
    for (const NodeId id : g.order) {
      Node& n = g.node(id);
      if (n.op.str() != "aten.unsqueeze.default" || n.phase != ir::Phase::kForward || ir::intArg(n, "dim", -1) != 2 || n.provenance.pass != "plan-sequence") continue;
      n.set("dim", std::int64_t{1});
      ir::Dims& local = g.value(n.outputs[0]).local;
      std::swap(local[1], local[2]);
      ++changed;
    }
    EXPECT_EQ(changed, 4);  // keys and values of two layers
  });
  EXPECT_FALSE(seen.equal);
  EXPECT_EQ(seen.first.node, "scaled_dot_product_attention");
  EXPECT_EQ(seen.first.ranks.size(), 2u);  // the ranks between have the head that they need
}

TEST_F(Faults, AreFoundInFloat32) {
  use("llama_causal_gqa_pos", kRanks, false, ir::DType::kF32);
  const Seen seen = see([](Graph& g, int) {
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false);
  });
  EXPECT_EQ(seen.first.node, "scaled_dot_product_attention");
}

}  // namespace
}  // namespace spscope::zoo
