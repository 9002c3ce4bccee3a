// SPDX-License-Identifier: Apache-2.0
// The zoo's models, unsharded, from the file to loss and gradients in float64 and float32, against what PyTorch computed
// from the same file (.ref.json). And virtual ranks of one must give the same bits as the executor.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/io/program.h"
#include "core/ir/convert_dtype.h"
#include "core/torch/capture.h"
#include "core/torch/compare.h"
#include "core/torch/executor.h"
#include "core/torch/tensor_store.h"
#include "core/torch/virtual_ranks.h"
#include "tests/unit/torch/exec_support.h"

namespace spscope::exec {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

std::string zoo() { return std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo"; }

std::vector<std::string> models() {
  std::vector<std::string> out;
  if (!fs::exists(zoo())) return out;
  for (const auto& entry : fs::directory_iterator(zoo()))
    if (entry.path().extension() == ".pt2") out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// The joint graph of a zoo model in the given precision, or why there is none.
struct Prepared {
  io::ImportedModel model;
  std::shared_ptr<const ir::Graph> joint;
};
Result<Prepared> prepare(const std::string& path, bool f64) {
  DiagnosticSink sink;
  SP_ASSIGN(io::ImportedModel model, io::openModel(path, {}, sink));
  if (f64) SP_TRY(ir::convertFloat32To64(model.graph));
  SP_ASSIGN(ir::Graph joint, captureJoint(model.graph));
  return Prepared{std::move(model), std::make_shared<ir::Graph>(std::move(joint))};
}

/// Programs that write in place go through the functionalize pass, which is not part of this room.
bool mutates(const std::string& path) {
  DiagnosticSink sink;
  const auto model = io::openModel(path, {}, sink);
  if (!model) return false;
  for (const ir::NodeId id : model->graph.order)
    if (const std::string_view base = ir::baseName(model->graph.node(id).op); base.back() == '_' && base.front() != '_') return true;
  return false;
}

class ExecZoo : public ::testing::TestWithParam<std::string> {};

void check(const std::string& name, const json& reference, bool f64) {
  const std::string key = f64 ? "f64" : "f32";
  const Tolerance tolerance = Tolerance::of(f64 ? ir::DType::kF64 : ir::DType::kF32);
  auto prepared = prepare(zoo() + "/" + name + ".pt2", f64);
  if (!prepared && mutates(zoo() + "/" + name + ".pt2"))
    GTEST_SKIP() << "needs functionalize first: " << prepared.error().format();
  if (!prepared && prepared.error().code == "op-unknown" && prepared.error().message.find("transformers.") != std::string::npos)
    GTEST_SKIP() << "an op of the file that libtorch does not have: " << prepared.error().format();
  ASSERT_TRUE(prepared) << prepared.error().format();
  const ir::Graph& graph = *prepared->joint;

  DiagnosticSink sink;
  const io::WeightSource source(prepared->model.archive);
  auto state = loadState(graph, &source, std::nullopt, sink);
  ASSERT_TRUE(state) << state.error().format();
  auto inputs = loadInputs(graph, zoo() + "/" + name + ".inputs.safetensors", sink);
  ASSERT_TRUE(inputs) << inputs.error().format();
  auto program = Program::prepare(prepared->joint);
  ASSERT_TRUE(program) << program.error().format();
  Executor executor(*program);
  const Status bound = executor.bind(*state);
  ASSERT_TRUE(bound) << bound.error().format();
  auto result = executor.step(*inputs);
  ASSERT_TRUE(result) << result.error().format();

  ASSERT_TRUE(result->has_loss);
  EXPECT_LE(relativeError(result->loss, reference.at("loss_" + key).get<double>()), tolerance.loss);
  const TensorBag gradients = withAliases(graph, result->gradients);
  double total = 0;
  for (const auto& [parameter, row] : reference.at("grads").items())
    if (!row.is_null() && row.contains(key) && !row.at(key).is_null()) total += std::pow(row.at(key).at("norm").get<double>(), 2);
  total = std::sqrt(total);
  ASSERT_GT(total, 0.0);
  int compared = 0;
  for (const auto& [parameter, row] : reference.at("grads").items()) {
    if (row.is_null() || !row.contains(key) || row.at(key).is_null()) continue;  // no path to the loss under this name
    const json& want = row.at(key);
    auto got = statistics(gradients, parameter);
    ASSERT_TRUE(got) << got.error().format();
    // The statistics are sums over the gradient: each may be off by as much as the gradient itself, times the weights'
    // norm (at most sqrt(n)).
    const double norm = want.at("norm").get<double>();
    const double slack = tolerance.gradient * std::max(norm, tolerance.floor * total);
    const double n = static_cast<double>(ir::numel(gradients.entry(parameter)->shape));
    EXPECT_NEAR(got->norm, norm, slack) << parameter;
    EXPECT_NEAR(got->sum, want.at("sum").get<double>(), slack * std::sqrt(n)) << parameter;
    EXPECT_NEAR(got->absmax, want.at("absmax").get<double>(), slack) << parameter;
    EXPECT_NEAR(got->dot_sin, want.at("dot_sin").get<double>(), slack * std::sqrt(n)) << parameter;
    const auto index = want.at("idx").get<std::vector<std::int64_t>>();
    const auto value = want.at("val").get<std::vector<double>>();
    const auto mine = elements(gradients, parameter, index);
    ASSERT_TRUE(mine) << mine.error().format();
    for (std::size_t i = 0; i < index.size(); ++i) EXPECT_NEAR((*mine)[i], value[i], slack) << parameter << "[" << index[i] << "]";
    ++compared;
  }
  EXPECT_GT(compared, 3);

  auto virtual_program = Program::prepare(prepared->joint, {.rank = 0, .ranks = 1});
  auto all = VirtualRanks::create({*virtual_program});
  ASSERT_TRUE(all && all->bind(*state));
  auto again = all->step(*inputs);
  ASSERT_TRUE(again) << again.error().format();
  EXPECT_EQ((*again)[0].loss, result->loss);
  auto same = compareGradients((*again)[0].gradients, result->gradients, 0.0);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->rel_max, 0.0);
}

TEST_P(ExecZoo, LossAndGradientsAreThoseOfTheReference) {
  std::ifstream file(zoo() + "/" + GetParam() + ".ref.json");
  ASSERT_TRUE(file);
  const json reference = json::parse(file);
  bool any = false;
  for (const bool f64 : {true, false}) {
    const std::string key = f64 ? "loss_f64" : "loss_f32";
    if (!reference.contains(key) || reference.at(key).is_null()) continue;
    // Models that run in half precision or draw random numbers are not comparable digit by digit.
    if (!reference.contains("loss_f64") || reference.at("loss_f64").is_null()) continue;
    SCOPED_TRACE(key);
    check(GetParam(), reference, f64);
    any = true;
    if (IsSkipped() || HasFatalFailure()) return;
  }
  if (!any) GTEST_SKIP() << "no reference to compare with";
}

INSTANTIATE_TEST_SUITE_P(Models, ExecZoo, ::testing::ValuesIn(models()), [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExecZoo);

}  // namespace
}  // namespace spscope::exec
