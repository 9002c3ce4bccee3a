// SPDX-License-Identifier: Apache-2.0
// The flags that mean the same in every command (see the command's help), and what they become.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/session/model.h"
#include "passes/pass.h"

namespace spscope::app {

/// A finite number of at least `least`, at most `most`: CLI11's own checks let "nan" pass.
CLI::Validator numberFrom(double least, double most = std::numeric_limits<double>::max());

/// Which model, at which lengths and precision.
struct ModelFlags {
  std::string path, graph, dtype;
  std::int64_t seq = 0, batch = 0;
  std::vector<std::string> sequence;

  void declare(CLI::App& command, bool with_dtype = true);
  /// Errors: usage (a --sequence that is no NAME:DIM, an unknown type).
  Result<session::OpenRequest> request() const;
  Result<std::vector<std::pair<std::string, int>>> marks() const;
};

/// How to compile it.
struct CompileFlags {
  int sp = 2, dp = 1, zero = 0, accumulate = 1, threads = 0;
  std::string device = "cpu", save = "sac", optimizer = "adamw", communication = "overlap", rules;
  double bucket_mib = 25;
  std::string master_weights = "on", grad_dtype = "float32";
  bool tile_loss = false, whole_masks = false;

  void declare(CLI::App& command);
  Result<passes::Settings> settings(const ModelFlags& model) const;
};

/// Faults on purpose.
struct FaultFlags {
  std::vector<std::string> plant;

  void declare(CLI::App& command);
};

/// Weights and batches of a run.
struct DataFlags {
  std::string inputs;  ///< a file or a folder of files
  std::uint64_t seed = 0;
  std::int64_t seed_weights = -1;

  void declare(CLI::App& command);
  /// A folder's files in the order of their names. Errors: file-missing, usage (a folder without safetensors).
  Result<session::DataRequest> request() const;
};

}  // namespace spscope::app
