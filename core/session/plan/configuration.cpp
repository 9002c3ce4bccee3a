// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/configuration.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::session {

std::string Offload::text() const { return checkpoints && optimizer ? "checkpoints+optimizer" : checkpoints ? "checkpoints" : optimizer ? "optimizer" : "none"; }

Result<std::vector<Offload>> parseOffloads(const std::string& list) {
  std::vector<Offload> out;
  for (const std::string& set : split(list, ',')) {
    Offload offload;
    for (const std::string& what : split(set, '+')) {
      const bool all = what == "all";
      if (!all && what != "checkpoints" && what != "optimizer" && (what != "none" || set != "none")) {
        Error e = makeError("usage", "--offload " + list + ": '" + set + "' is nothing that can lie on the host", Outcome::kUsage);
        e.legal = "a list of none, checkpoints, optimizer, checkpoints+optimizer (or all); the model stands before the flags";
        return e;
      }
      offload.checkpoints = offload.checkpoints || all || what == "checkpoints";
      offload.optimizer = offload.optimizer || all || what == "optimizer";
    }
    if (std::find(out.begin(), out.end(), offload) == out.end()) out.push_back(offload);
  }
  return out;
}

std::string Configuration::text() const {
  return strf("%ssp %d, dp %d, zero %d, %s, %s%s%sbatch %lld", rival.empty() ? "" : (rival + ": ").c_str(), sp, dp, zero, save.c_str(), tile_loss ? "tiled loss, " : "", tile_mlp ? "tiled MLPs, " : "", offload.any() ? ("offload " + offload.text() + ", ").c_str() : "",
              static_cast<long long>(batch));
}

Configuration Configuration::compiledPart() const {
  Configuration out = *this;
  out.zero = std::min(zero, 1);
  out.offload = {};
  out.tile_mlp = false;
  out.ring = false;
  out.rival.clear();
  return out;
}

bool Configuration::sameHead(const Configuration& other) const {
  return sp == other.sp && dp == other.dp && tile_loss == other.tile_loss && batch == other.batch;
}

std::vector<Configuration> configurations(const ConfigurationSpace& space, std::int64_t file_batch) {
  std::vector<std::pair<int, int>> meshes;
  std::vector<int> widths = space.sp;
  if (widths.empty())
    for (int p = 1; p <= space.ranks(); ++p)
      if (space.ranks() % p == 0) widths.push_back(p);
  for (const int sp : widths) {
    if (space.dp.empty()) meshes.emplace_back(sp, std::max(1, space.ranks() / std::max(1, sp)));
    for (const int dp : space.dp) meshes.emplace_back(sp, dp);
  }
  const std::vector<int> zeros = space.zero.empty() ? std::vector<int>{0, 1} : space.zero;
  const std::vector<std::string> saves = space.save.empty() ? std::vector<std::string>{"all", "min-cut", "sac", "layer-inputs"} : space.save;
  const std::vector<bool> tiles = space.tile_loss.empty() ? std::vector<bool>{false, true} : space.tile_loss;
  const std::vector<Offload> offloads = space.offload.empty() ? std::vector<Offload>{{}} : space.offload;
  const std::vector<bool> mlps = space.tile_mlp.empty() ? std::vector<bool>{false} : space.tile_mlp;
  std::vector<Configuration> out;
  for (const auto& [sp, dp] : meshes) {
    std::vector<std::int64_t> batches = space.batch;
    if (batches.empty()) batches.push_back(dp > 0 && file_batch % dp == 0 ? file_batch : dp);
    for (const std::int64_t batch : batches)
      for (const bool tile : tiles)
        for (const std::string& save : saves)
          for (const int zero : zeros)
            for (const Offload& offload : offloads)
              for (const bool mlp : mlps) {
                Configuration c{.sp = sp, .dp = dp, .zero = zero, .save = save, .tile_loss = tile, .batch = batch, .offload = offload, .tile_mlp = mlp};
                if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(std::move(c));
              }
  }
  return out;
}

std::vector<Configuration> rivals(const ConfigurationSpace& space, bool host) {
  const int ranks = space.ranks();
  const std::vector<int> zeros = space.zero.empty() ? std::vector<int>{1} : space.zero;
  const std::vector<bool> tiles = space.tile_loss.empty() ? std::vector<bool>{false, true} : space.tile_loss;
  const std::vector<Offload> offloads = !space.offload.empty() ? space.offload : host ? std::vector<Offload>{{}, {.checkpoints = true}} : std::vector<Offload>{{}};
  std::vector<Configuration> ways{{.sp = 1, .dp = 1, .zero = 0, .save = "all", .rival = "unsharded"}};
  if (ranks > 1) {
    ways.push_back({.sp = 1, .dp = ranks, .zero = 3, .save = "min-cut", .rival = "zero-3"});
    for (const int zero : zeros) {
      ways.push_back({.sp = ranks, .dp = 1, .zero = zero, .save = "min-cut", .rival = "ulysses"});
      ways.push_back({.sp = ranks, .dp = 1, .zero = zero, .save = "min-cut", .ring = true, .rival = "ring"});
      ways.push_back({.sp = ranks, .dp = 1, .zero = zero, .save = "sac", .rival = "autosp"});
    }
  }
  std::vector<Configuration> out;
  for (const Configuration& way : ways)
    for (const bool tile : tiles)
      for (const Offload& offload : offloads)
        for (const bool mlp : space.tile_mlp.empty() ? std::vector<bool>{false} : space.tile_mlp)
          for (const std::int64_t batch : space.batch.empty() ? std::vector<std::int64_t>{way.dp} : space.batch) {
            Configuration c = way;
            c.tile_loss = tile;
            c.offload = offload;
            c.tile_mlp = mlp;
            c.batch = batch;
            if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(std::move(c));
          }
  return out;
}

std::optional<Error> reasonAgainst(const Configuration& c, const ConfigurationSpace& space) {
  const auto against = [](std::string message, std::string legal) {
    Error e = makeError("plan-illegal", std::move(message));
    e.legal = std::move(legal);
    return e;
  };
  if (c.sp < 1 || c.dp < 1) return against(strf("sp %d, dp %d: there is no such number of ranks", c.sp, c.dp), "1 or more");
  if (c.ranks() > space.ranks())
    return against(strf("sp %d x dp %d takes %d ranks, there are %d", c.sp, c.dp, c.ranks(), space.ranks()), strf("sp x dp up to %d", space.ranks()));
  if (c.zero > 0 && c.ranks() == 1) return against(strf("zero %d on one rank: there is nobody to share with", c.zero), "--zero 0");
  if (c.ring && c.sp == 1) return against("ring attention on one sequence rank: nothing goes round", "--sp 2 or more");
  if (c.batch < 1 || c.batch % c.dp != 0)
    return against(strf("%d replicas do not divide a batch of %lld", c.dp, static_cast<long long>(c.batch)), strf("a batch that is a multiple of %d", c.dp));
  return std::nullopt;
}

}  // namespace spscope::session
