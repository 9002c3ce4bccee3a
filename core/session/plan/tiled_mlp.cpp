// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/tiled_mlp.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "passes/memory/op_cost.h"
#include "passes/memory/tags.h"
#include "passes/sequence/rules.h"

namespace spscope::session {
namespace {

using ir::NodeId;
using ir::ValueId;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Nodes of the forward, by id.
struct Mlp {
  std::vector<NodeId> nodes;
  NodeId down = ir::kNone;
  std::int64_t rows = 0, width = 0;  ///< of its input on this rank
};

class Finder {
 public:
  explicit Finder(const ir::Graph& program) : g_(program), long_(passes::findLongValues(program)), users_(ir::usersOf(program)), taken_(program.nodeCount(), false) {}

  std::vector<Mlp> run() {
    std::vector<Mlp> out;
    for (const NodeId id : g_.order) {
      if (g_.node(id).phase != ir::Phase::kForward || taken_[at(id)]) continue;
      if (const ValueId in = weighed(g_.node(id)); in != ir::kNone && lastOf(g_.node(id).outputs[0]) > lastOf(in))
        if (std::optional<Mlp> found = from(id, in)) {
          for (const NodeId n : found->nodes) taken_[at(n)] = true;
          out.push_back(std::move(*found));
        }
    }
    return out;
  }
  const std::vector<bool>& longValues() const { return long_; }

 private:
  ValueId rootOf(ValueId v) const { return g_.value(v).storage == ir::kNone ? v : g_.value(v).storage; }
  /// What a product reads, before it was cast for it (under autocast every product has a copy of its own).
  ValueId sourceOf(ValueId v) const {
    ValueId out = rootOf(v);
    for (;;) {
      const NodeId maker = g_.value(out).producer;
      if (maker == ir::kNone || ir::baseName(g_.node(maker).op) != "_to_copy") return out;
      out = rootOf(ir::useArg(g_.node(maker), Symbol("self")));
    }
  }
  std::int64_t lastOf(ValueId v) const { return g_.value(v).local.empty() ? 1 : g_.value(v).local.back(); }
  std::int64_t rowsOf(ValueId v) const { return ir::numel(g_.value(v).local) / std::max<std::int64_t>(1, lastOf(v)); }
  bool isView(const ir::Node& n) const { return n.outputs.size() >= 1 && std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v == ir::kNone || g_.value(v).storage != ir::kNone; }); }

  /// The tokens of a product of tokens and a weight; kNone: it is none.
  ValueId weighed(const ir::Node& node) const {
    const std::string_view base = ir::baseName(node.op);
    if (!passes::isMatmul(node.op) || base == "bmm" || base == "baddbmm" || base == "_grouped_mm") return ir::kNone;
    ValueId tokens = ir::kNone;
    int longs = 0;
    ir::forEachUse(node, [&](const ir::Use& use) {
      if (long_[at(use.value)]) tokens = use.value, ++longs;
    });
    // Weights stand second: a product with tokens there contracts them, or is none of tokens.
    const ValueId first = ir::useArg(node, Symbol(base == "addmm" ? "mat1" : base == "linear" ? "input" : "self"));
    return longs == 1 && first == tokens ? tokens : ir::kNone;
  }

