// SPDX-License-Identifier: Apache-2.0
// The models of tests/data with what PyTorch computed for them: names, reference values, one verification in short.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/session/verify.h"
#include "core/torch/tensor_bag.h"

namespace spscope::zoo {

using Json = nlohmann::json;

/// tests/data/zoo/ or tests/data/stress/.
std::string folder(bool stress = false);
/// Models of the folder's manifest.json, in its order.
const Json& manifest(bool stress = false);
std::vector<std::string> names(bool stress = false);
Json reference(const std::string& name, bool stress = false);

/// How far a run is from the reference file. A gradient's norm counts as at least 1e-6 of the total norm.
struct Distance {
  double loss = 0.0;      ///< relative
  double gradient = 0.0;  ///< largest error of any figure of any gradient, over the gradient's norm
  std::string worst;      ///< parameter and figure
  int gradients = 0;      ///< that were compared
};
/// `type`: which values of the file, "f64" or "f32". A gradient of the file that the run lacks counts as zero.
Distance distance(double loss, const exec::TensorBag& gradients, const Json& reference, const std::string& type);

struct Case {
  std::string path;
  std::vector<std::string> inputs;  ///< safetensors; empty: seeded
  int sp = 2, dp = 1, zero = 0;
  std::optional<ir::DType> dtype = ir::DType::kF64;
  std::int64_t seq = 0, batch = 0;
  std::string ranks = "virtual";
  std::string save = "sac";
  std::optional<std::uint64_t> seed_weights = {};
  std::uint64_t seed = 0;
  std::int64_t tile_bytes = 0;  ///< of a block of logits; 0: the loss is not tiled
  ir::OpRulesRef rules = {};  ///< of ops of other libraries
  std::vector<std::pair<std::string, int>> marks = {};  ///< what is the sequence; empty: the usual inputs
};
/// The model with its own inputs.
Case caseOf(const std::string& name, int sp, bool stress = false);

struct Verified {
  session::VerifyOutcome outcome;
  exec::TensorBag gradients;  ///< of the worst rank, tied ones under each name
  std::vector<std::string> warnings;  ///< codes
};
Result<Verified> verify(const Case& what);

/// Name of a test over models and numbers of ranks: "gpt2_pos_P2".
inline std::string nameWithRanks(const testing::TestParamInfo<std::tuple<std::string, int>>& test) {
  return std::get<0>(test.param) + "_P" + std::to_string(std::get<1>(test.param));
}

/// Fails the test unless the answer is what it must be in any case: equal, as many all-to-alls as expected.
void expectEqual(const Verified& verified);

}  // namespace spscope::zoo
