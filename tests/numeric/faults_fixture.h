// SPDX-License-Identifier: Apache-2.0
// A model that is right, compiled, with a mistake put into its step or into one pass: what verify and bisect then say.
#pragma once

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

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Use;
using ir::ValueId;

class Faults : public testing::Test {
 protected:
  /// What the comparison of a faulty program says.
  struct Seen {
    bool equal = false;
    double loss_rel = 0.0, gradient_rel = 0.0;
    std::string worst;
    session::FirstDifference first;  ///< empty where nothing differs
  };

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

}  // namespace spscope::zoo