  /// Elementwise or a view, of a result with a row for each token.
  bool rowByRow(const ir::Node& node, std::int64_t rows) const {
    if (node.phase != ir::Phase::kForward || ir::isRandom(node.op) || !(isView(node) || passes::isElementwise(node.op))) return false;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return v == ir::kNone || (long_[at(v)] && rowsOf(v) == rows); });
  }

  std::optional<Mlp> from(NodeId first, ValueId in) {
    Mlp out;
    out.rows = rowsOf(in);
    out.width = lastOf(in);
    const ValueId root = sourceOf(in);
    std::vector<bool> mine(g_.nodeCount(), false);
    const auto take = [&](NodeId id) {
      mine[at(id)] = true;
      out.nodes.push_back(id);
    };
    take(first);
    // What feeds a node besides: made from the same input in the same way, or the op is none of an MLP.
    const auto pull = [&](const auto& self, ValueId v) -> bool {
      if (!long_[at(v)]) return true;
      const NodeId maker = g_.value(v).producer;
      if (maker == ir::kNone) return false;
      if (mine[at(maker)]) return maker != out.down;
      const ir::Node& node = g_.node(maker);
      if (const ValueId tokens = weighed(node); tokens != ir::kNone && sourceOf(tokens) == root && rowsOf(node.outputs[0]) == out.rows) return take(maker), true;
      if (!rowByRow(node, out.rows)) return false;
      take(maker);
      bool fine = true;
      ir::forEachUse(node, [&](const ir::Use& use) { fine = fine && self(self, use.value); });
      return fine;
    };
    for (std::size_t i = 0; i < out.nodes.size(); ++i) {
      const NodeId id = out.nodes[i];
      if (id == out.down) continue;
      for (const ValueId v : g_.node(id).outputs) {
        if (v == ir::kNone) continue;
        if (std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const ir::Output& o) { return o.value == v; })) return std::nullopt;
        for (const NodeId user : users_[at(v)]) {
          const ir::Node& node = g_.node(user);
          if (node.phase != ir::Phase::kForward || mine[at(user)]) continue;
          if (const ValueId tokens = weighed(node); tokens != ir::kNone) {
            if (out.down != ir::kNone || lastOf(node.outputs[0]) != out.width || rowsOf(node.outputs[0]) != out.rows) return std::nullopt;
            out.down = user;
            take(user);
            continue;
          }
          if (!rowByRow(node, out.rows)) return std::nullopt;
          take(user);
          bool fine = true;
          ir::forEachUse(node, [&](const ir::Use& use) { fine = fine && pull(pull, use.value); });
          if (!fine) return std::nullopt;
        }
      }
    }
    if (out.down == ir::kNone) return std::nullopt;
    return out;
  }

  const ir::Graph& g_;
  std::vector<bool> long_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> taken_;
};

/// One MLP's nodes wherever they run, and what of it lives how long.
class Tiler {
 public:
  Tiler(const ir::Graph& program, const std::vector<bool>& longs, std::vector<std::int64_t>& live, TiledMlps& out)
      : g_(program), place_(ir::positionsOf(program)), token_(longs), live_(live), out_(out), kept_(program.valueCount(), false) {
    for (const ir::Output& output : g_.outputs)
      if (output.value != ir::kNone) kept_[at(rootOf(output.value))] = true;
    out_.ran.assign(g_.order.size(), 1);
    out_.joined.assign(g_.order.size(), 0);
    uses_.resize(g_.valueCount());
    for (std::size_t i = 0; i < g_.order.size(); ++i) {
      ir::forEachUse(g_.node(g_.order[i]), [&](const ir::Use& use) {
        std::vector<std::int32_t>& uses = uses_[at(rootOf(use.value))];
        if (uses.empty() || uses.back() != static_cast<std::int32_t>(i)) uses.push_back(static_cast<std::int32_t>(i));
      });
    }
  }

