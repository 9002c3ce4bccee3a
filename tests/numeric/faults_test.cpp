// SPDX-License-Identifier: Apache-2.0
// The proof can fail: each mistake that people make with sequence parallelism, put by hand into the compiled step of a model
// that is right, is seen: as it stands, and after collectives are fused and put behind compute.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "core/torch/capture.h"
#include "core/torch/compare.h"
#include "core/torch/virtual_ranks.h"
#include "passes/registry.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Use;
using ir::ValueId;

/// What the comparison of a faulty program says.
struct Seen {
  bool equal = false;
  double loss_rel = 0.0, gradient_rel = 0.0;
  std::string worst;
  session::FirstDifference first;  ///< empty where nothing differs
};

class Faults : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  void use(const std::string& name, int ranks = kRanks, bool stress = false, std::optional<ir::DType> dtype = ir::DType::kF64) {
    const Case what = caseOf(name, ranks, stress);
    request_.diagnostics = &diagnostics_;
    session::OpenRequest open;
    open.path = what.path;
    open.dtype = dtype;
    model_ = session::open(open, request_).value();
    settings_.sp = ranks;
    settings_.communication = "plain";  // mistakes are put in where one collective is one node
    session::CompileRequest compile;
    compile.settings = settings_;
    compiled_ = session::compile(*model_, compile, request_).value();
    ASSERT_EQ(compiled_.compiled.programs.size(), 1u);  // even shards: one program for all
    session::DataRequest data;
    data.inputs = what.inputs;
    state_ = session::loadState(*model_, data, request_).value();
    inputs_ = session::loadInputs(*model_, data, 0, request_).value();
    reference_ = session::runUnsharded(*model_, settings_, state_, inputs_, request_).value();
  }

  using Mistake = std::function<void(Graph&, int rank)>;
  enum class Issued { kPlain, kOverlapped };

  /// One rank's step with a mistake put in while each collective is one node; then, where asked, fused and overlapped as the
  /// pipeline does; then with another mistake, put into what is issued. Errors: of the passes and of the executor.
  Result<std::shared_ptr<const Graph>> graphOf(int rank, Issued issued, const Mistake& before, const Mistake& after) {
    auto graph = std::make_shared<Graph>(*compiled_.compiled.programs.front());
    before(*graph, rank);
    if (issued == Issued::kOverlapped) {
      passes::Settings settings = settings_;
      settings.communication = "overlap";
      const auto services = exec::makeOpServices();
      passes::PassContext context{.settings = settings};
      context.services = services.get();
      context.rank = rank;
      passes::PipelineResult result =
          passes::runPipeline(graph, {*passes::findPass("fuse-collectives"), *passes::findPass("overlap-collectives")}, context, {});
      if (result.failure) return std::move(*result.failure);
      graph = std::make_shared<Graph>(*result.graph);
      EXPECT_TRUE(std::any_of(graph->order.begin(), graph->order.end(), [&](NodeId id) { return ir::isStart(graph->node(id).op); }));
      after(*graph, rank);
    }
    return std::shared_ptr<const Graph>(std::move(graph));
  }

  /// Runs the ranks' programs, compares as `verify` does, and looks for where the mistake sits.
  Result<Seen> compare(Issued issued, const Mistake& before, const Mistake& after = [](Graph&, int) {}) {
    const int size = settings_.sp;
    session::Sides sides = this->sides();
    std::vector<std::shared_ptr<const exec::Program>> programs;
    for (int rank = 0; rank < size; ++rank) {
      SP_ASSIGN(auto graph, graphOf(rank, issued, before, after));
      sides.programs.push_back(graph);
      SP_ASSIGN(auto program, exec::Program::prepare(graph, {rank, size, false}));
      programs.push_back(std::move(program));
    }
    SP_ASSIGN(auto ranks, exec::VirtualRanks::create(std::move(programs)));
    SP_TRY(ranks.bind(state_));
    SP_ASSIGN(const auto results, ranks.step(inputs_));
    const exec::Tolerance tolerance = sides.tolerance;
    Seen out;
    out.equal = true;
    for (const exec::StepResult& r : results) {
      const double loss = exec::relativeError(r.loss, reference_.loss);
      SP_ASSIGN(const auto gradients, exec::compareGradients(r.gradients, reference_.gradients, tolerance.floor));
      out.equal = out.equal && loss <= tolerance.loss && gradients.within(tolerance);
      out.loss_rel = std::max(out.loss_rel, loss);
      if (gradients.rel_max >= out.gradient_rel) out.gradient_rel = gradients.rel_max, out.worst = gradients.worst;
    }
    SP_ASSIGN(const session::ValueComparison located, session::compareValues(sides, request_));
    EXPECT_EQ(located.equal, out.equal);
    EXPECT_EQ(located.first.has_value(), !out.equal);
    if (located.first) out.first = *located.first;
    return out;
  }
  /// The mistake in the plain program. The overlapped one must give the same verdict, by the same figures.
  Seen see(const Mistake& mistake) {
    const Seen plain = compare(Issued::kPlain, mistake).value();
    const Result<Seen> overlapped = compare(Issued::kOverlapped, mistake);
    EXPECT_TRUE(overlapped) << overlapped.error().format();
    if (overlapped) {
      EXPECT_EQ(overlapped->equal, plain.equal);
      EXPECT_NEAR(overlapped->loss_rel, plain.loss_rel, 1e-9 * (1 + plain.loss_rel));
      EXPECT_NEAR(overlapped->gradient_rel, plain.gradient_rel, 1e-9 * (1 + plain.gradient_rel));
      EXPECT_EQ(overlapped->first.reference_node, plain.first.reference_node);
    }
    return plain;
  }

  session::Sides sides() const {
    session::Sides out;
    out.reference = session::compileUnsharded(*model_, settings_, request_).value();
    out.state = state_;
    out.inputs = inputs_;
    out.tolerance = exec::Tolerance::of(model_->computing_dtype);
    return out;
  }

  /// The pipeline with a mistake that its pass makes, stage by stage.
  session::Bisection bisect(const std::string& pass, const std::function<void(Graph&)>& mistake) {
    const auto broken = [&](std::vector<passes::Pass> list) {
      for (passes::Pass& p : list)
        if (p.info.name == pass)
          p.run = [run = p.run, &mistake](Graph& g, const passes::PassContext& context) -> Result<bool> {
            SP_TRY(run(g, context));
            mistake(g);
            return true;
          };
      return list;
    };
    const auto stages = session::stageGraphs(*model_, settings_, request_, broken(passes::planningPasses()), broken(passes::programPasses()));
    if (!stages) throw std::runtime_error(stages.error().format());
    return session::bisect(*stages, sides(), request_).value();
  }

  static bool nothing(const Node&) { return true; }
  /// First node of the op for which `which` holds; fails the test where there is none.
  static NodeId find(const Graph& g, std::string_view op, const std::function<bool(const Node&)>& which = nothing) {
    for (const NodeId id : g.order)
      if (g.node(id).op.str() == op && which(g.node(id))) return id;
    throw std::runtime_error("the program has no " + std::string(op));
  }
  static bool backward(const Node& n) { return n.phase == ir::Phase::kBackward; }
  static bool forward(const Node& n) { return n.phase == ir::Phase::kForward; }
  static void drop(Graph& g, NodeId id) {
    g.replaceAllUses(g.node(id).outputs[0], ir::useArg(g.node(id), "self"));
    std::erase(g.order, id);
  }
  /// A node behind `after` with one output like `like`'s, of local shape `local`.
  static ValueId insert(Graph& g, NodeId after, const char* op, std::vector<ir::Argument> args, ValueId like, ir::Dims local) {
    const NodeId id = g.addNode(op, "fault");
    for (ir::Argument& a : args) g.node(id).args.push_back(std::move(a));
    g.node(id).phase = g.node(after).phase;
    const ValueId out = g.addOutput(id, g.value(like).dtype, local);
    g.value(out).local = std::move(local);
    g.order.insert(std::find(g.order.begin(), g.order.end(), after) + 1, id);
    return out;
  }
  /// The slice that gives each rank its labels.
  static NodeId labelSlice(const Graph& g) {
    return find(g, "sp.slice.default", [&](const Node& n) {
      return g.value(n.outputs[0]).dtype == ir::DType::kI64 && n.location && ir::useArg(n, "self") != labels(g) &&
             g.value(ir::useArg(n, "self")).producer != ir::kNone;
    });
  }
  static ValueId labels(const Graph& g) {
    for (const ir::Input& in : g.inputs)
      if (in.name == "labels") return in.value;
    throw std::runtime_error("no labels");
  }

  DiagnosticSink diagnostics_;
  session::Request request_;
  passes::Settings settings_;
  std::shared_ptr<const session::Model> model_;
  session::CompileOutcome compiled_;
  exec::TensorBag state_, inputs_;
  exec::StepResult reference_;
};

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

