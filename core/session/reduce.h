// SPDX-License-Identifier: Apache-2.0
// A failing model made as small as it gets while it still fails in the same way, for a report: fewer layers and smaller sizes first
// (makeTwin), then the end is cut off (another value becomes the loss), then nodes are taken out one chunk after the other, what they
// made being given as inputs (delta debugging). The inputs' values are those that the unsharded program had there.
//
// What is written opens like a model: the graph's text, and beside it its weights and inputs as safetensors.
#pragma once

#include <string>
#include <vector>

#include "core/session/verify.h"

namespace spscope::session {

struct ReduceRequest {
  VerifyRequest verify;            ///< settings without faults; ranks "virtual"
  std::vector<std::string> plant;  ///< faults to make on purpose, as typed: sites are sought in what is being reduced
  std::string path;                ///< of the text; X.weights.safetensors and X.inputs.safetensors stand beside it
  std::int64_t most_tests = 2000;
};

struct ReduceStep {
  std::string what;        ///< "layers and sizes", "loss", "nodes"
  std::int64_t nodes = 0;  ///< left after it
  std::int64_t tests = 0;  ///< compilations and comparisons that it took
};

struct ReduceOutcome {
  bool fails = false;              ///< false: the model is right as it is, nothing was written; the rest is empty then
  std::optional<FirstDifference> first_difference;  ///< of the reduced one; empty where it is refused
  std::string error_code;          ///< of a refusal or crash, where that is how it fails
  std::int64_t nodes_before = 0, nodes = 0;  ///< of the program as imported
  std::vector<ReduceStep> steps;
  std::vector<std::string> files;  ///< text, weights, inputs
  std::string command;             ///< that shows the failure again
  double loss = 0.0, reference_loss = 0.0;
};

/// Errors: those of opening data, fault-no-site, file-unwritable, cancelled, usage.
Result<ReduceOutcome> reduceFailure(const Model& model, const ReduceRequest& what, const Request& request);

}  // namespace spscope::session