  /// `later`: places of the nodes that repeat or differentiate those of the MLP, rising.
  void tile(const Mlp& mlp, std::vector<std::int32_t> later) {
    const std::int64_t tiles = (mlp.rows + mlp.width - 1) / mlp.width;
    ++out_.mlps;
    const std::int64_t rows = (mlp.rows + tiles - 1) / tiles;
    if (tiles > out_.tiles) out_.tiles = tiles, out_.tile_rows = rows;
    if (tiles < 2) return;
    const auto share = [&](std::int64_t bytes) { return (bytes * rows + mlp.rows - 1) / mlp.rows; };
    loop_.assign(g_.order.size(), -1);
    std::vector<Loop> loops = loopsOf(mlp, later);
    std::vector<std::int64_t> whole(g_.order.size(), 0), part(g_.order.size(), 0);
    for (const Loop& loop : loops) {
      std::vector<ValueId> around;
      for (const std::int32_t p : loop.places) {
        out_.ran[at(p)] = static_cast<std::int32_t>(tiles);
        const ir::Node& node = g_.node(g_.order[at(p)]);
        for (const ValueId v : node.outputs) {
          if (v == ir::kNone || g_.value(v).storage != ir::kNone) continue;
          const std::vector<std::int32_t>& uses = uses_[at(v)];
          if (!token_[at(v)] || kept_[at(v)] || std::any_of(uses.begin(), uses.end(), [&](std::int32_t u) { return loop_[at(u)] < 0; })) {
            around.push_back(v);
            if (token_[at(v)]) add(out_.joined, loop.begin, loop.end, bytesOf(v));
            continue;
          }
          add(whole, p, uses.empty() ? p : uses.back(), bytesOf(v));
          // Each loop has it for itself: from where it is made, or made again, to its last use there.
          for (std::size_t l = 0; l < loops.size(); ++l) {
            const bool here = &loops[l] == &loop;
            std::int32_t last = here ? p : -1;
            for (const std::int32_t u : uses)
              if (loop_[at(u)] == static_cast<std::int32_t>(l)) last = std::max(last, u);
            if (last < 0) continue;
            add(part, here ? std::max(p, loops[l].begin) : loops[l].begin, std::min(std::max(last, loops[l].begin), loops[l].end), share(bytesOf(v)));
            if (!here) loops[l].lacks.push_back(p);
          }
        }
        ir::forEachUse(node, [&](const ir::Use& use) {
          const ValueId root = rootOf(use.value);
          const NodeId maker = g_.value(root).producer;
          if (maker == ir::kNone || !token_[at(use.value)]) return;  // weights are there anyway
          if (loop_[at(place_[at(maker)])] < 0 && std::find(around.begin(), around.end(), root) == around.end()) around.push_back(root);
        });
      }
      for (const ValueId v : around) {
        const std::int32_t made = place_[at(g_.value(v).producer)];
        const std::int32_t last = kept_[at(v)] ? static_cast<std::int32_t>(g_.order.size()) - 1 : uses_[at(v)].empty() ? made : uses_[at(v)].back();
        if (made > loop.begin) add(live_, loop.begin, made - 1, bytesOf(v));
        add(live_, std::max(last + 1, loop.begin), loop.end, bytesOf(v));
      }
    }
    for (const Loop& loop : loops) runAgain(loop);
    for (std::size_t i = 0; i < live_.size(); ++i) {
      out_.inside = std::max(out_.inside, whole[i]);
      out_.inside_tiled = std::max(out_.inside_tiled, part[i]);
      live_[i] += part[i] - whole[i];
    }
  }

 private:
  ValueId rootOf(ValueId v) const { return g_.value(v).storage == ir::kNone ? v : g_.value(v).storage; }
  std::int64_t bytesOf(ValueId v) const { return std::max(g_.value(v).storage_bytes, g_.value(v).localBytes()); }
  static void add(std::vector<std::int64_t>& bytes, std::int32_t from, std::int32_t to, std::int64_t more) {
    for (std::int32_t i = std::max(from, 0); i <= to && at(i) < bytes.size(); ++i) bytes[at(i)] += more;
  }

  /// Where tiles go round: in the forward, in the backward, and in between where the MLP's output is made again.
  struct Loop {
    std::vector<std::int32_t> places;
    std::int32_t begin = 0, end = 0;  ///< while it runs: what a tile needs is there at the begin, what it makes for others is at the end
    std::vector<std::int32_t> lacks;  ///< places of other loops whose results it makes again
  };

  std::vector<Loop> loopsOf(const Mlp& mlp, std::vector<std::int32_t>& later) {
    std::vector<Loop> out(1);
    for (const NodeId id : mlp.nodes) out[0].places.push_back(place_[at(id)]);
    std::sort(out[0].places.begin(), out[0].places.end());
    const auto phase = [&](std::int32_t p) { return g_.node(g_.order[at(p)]).phase; };
    // What is made again without the output is made again for the backward, whose tiles make it.
    const bool output_again = std::any_of(later.begin(), later.end(), [&](std::int32_t p) { return phase(p) == ir::Phase::kRecompute && g_.node(g_.order[at(p)]).forward == mlp.down; });
    for (const std::int32_t p : out[0].places) loop_[at(p)] = 0;
    for (const std::int32_t p : later) loop_[at(p)] = 1;
    markTokens(later);
    Loop repeat, backward;
    for (const std::int32_t p : later) (output_again && phase(p) == ir::Phase::kRecompute ? repeat : backward).places.push_back(p);
    for (Loop* more : {&repeat, &backward})
      if (!more->places.empty()) out.push_back(std::move(*more));
    for (std::size_t l = 0; l < out.size(); ++l) {
      Loop& loop = out[l];
      for (const std::int32_t p : loop.places) loop_[at(p)] = static_cast<std::int32_t>(l);
      loop.begin = loop.places.front();
      loop.end = loop.places.back();
    }
    if (Loop& last = out.back(); out.size() > 1 && phase(last.places.back()) == ir::Phase::kBackward) {
      last.begin = *std::find_if(last.places.begin(), last.places.end(), [&](std::int32_t p) { return phase(p) == ir::Phase::kBackward; });
      // Others wait for the input's gradient; sums over tokens that the program makes after it are ready with it.
      std::int32_t gives = -1;
      for (const std::int32_t p : last.places)
        for (const ValueId v : g_.node(g_.order[at(p)]).outputs)
          if (v != ir::kNone && g_.value(v).storage == ir::kNone && token_[at(v)] &&
              std::any_of(uses_[at(v)].begin(), uses_[at(v)].end(), [&](std::int32_t u) { return loop_[at(u)] < 0; }))
            gives = p;
      if (gives >= 0) last.end = gives;
    }
    return out;
  }