// --- which pass it was ----------------------------------------------------------------------------------------------

TEST_F(Faults, NoPassIsBlamedForARightProgram) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("", {});
  EXPECT_EQ(found.pass, "");
  EXPECT_EQ(found.stages.size(), 1 + passes::planningPasses().size() + passes::programPasses().size());
  std::map<std::string, std::string> judged;
  for (const session::BisectStage& s : found.stages) judged[s.pass] = s.judged_by;
  EXPECT_EQ(judged["functionalize"], "loss");
  EXPECT_EQ(judged["plan-sequence"], "");  // cannot run
  EXPECT_EQ(judged["insert-all-to-all"], "values");
  EXPECT_EQ(judged["parallelize-loss"], "loss");
  EXPECT_EQ(judged["overlap-collectives"], "loss and gradients");
}

TEST_F(Faults, ThePassThatLosesTheMaskIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("lower-attention", [](Graph& g) {
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false);
  });
  EXPECT_EQ(found.pass, "lower-attention");
  EXPECT_THAT(found.suspects, testing::ElementsAre("lower-attention"));
  EXPECT_EQ(found.stages.back().judged_by, "loss");
}

TEST_F(Faults, WhatCannotRunBeforeItIsSuspectedToo) {
  use("llama_causal_gqa_pos", 4);
  const session::Bisection found = bisect("insert-all-to-all", [](Graph& g) {  // scores that are not scaled: the placements stay right
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("scale", 1.0);
  });
  EXPECT_EQ(found.pass, "insert-all-to-all");
  EXPECT_THAT(found.suspects, testing::ElementsAre("plan-sequence", "shard-sequence", "insert-all-to-all"));
  EXPECT_EQ(found.stages.back().judged_by, "values");
}

