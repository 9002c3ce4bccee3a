// SPDX-License-Identifier: Apache-2.0
// A debugger over a model of the zoo, with faults put into its programs where a test wants them.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "core/session/debug/command.h"
#include "core/session/verify.h"
#include "core/torch/tensor_store.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {

namespace dbg = session::debug;

class DebugSession : public testing::Test {
 protected:
  using Fault = std::function<void(ir::Graph&, int rank)>;

  /// `communication`: "plain" where faults are put in, so that one collective is one node.
  void open(const std::string& name, int ranks, const Fault& fault = {}, const std::string& communication = "overlap") {
    const Case what = caseOf(name, ranks);
    request_.diagnostics = &diagnostics_;
    session::OpenRequest open;
    open.path = what.path;
    open.dtype = dtype_;
    open.sequence_marks = what.marks;
    const auto model = session::open(open, request_).value();
    passes::Settings settings;
    settings.sp = ranks;
    settings.threads = 1;
    settings.communication = fault ? "plain" : communication;
    settings.sequence_marks = what.marks;
    session::DataRequest data;
    data.inputs = what.inputs;
    session::CompileRequest compile;
    compile.settings = settings;
    setup_.compiled = std::make_shared<const session::CompileOutcome>(session::compile(*model, compile, request_).value());
    setup_.sides.reference = session::compileUnsharded(*model, settings, request_).value();
    setup_.sides.programs = session::programsOf(setup_.compiled->compiled);
    if (fault)
      for (int r = 0; r < ranks; ++r) {
        auto graph = std::make_shared<ir::Graph>(*setup_.sides.programs[static_cast<std::size_t>(r)]);
        fault(*graph, r);
        setup_.sides.programs[static_cast<std::size_t>(r)] = std::move(graph);
      }
    setup_.sides.state = session::loadState(*model, data, request_).value();
    setup_.sides.inputs = session::loadInputs(*model, data, 0, request_).value();
    setup_.sides.tolerance = exec::Tolerance::of(model->computing_dtype);
    setup_.origin = dbg::Origin{model, settings, data};
    run_.open = open;
    run_.settings = settings;
    run_.data = data;
    run_.program = SPSCOPE_PROGRAM;
    debugger_ = dbg::Debugger::create(setup_, request_).value();
  }

  /// The answer of a command that must succeed.
  dbg::Answer say(const std::string& line) {
    dbg::Answer answer = dbg::execute(*debugger_, line);
    EXPECT_FALSE(answer.error) << line << ": " << answer.error->format();
    return answer;
  }
  Error refused(const std::string& line) {
    const dbg::Answer answer = dbg::execute(*debugger_, line);
    EXPECT_TRUE(answer.error) << line;
    return answer.error.value_or(Error{});
  }
  /// A node behind `after` that does `op` to its first result; whoever read that reads the new one.
  static void insertBehind(ir::Graph& g, const std::string& after, const char* op, std::vector<ir::Argument> more) {
    for (const ir::NodeId id : g.order) {
      if (g.node(id).name != after) continue;
      const ir::ValueId value = g.node(id).outputs[0];
      const ir::Value like = g.value(value);
      const ir::NodeId fault = g.addNode(op, "fault");
      g.node(fault).phase = g.node(id).phase;
      const ir::ValueId out = g.addOutput(fault, like.dtype, like.shape);
      g.value(out).local = like.local;
      g.value(out).factors = like.factors;
      g.value(out).placement = like.placement;
      g.replaceAllUses(value, out);
      g.node(fault).args.push_back({"self", ir::Use{value}});
      for (ir::Argument& a : more) g.node(fault).args.push_back(std::move(a));
      g.order.insert(std::find(g.order.begin(), g.order.end(), id) + 1, fault);
      return;
    }
    throw std::runtime_error("the program has no node " + after);
  }
  static bool bitEqual(exec::TensorBag a, exec::TensorBag b) {
    const auto x = a.bytesOf(a.entry(0).name), y = b.bytesOf(b.entry(0).name);
    return x && y && std::equal(x->begin(), x->end(), y->begin(), y->end());
  }

  /// The node behind `after` takes its name, and its value the value's name: to whoever compares values it is that one.
  static void takeName(ir::Graph& g, const std::string& after, const std::string& fault) {
    ir::Node *was = nullptr, *is = nullptr;
    for (const ir::NodeId id : g.order) {
      if (g.node(id).name == after) was = &g.node(id);
      if (g.node(id).name == fault) is = &g.node(id);
    }
    if (was == nullptr || is == nullptr) throw std::runtime_error("the program has no nodes " + after + ", " + fault);
    std::swap(was->name, is->name);
    std::swap(g.value(was->outputs[0]).name, g.value(is->outputs[0]).name);
  }

  /// Opens again with the numbers of a weight changed, for the ranks and whatever they are held against.
  void changeState(const std::string& name, const std::function<double(double)>& change) {
    exec::TensorBag changed;
    for (const std::string& other : setup_.sides.state.names()) {
      if (other != name) {
        if (!changed.share(setup_.sides.state, other)) throw std::runtime_error("no tensor " + other);
        continue;
      }
      std::vector<double> numbers = setup_.sides.state.values(name).value();
      for (double& x : numbers) x = change(x);
      const auto bytes = std::as_bytes(std::span(numbers));
      if (!changed.add(name, ir::DType::kF64, setup_.sides.state.entry(name).value().shape, bytes)) throw std::runtime_error("no tensor " + name);
    }
    setup_.sides.state = exec::inTypeOf(changed, *setup_.origin->model->graph);
    debugger_ = dbg::Debugger::create(setup_, request_).value();
  }

  std::optional<ir::DType> dtype_ = ir::DType::kF64;  ///< for open()
  DiagnosticSink diagnostics_;
  session::Request request_;
  dbg::Debugger::Setup setup_;
  session::RunRequest run_;  ///< for ranks that are processes
  std::unique_ptr<dbg::Debugger> debugger_;
};

}  // namespace spscope::zoo
