// SPDX-License-Identifier: Apache-2.0
// Every exported model is captured, and what was captured computes what autograd computes, to the last bit.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <filesystem>

#include "core/io/program.h"
#include "core/torch/capture.h"
#include "tests/unit/torch/capture_support.h"

namespace spscope::exec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> models() {
  std::vector<std::string> out;
  const std::string zoo = std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo";
  for (const std::string folder : {"", "/stress", "/wide", "/big"}) {
    if (!fs::exists(zoo + folder)) continue;
    for (const auto& entry : fs::directory_iterator(zoo + folder))
      if (entry.path().extension() == ".pt2") out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool mutates(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order) {
    const std::string_view base = ir::baseName(graph.node(id).op);
    if (base.back() == '_' && base.front() != '_') return true;
  }
  return false;
}

/// Bytes of everything that a run touches: the large models are captured only, not run.
std::int64_t bytesTouched(const ir::Graph& graph) {
  std::int64_t total = 0;
  for (const ir::Input& input : graph.inputs) total += graph.value(input.value).localBytes();
  for (const ir::NodeId id : graph.order)
    for (const ir::ValueId v : graph.node(id).outputs)
      if (v != ir::kNone) total += graph.value(v).storage_bytes;
  return total;
}

void expectWellFormed(const ir::Graph& graph) {
  std::vector<bool> defined(graph.valueCount(), false);
  for (const ir::Input& input : graph.inputs) defined[static_cast<std::size_t>(input.value)] = true;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    ir::forEachUse(node, [&](const ir::Use& use) {
      ASSERT_TRUE(use.value >= 0 && static_cast<std::size_t>(use.value) < defined.size()) << node.name;
      EXPECT_TRUE(defined[static_cast<std::size_t>(use.value)]) << node.name;
    });
    for (std::size_t j = 0; j < node.outputs.size(); ++j) {
      if (node.outputs[j] == ir::kNone) continue;
      const ir::Value& value = graph.value(node.outputs[j]);
      EXPECT_FALSE(defined[static_cast<std::size_t>(value.id)]) << node.name;
      defined[static_cast<std::size_t>(value.id)] = true;
      EXPECT_EQ(value.producer, id);
      EXPECT_EQ(value.output_index, static_cast<int>(j));
      if (value.storage != ir::kNone) {
        EXPECT_EQ(graph.value(value.storage).storage, ir::kNone);
      }
    }
  }
  for (const ir::Output& output : graph.outputs) EXPECT_TRUE(defined[static_cast<std::size_t>(output.value)]);
}

class CaptureZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(CaptureZoo, JointGraphComputesWhatAutogradDoes) {
  DiagnosticSink sink;
  auto model = io::openModel(GetParam(), {}, sink);
  ASSERT_TRUE(model.has_value()) << model.error().format();
  const ir::Graph& forward = model->graph;
  const auto begin = std::chrono::steady_clock::now();
  auto joint = captureJoint(forward);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (!joint && mutates(forward)) GTEST_SKIP() << "not functional yet: " << joint.error().format();
  ASSERT_TRUE(joint.has_value()) << joint.error().format();
  std::printf("%s: %zu forward nodes, %zu joint, %.1f ms\n", fs::path(GetParam()).stem().c_str(), forward.order.size(),
              joint->order.size(), took.count());
  expectWellFormed(*joint);
  EXPECT_EQ(joint->inputs, forward.inputs);
  if (bytesTouched(*joint) > 300'000'000) return;

  // Eager: the forward graph under autograd. On meta tensors attention is written out (lowering it is a pass), so eager
  // has to take that way too.
  at::globalContext().setSDPUseFlash(false);
  const std::vector<at::Tensor> inputs = testing::randomInputs(forward);
  std::vector<at::Tensor> leaves = inputs;
  std::vector<at::Tensor> parameters;
  std::vector<int> owners;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (forward.inputs[i].trainable && leaves[i].is_floating_point()) {
      leaves[i] = leaves[i].detach().requires_grad_();
      parameters.push_back(leaves[i]);
      owners.push_back(static_cast<int>(i));
    }
  const auto eager = testing::runGraph(forward, leaves);
  ir::ValueId loss_value = ir::kNone;
  for (const ir::Output& output : forward.outputs)
    if (output.kind == ir::OutputKind::kLoss) loss_value = output.value;
  const at::Tensor loss = eager[static_cast<std::size_t>(loss_value)];
  const auto gradients = torch::autograd::grad({loss}, parameters, {}, false, false, true);

  const at::NoGradGuard no_grad;
  const auto values = testing::runGraph(*joint, inputs);
  std::size_t next = 1;
  ASSERT_FALSE(joint->outputs.empty());
  EXPECT_EQ(joint->outputs[0].kind, ir::OutputKind::kLoss);
  EXPECT_TRUE(values[static_cast<std::size_t>(joint->outputs[0].value)].equal(loss.detach()))
      << loss.item<double>() << " " << values[static_cast<std::size_t>(joint->outputs[0].value)].item<double>();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    ASSERT_LT(next, joint->outputs.size());
    const ir::Output& output = joint->outputs[next++];
    EXPECT_EQ(output.kind, ir::OutputKind::kGradient);
    EXPECT_EQ(output.input, owners[i]);
    const at::Tensor& got = values[static_cast<std::size_t>(output.value)];
    EXPECT_TRUE(got.equal(gradients[i]))
        << forward.inputs[static_cast<std::size_t>(owners[i])].name << " differs by "
        << (got - gradients[i]).abs().max().item<double>() << " of " << gradients[i].abs().max().item<double>();
  }
  for (; next < joint->outputs.size(); ++next) EXPECT_NE(joint->outputs[next].kind, ir::OutputKind::kGradient);
  // What was promised on meta tensors is what the kernels give.
  for (const ir::NodeId id : joint->order)
    for (const ir::ValueId v : joint->node(id).outputs) {
      if (v == ir::kNone) continue;
      const ir::Value& value = joint->value(v);
      const at::Tensor& real = values[static_cast<std::size_t>(v)];
      ASSERT_TRUE(real.defined()) << joint->node(id).name;
      EXPECT_EQ(real.sizes().vec(), value.local) << joint->node(id).name;
      EXPECT_EQ(toDType(real.scalar_type()), value.dtype) << joint->node(id).name << " " << joint->node(id).op.str();
      const at::Tensor& owner = values[static_cast<std::size_t>(value.storage == ir::kNone ? v : value.storage)];
      EXPECT_TRUE(real.is_alias_of(owner)) << joint->node(id).name << " " << joint->node(id).op.str();
      if (value.storage == ir::kNone && real.storage().nbytes() != 0) {
        EXPECT_EQ(static_cast<std::int64_t>(real.storage().nbytes()), value.storage_bytes)
            << joint->node(id).name << " " << joint->node(id).op.str();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, CaptureZoo, ::testing::ValuesIn(models()), [](const auto& model) {
  std::string name = fs::path(model.param).stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CaptureZoo);

}  // namespace
}  // namespace spscope::exec