TEST_F(Faults, ThePassThatCountsWronglyIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("parallelize-loss", [](Graph& g) {
    const NodeId mean = find(g, "aten.div.Tensor", [](const Node& n) { return n.name.find("_mean") != std::string::npos; });
    g.node(mean).op = "aten.mul.Tensor";
  });
  EXPECT_EQ(found.pass, "parallelize-loss");
}

TEST_F(Faults, ThePassThatLosesASumInTheBackwardIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("schedule", [](Graph& g) { drop(g, find(g, "sp.all_reduce.default", backward)); });
  EXPECT_EQ(found.pass, "schedule");
  EXPECT_EQ(found.stages.back().judged_by, "loss and gradients");
  EXPECT_LE(found.stages.back().loss_rel, 1e-10);
  EXPECT_GT(found.stages.back().grad_rel_max, 0.1);
}

TEST_F(Faults, RanksThatIssueOtherCollectivesDoNotStart) {
  use("llama_causal_gqa_pos");
  std::vector<std::shared_ptr<const exec::Program>> programs;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto graph = std::make_shared<Graph>(*compiled_.compiled.programs.front());
    if (rank == 1) drop(*graph, find(*graph, "sp.all_reduce.default", backward));
    programs.push_back(exec::Program::prepare(graph, {rank, kRanks, false}).value());
  }
  const auto ranks = exec::VirtualRanks::create(std::move(programs));
  ASSERT_FALSE(ranks);
  EXPECT_EQ(ranks.error().code, "rank-programs-differ");
}

