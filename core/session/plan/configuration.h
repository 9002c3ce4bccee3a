// SPDX-License-Identifier: Apache-2.0
// What a planner chooses between: one configuration of a training step, and all of those that were asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::session {

/// What lies in the memory of the host while the device does not use it; modelled.
struct Offload {
  bool checkpoints = false;  ///< what layers hand on, between forward and backward (offload.h)
  bool optimizer = false;    ///< moments and masters, between updates (optimizer_offload.h)
  bool any() const { return checkpoints || optimizer; }
  /// "checkpoints", "optimizer", "checkpoints+optimizer"; "none".
  std::string text() const;
  friend bool operator==(const Offload&, const Offload&) = default;
};

/// "none,checkpoints", "optimizer", "checkpoints+optimizer", "all": alternatives, each a set. Error usage.
Result<std::vector<Offload>> parseOffloads(const std::string& list);

struct Configuration {
  int sp = 1, dp = 1;
  int zero = 0;             ///< 0 and 1 are compiled; 2 and 3 are modelled from the program of 1 (footprint.h)
  std::string save = "sac";
  bool tile_loss = false;
  std::int64_t batch = 1;   ///< of all replicas together
  Offload offload;
  bool tile_mlp = false;    ///< MLPs a tile of tokens at a time; modelled (tiled_mlp.h)
  bool ring = false;        ///< attention by keys and values that go round, instead of exchanges; modelled (ring.h)
  std::string rival;        ///< whose way of training this is (rivals()); "": nobody's in particular

  int ranks() const { return sp * dp; }
  /// "sp 8, dp 1, zero 1, sac, tiled loss, batch 1"; "ring: sp 8, ...".
  std::string text() const;
  /// Whether the program is the same up to its memory policy: what shared stages and a group of the planner depend on.
  bool sameHead(const Configuration& other) const;
  /// What of it the pipeline can compile: without what is modelled.
  Configuration compiledPart() const;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// The values to be combined. An empty list is filled in by configurations().
struct ConfigurationSpace {
  int gpus = 1;                 ///< per node
  int nodes = 1;
  std::vector<int> sp;          ///< empty: the divisors of all ranks
  std::vector<int> dp;          ///< empty: what uses all ranks
  std::vector<int> zero;        ///< empty: 0 and 1
  std::vector<std::string> save;///< empty: all, min-cut, sac, layer-inputs
  std::vector<bool> tile_loss;  ///< empty: without and with
  std::vector<std::int64_t> batch;  ///< empty: the file's where the replicas divide it, else one row per replica
  std::vector<bool> tile_mlp;       ///< empty: without
  std::vector<Offload> offload;     ///< empty: none; rivals: none, and checkpoints where the profile has a link to the host
  int ranks() const { return gpus * nodes; }
};

/// Every combination once, those with the same head next to each other. `file_batch` is the model's own.
std::vector<Configuration> configurations(const ConfigurationSpace& space, std::int64_t file_batch);

/// The ways in which others train the same graph on all ranks of the space, and ours, a row of the batch per replica unless the
/// space says otherwise: unsharded (one rank, everything kept), zero-3 (replicas only, PyTorch's min-cut), ulysses (sequence ranks,
/// min-cut), ring (the same with ring attention), autosp (sequence ranks, sac). Each with the space's losses and offloads; the last
/// three with its zeros (empty: 1). `host`: offload is to be had.
std::vector<Configuration> rivals(const ConfigurationSpace& space, bool host);

/// Why it cannot be run on these devices whatever the model (code plan-illegal); empty where nothing is against it.
std::optional<Error> reasonAgainst(const Configuration& configuration, const ConfigurationSpace& space);

}  // namespace spscope::session