  /// Which results of the backward have a row for each token: products of one operand that has, and what is made of them row by
  /// row. Sums over tokens (gradients of weights) have none. What comes in from the backward around it is a gradient of tokens.
  /// Nodes that read no tokens run when the tiles are over: they leave `later`.
  void markTokens(std::vector<std::int32_t>& later) {
    std::vector<std::int32_t> after;
    for (const std::int32_t p : later) {
      const ir::Node& node = g_.node(g_.order[at(p)]);
      int tokens = 0;
      ir::forEachUse(node, [&](const ir::Use& use) {
        const ir::Value& v = g_.value(use.value);
        if (v.producer != ir::kNone && loop_[at(place_[at(v.producer)])] < 0) {
          const ir::Node& maker = g_.node(v.producer);
          if (maker.phase == ir::Phase::kRecompute) token_[at(use.value)] = token_[at(g_.node(maker.forward).outputs[at(v.output_index)])];
          if (maker.phase == ir::Phase::kBackward) token_[at(use.value)] = true;
        }
        if (token_[at(use.value)]) ++tokens;
      });
      const std::string_view base = ir::baseName(node.op);
      const bool rows = passes::isMatmul(node.op) ? tokens == 1 : tokens > 0 && base != "sum" && base != "mean";
      for (const ValueId v : node.outputs)
        if (v != ir::kNone) token_[at(v)] = rows;
      if (tokens == 0) after.push_back(p);
    }
    for (const std::int32_t p : after) loop_[at(p)] = -1;
    std::erase_if(later, [&](std::int32_t p) { return loop_[at(p)] < 0; });
  }

  /// What leads to results that a loop lacks, at its begin.
  void runAgain(const Loop& loop) {
    std::vector<std::int32_t> places = loop.lacks;
    std::vector<bool> known(g_.order.size(), false);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int32_t place = places[i];
      if (known[at(place)]) continue;
      known[at(place)] = true;
      out_.again.emplace_back(loop.begin, place);
      ir::forEachUse(g_.node(g_.order[at(place)]), [&](const ir::Use& use) {
        const NodeId maker = g_.value(use.value).producer;
        if (maker != ir::kNone && loop_[at(place_[at(maker)])] >= 0) places.push_back(place_[at(maker)]);
      });
    }
  }

  const ir::Graph& g_;
  std::vector<std::int32_t> place_;
  std::vector<bool> token_;  ///< by value: it has a row for each token
  std::vector<std::int64_t>& live_;
  TiledMlps& out_;
  std::vector<bool> kept_;   ///< by storage: to the end of the step
  std::vector<std::vector<std::int32_t>> uses_;  ///< by storage: places, rising
  std::vector<std::int32_t> loop_;  ///< by place: the loop of the MLP at hand that it is in; -1: none
};

}  // namespace

TiledMlps tileMlps(const ir::Graph& program, std::vector<std::int64_t>& live) {
  TiledMlps out;
  Finder finder(program);
  const std::vector<Mlp> mlps = finder.run();
  std::map<NodeId, std::size_t> owner;
  for (std::size_t i = 0; i < mlps.size(); ++i)
    for (const NodeId id : mlps[i].nodes) owner[id] = i;
  std::vector<std::vector<std::int32_t>> backward(mlps.size());
  for (std::size_t p = 0; p < program.order.size(); ++p) {
    const ir::Node& node = program.node(program.order[p]);
    if (node.phase == ir::Phase::kForward || ir::isCollective(node.op)) continue;
    if (const auto found = owner.find(node.forward); found != owner.end()) backward[found->second].push_back(static_cast<std::int32_t>(p));
  }
  Tiler tiler(program, finder.longValues(), live, out);
  for (std::size_t i = 0; i < mlps.size(); ++i) tiler.tile(mlps[i], backward[i]);
  return out;
}

}  // namespace spscope::session