/// Mistakes in exchanges, before they are fused. Sizes that do not fit need not run; nothing may call them equal.
TEST_F(Faults, ExchangesOfOtherPartsOrSizes) {
  use("llama_causal_mha_pos");
  const auto exchange = [](Graph& g) -> Node& { return g.node(find(g, "sp.all_to_all.default", forward)); };
  const Mistake other_offset = [&](Graph& g, int) {  // each rank gives its neighbour's heads away
    const NodeId id = find(g, "sp.all_to_all.default", forward);
    const ValueId operand = ir::useArg(g.node(id), "self");
    const std::int64_t dim = ir::intArg(g.node(id), "scatter_dim", -1);
    const NodeId producer = g.value(operand).producer;
    const ValueId rolled = insert(g, producer, "aten.roll.default",
                                  {{"self", Use{operand}}, {"shifts", std::vector<std::int64_t>{1}}, {"dims", std::vector<std::int64_t>{dim}}},
                                  operand, g.value(operand).local);
    g.node(id).set("self", Use{rolled});
  };
  const Seen seen = see(other_offset);
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-6);
  for (const char* blocks : {"gather_blocks", "scatter_blocks"})
    for (const Issued issued : {Issued::kPlain, Issued::kOverlapped}) {
      SCOPED_TRACE(blocks);
      const auto result = compare(issued, [&](Graph& g, int) {
        ir::Dims sizes = *ir::intListArg(exchange(g), blocks);
        --sizes.front();
        ++sizes.back();
        exchange(g).set(blocks, sizes);
      });
      EXPECT_FALSE(result && result->equal);
    }
}

/// Mistakes that only a fused, started program can have.
TEST_F(Faults, InWhatIsIssued) {
  use("llama_causal_mha_pos");
  const auto startOf = [](const Graph& g, const char* op, std::size_t parts) {
    return find(g, op, [&](const Node& n) { return ir::partCount(n) >= parts; });
  };
  const auto operands = [](Graph& g, NodeId start) { return std::get<ir::UseList>(*g.node(start).find("self")); };
  const auto waitOf = [](const Graph& g, NodeId start) {
    return find(g, "sp.wait.default", [&](const Node& n) { return std::get<ir::UseList>(*n.find("self")).front().value == g.node(start).outputs[0]; });
  };
  const Mistake none = [](Graph&, int) {};
  const auto right = compare(Issued::kOverlapped, none, none);
  ASSERT_TRUE(right) << right.error().format();
  ASSERT_TRUE(right->equal);

  const std::map<std::string, Mistake> mistakes = {
      {"operands of an exchange in another order",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_to_all_start.default", 2);
         ir::UseList list = operands(g, start);
         std::swap(list[0], list[1]);
         g.node(start).set("self", std::move(list));
       }},
      {"a gradient of a bucket that is taken before the sum",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const ValueId own = operands(g, start)[0].value, sum = g.node(waitOf(g, start)).outputs[0];
         const NodeId copy = g.addNode("aten.clone.default", "fault");
         g.node(copy).args = {{"self", Use{own}}};
         g.node(copy).phase = g.node(start).phase;
         const ValueId kept = g.addOutput(copy, g.value(own).dtype, g.value(own).local);
         g.order.insert(std::find(g.order.begin(), g.order.end(), start), copy);
         g.replaceAllUses(sum, kept);
       }},
      {"a gradient of a bucket that is summed again",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const NodeId wait = waitOf(g, start);
         const ValueId sum = g.node(wait).outputs[0];
         const NodeId again = g.addNode("sp.all_reduce.default", "fault");
         g.node(again).args = {{"self", Use{sum}}};
         g.node(again).phase = g.node(start).phase;
         const ValueId twice = g.addOutput(again, g.value(sum).dtype, g.value(sum).local);
         g.replaceAllUses(sum, twice);
         g.node(again).set("self", Use{sum});
         g.order.insert(std::find(g.order.begin(), g.order.end(), wait) + 1, again);
       }},
      {"parts of other sizes",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_to_all_start.default", 1);
         ir::Dims sizes = *ir::intListArg(g.node(start), "scatter_blocks");
         --sizes[0], ++sizes[1];
         g.node(start).set("scatter_blocks", sizes);
       }},
      {"parts that are put together along another dimension's sizes",
       [&](Graph& g, int) {
         const NodeId unpack = find(g, "sp.unpack.default");
         ir::Dims sizes = *ir::intListArg(g.node(unpack), "blocks");
         --sizes.front(), ++sizes.back();
         g.node(unpack).set("blocks", sizes);
       }},
      {"an exchange that nobody waits for",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const NodeId wait = waitOf(g, start);
         for (std::size_t i = 0; i < ir::partCount(g.node(start)); ++i) g.replaceAllUses(g.node(wait).outputs[i], g.node(start).outputs[i]);
         std::erase(g.order, wait);
       }},
  };
  for (const auto& [what, mistake] : mistakes) {
    SCOPED_TRACE(what);
    const auto result = compare(Issued::kOverlapped, none, mistake);
    EXPECT_FALSE(result && result->equal);
  }
}

