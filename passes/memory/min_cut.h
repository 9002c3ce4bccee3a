// SPDX-License-Identifier: Apache-2.0
// The inner solver: which storages of a piece of the forward to keep so that
//     bytes kept + price * cost of the nodes run again
// is minimal, as a minimum cut. It knows nothing of graphs, layers or ops: ops and storages are numbers.
//
// The network: one vertex per op, one per storage. source -> op costs price*cost (infinite where it must not be re-run),
// op -> storage costs the storage's bytes (infinite where it is never kept), storage -> reading op is infinite, needed storage -> sink is infinite. Cutting
// source -> op means the op runs again, cutting op -> storage means the storage is kept.
#pragma once

#include <cstdint>
#include <vector>

namespace spscope::passes {

struct CutProblem {
  struct Op {
    std::int64_t cost = 0;              ///< of running it again, in units that `price` turns into bytes
    bool banned = false;                ///< never run again
    std::vector<std::int32_t> reads;    ///< storages of this problem
    std::vector<std::int32_t> writes;   ///< storages of this problem; each storage is written by exactly one op
  };
  struct Storage {
    std::int64_t bytes = 0;             ///< of keeping it; 0 where it stays anyway
    bool needed = false;                ///< someone outside reads it after the forward
    bool never_kept = false;            ///< made again wherever it is needed, unless its op is banned
  };
  std::vector<Op> ops;                  ///< in an order in which each op only reads what was written before
  std::vector<Storage> storages;
};

struct CutSolution {
  std::vector<bool> kept;       ///< by storage
  std::vector<bool> remade;     ///< by storage: needed (directly or by a re-run op) and made again
  std::vector<bool> rerun;      ///< by op
  std::int64_t bytes = 0;       ///< kept
  std::int64_t cost = 0;        ///< re-run, without the price
};

/// `price` >= 0: bytes that one unit of cost is worth. Among equal minima the one that runs least again.
/// Always feasible: a needed storage can be kept or, where it is never kept, made again.
CutSolution solveCut(const CutProblem& problem, double price);

}  // namespace spscope::passes
