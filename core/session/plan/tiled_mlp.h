// SPDX-License-Identifier: Apache-2.0
// MLPs a tile of tokens at a time: what a step would keep on the device if everything between an MLP's input and its output lived
// for one tile only, in the forward and in the backward. The pipeline cannot do it yet; this is a model of it, by liveness.
//
// An MLP is found by its structure, in the forward: products of one value with weights that make it wider; elementwise ops and views
// of nothing but these, row by row; one product with a weight back to the width it began with. As ALST's (arXiv 2506.13996) there are
// as many tiles as tokens of a rank divided by that width, rounded up; the backward makes each tile's inside again.
//
//   inside   a tile's share of the bytes, from the op that makes it to the last one that reads it
//   around   what goes in and comes out is whole while the tiles run, gradients of the weights too
//
// Where tiles are joined at the end, as DeepSpeed's are, what comes out for every token is there a second time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::session {

struct TiledMlps {
  int mlps = 0;               ///< 0: none was found
  std::int64_t tiles = 0;     ///< of each, the most
  std::int64_t tile_rows = 0; ///< tokens of a tile of that one
  std::int64_t inside = 0;    ///< bytes inside of one MLP at most, at one place
  std::int64_t inside_tiled = 0;  ///< the same of its tiles
  std::vector<std::int64_t> joined;  ///< bytes by place of the program: the second copies of results whose tiles are joined at the end
  std::vector<std::int32_t> ran;  ///< by place of the program: how often its node runs; 1 outside of MLPs
  /// Places where an MLP's backward begins, with the place of a forward node that it runs again there.
  std::vector<std::pair<std::int32_t, std::int32_t>> again;
};

/// Changes `live` (bytes at each place of the program: a joint graph, scheduled) accordingly. O(program).
TiledMlps tileMlps(const ir::Graph& program, std::vector<std::int64_t>& live);

}  // namespace spscope::session