TEST_F(Faults, AMissingVaryIsSeenBeforeAnythingRuns) {
  use("llama_causal_gqa_pos");
  std::shared_ptr<const Graph> local;
  for (const auto& stage : compiled_.compiled.stages)
    if (stage.name == "lower-attention") local = stage.graph;
  ASSERT_TRUE(local);
  const auto ofKeys = [](const Node& n) { return n.location && n.location->module_path.find("k_proj") != std::string::npos; };
  for (const bool with_mistake : {false, true}) {
    auto graph = std::make_shared<Graph>(*local);
    if (with_mistake) drop(*graph, find(*graph, "sp.vary.default", ofKeys));
    const auto services = exec::makeOpServices();
    passes::PassContext context{.settings = settings_};
    context.services = services.get();
    const auto result = passes::runPipeline(graph, {*passes::findPass("build-joint"), *passes::findPass("sync-gradients")}, context, {});
    ASSERT_EQ(result.failure.has_value(), with_mistake);
    if (!with_mistake) continue;
    EXPECT_EQ(result.failure->code, "gradient-incomplete");
    EXPECT_THAT(result.failure->message, testing::HasSubstr("k_proj.weight"));
    EXPECT_EQ(result.failed_pass, "sync-gradients");
  }
}

TEST_F(Faults, ASumTakenTwiceIsSeenBeforeAnythingRuns) {
  use("llama_causal_gqa_pos");
  std::shared_ptr<const Graph> joint;
  for (const auto& stage : compiled_.compiled.stages)
    if (stage.name == "build-joint") joint = stage.graph;
  ASSERT_TRUE(joint);
  auto graph = std::make_shared<Graph>(*joint);
  const NodeId sum = find(*graph, "sp.all_reduce.default", backward);
  const ValueId once = graph->node(sum).outputs[0];
  const ValueId twice = insert(*graph, sum, "sp.all_reduce.default", {{"self", Use{once}}}, once, graph->value(once).local);
  for (ir::Output& out : graph->outputs)
    if (out.value == once) out.value = twice;
  passes::PassContext context{.settings = settings_};
  const auto result = passes::runPipeline(graph, {*passes::findPass("sync-gradients")}, context, {});
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, "gradient-repeated");
}

}  // namespace
}  // namespace spscope::zoo
