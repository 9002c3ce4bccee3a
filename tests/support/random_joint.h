// SPDX-License-Identifier: Apache-2.0
// Small joint programs full of collectives, made from a seed, one graph per rank as the pipeline would hand them over: even
// and uneven blocks, empty ones, exchanges that undo each other, sums of sums, views, copies, outputs in the middle. Every
// program is legal; few make sense.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/layout.h"
#include "core/ir/sp_ops.h"

namespace spscope::testing {

class RandomJoint {
 public:
  explicit RandomJoint(std::uint64_t seed) : random_(seed) {
    ranks_ = 1 + upTo(3);
    graphs.resize(static_cast<std::size_t>(ranks_));
    for (std::size_t r = 0; r < graphs.size(); ++r) {
      graphs[r].name = "random";
      graphs[r].form = ir::Form::kJoint;
      graphs[r].mesh.axes = {{"sp", ranks_}};
      graphs[r].rank = static_cast<int>(r);
    }
    for (int i = 1 + upTo(2); i >= 0; --i) input(i, false);
    for (int i = 1 + upTo(3); i >= 0; --i) input(i, true);
    for (int i = 5 + upTo(15); i > 0; --i) any();
    const Tensor loss = add("sp.all_reduce.default", sum(pick()), {}, false);
    output(loss, ir::OutputKind::kLoss, ir::kNone);
    phase_ = ir::Phase::kBackward;
    for (int i = 5 + upTo(15); i > 0; --i) any();
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      if (oneIn(8)) continue;
      gradient(p);
      for (int i = upTo(3); i > 0; --i) any();
    }
    for (int i = upTo(2); i > 0; --i) output(pick(), ir::OutputKind::kUser, ir::kNone);
  }

  std::vector<ir::Graph> graphs;  ///< by rank

 private:
  /// A dimension: whole on every rank, or in one block per rank.
  struct Dim {
    std::int64_t whole = 1;
    ir::Dims blocks;
    bool operator==(const Dim&) const = default;
  };
  struct Tensor {
    ir::ValueId id = ir::kNone;  ///< the same in every graph
    ir::DType dtype = ir::DType::kF64;
    std::vector<Dim> dims;
  };
  using Args = std::vector<std::pair<const char*, ir::Attribute>>;

  int upTo(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n + 1)); }
  bool oneIn(int n) { return upTo(n - 1) == 0; }
  static ir::Dims local(const std::vector<Dim>& dims, std::size_t rank) {
    ir::Dims out;
    for (const Dim& d : dims) out.push_back(d.blocks.empty() ? d.whole : d.blocks[rank]);
    return out;
  }
  ir::Dims blocksOf(std::int64_t whole) {
    const std::int64_t n = ranks_;
    ir::Dims out(static_cast<std::size_t>(n), whole / n);
    if (whole % n != 0 || oneIn(4)) {  // anyhow, as long as it adds up
      std::fill(out.begin(), out.end(), 0);
      for (std::int64_t i = 0; i < whole; ++i) ++out[static_cast<std::size_t>(upTo(ranks_ - 1))];
    }
    return out;
  }

  void input(int number, bool parameter) {
    Tensor t;
    t.dtype = oneIn(3) ? ir::DType::kF32 : ir::DType::kF64;
    for (int i = parameter ? 1 : 2 + upTo(1); i >= 0; --i) t.dims.push_back({oneIn(6) ? 1 : 2 + upTo(4), {}});
    for (std::size_t r = 0; r < graphs.size(); ++r) {
      ir::Graph& g = graphs[r];
      ir::Input in;
      in.name = (parameter ? "w" : "x") + std::to_string(number);
      in.value = t.id = g.addValue(in.name, t.dtype, local(t.dims, r));
      g.value(t.id).storage_bytes = g.value(t.id).localBytes();
      in.kind = parameter ? ir::InputKind::kParameter : ir::InputKind::kUser;
      in.trainable = parameter;
      if (parameter && r == 0) parameters_.push_back({t, g.inputs.size()});
      g.inputs.push_back(std::move(in));
    }
    tensors_.push_back(t);
  }

  /// A node on every rank. `blocks` that are the same everywhere go into `args`; `t.dims` is what comes out.
  Tensor add(const char* op, Tensor t, Args args, bool view) {
    const ir::ValueId self = t.id;
    const bool keep = oneIn(20);
    for (std::size_t r = 0; r < graphs.size(); ++r) {
      ir::Graph& g = graphs[r];
      const ir::NodeId n = g.addNode(op, "n");
      g.node(n).args.push_back({"self", ir::Use{self}});
      for (const auto& [name, value] : args) g.node(n).args.push_back({name, value});
      g.node(n).phase = phase_;
      g.node(n).must_save = keep;
      t.id = g.addOutput(n, t.dtype, local(t.dims, r));
      ir::Value& v = g.value(t.id);
      if (view)
        v.storage = g.value(self).storage == ir::kNone ? self : g.value(self).storage;
      else
        v.storage_bytes = v.localBytes();
      g.order.push_back(n);
    }
    tensors_.push_back(t);
    return t;
  }
  void output(const Tensor& t, ir::OutputKind kind, int input) {
    for (ir::Graph& g : graphs)
      if (std::none_of(g.outputs.begin(), g.outputs.end(), [&](const ir::Output& o) { return o.value == t.id; }))
        g.outputs.push_back({t.id, kind, input});
  }
  /// Rather a young one.
  Tensor pick() { return tensors_[tensors_.size() - 1 - static_cast<std::size_t>(std::min(upTo(8), upTo(static_cast<int>(tensors_.size()) - 1)))]; }
  Tensor sum(const Tensor& t) {
    Tensor out = t;
    out.dims.clear();
    return add("aten.sum.default", out, {}, false);
  }
  bool contiguousEverywhere(const Tensor& t) {
    return std::all_of(graphs.begin(), graphs.end(), [&](const ir::Graph& g) { return ir::surelyContiguous(g, t.id); });
  }
  /// A dimension that is cut, or that is whole; -1 where there is none.
  int dimOf(const Tensor& t, bool cut, int but = -1) {
    std::vector<int> fit;
    for (std::size_t d = 0; d < t.dims.size(); ++d)
      if (t.dims[d].blocks.empty() != cut && static_cast<int>(d) != but) fit.push_back(static_cast<int>(d));
    return fit.empty() ? -1 : fit[static_cast<std::size_t>(upTo(static_cast<int>(fit.size()) - 1))];
  }
  static Dim& at(Tensor& t, int d) { return t.dims[static_cast<std::size_t>(d)]; }

  void any() {
    Tensor t = pick();
    const int rank = static_cast<int>(t.dims.size());
    switch (upTo(11)) {
      case 0: add(oneIn(2) ? "aten.neg.default" : "aten.tanh.default", t, {}, false); return;
      case 1: case 2: {
        for (int tries = 0; tries < 20; ++tries) {
          const Tensor other = pick();
          if (other.dims != t.dims || other.dtype != t.dtype) continue;
          add(oneIn(2) ? "aten.mul.Tensor" : "aten.sub.Tensor", t, {{"other", ir::Use{other.id}}}, false);
          return;
        }
        return;
      }
      case 3:
        if (oneIn(2))
          add("aten.clone.default", t, oneIn(2) ? Args{} : Args{{"memory_format", ir::MemoryFormat::kContiguous}}, false);
        else
          add("aten._to_copy.default", t, {{"dtype", t.dtype}}, false);
        return;
      case 4: add(oneIn(2) ? "aten.alias.default" : "sp.vary.default", t, {}, true); return;
      case 5: {
        if (rank < 2) return;
        const int a = upTo(rank - 1), b = upTo(rank - 1);
        std::swap(at(t, a), at(t, b));
        const Args args = {{"dim0", std::int64_t{a}}, {"dim1", std::int64_t{oneIn(3) ? b - rank : b}}};
        const Tensor turned = add("aten.transpose.int", t, args, true);
        if (!oneIn(3)) return;
        t = turned;
        std::swap(at(t, a), at(t, b));
        add("aten.transpose.int", t, args, true);
        return;
      }
      case 6: view(t); return;
      case 7: {
        if (rank == 0) return;
        const int d = upTo(rank - 1);
        at(t, d) = {1, {}};
        add("aten.sum.dim_IntList", t, {{"dim", ir::Dims{d}}, {"keepdim", true}}, false);
        return;
      }
      default: exchange(t); return;
    }
  }

  void view(Tensor t) {
    if (!contiguousEverywhere(t)) return;
    std::vector<Dim> dims = t.dims;
    for (std::size_t d = 0; d + 1 < dims.size(); ++d)
      if (dims[d].blocks.empty() && dims[d + 1].blocks.empty() && oneIn(2)) {
        dims[d].whole *= dims[d + 1].whole;
        dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      }
    if (dims.size() < 4 && oneIn(2)) dims.insert(dims.begin() + upTo(static_cast<int>(dims.size())), Dim{});
    // The size argument differs where a dimension is cut, so this one is added by hand.
    t.dims = dims;
    const Tensor out = add("aten.view.default", t, {{"size", ir::Dims{}}}, true);
    for (std::size_t r = 0; r < graphs.size(); ++r)
      graphs[r].node(graphs[r].value(out.id).producer).set("size", local(dims, r));
  }

  void exchange(Tensor t) {
    const int cut = dimOf(t, true), whole = dimOf(t, false);
    const int kind = upTo(5);
    if (cut >= 0 && whole >= 0 && kind < 3) {
      const ir::Dims gathered = at(t, cut).blocks, scattered = blocksOf(at(t, whole).whole);
      at(t, cut).blocks.clear();
      at(t, whole).blocks = scattered;
      const Args there = {{"gather_dim", std::int64_t{cut}}, {"gather_blocks", gathered}, {"scatter_dim", std::int64_t{whole}}, {"scatter_blocks", scattered}};
      t = add("sp.all_to_all.default", t, there, false);
      if (!oneIn(3)) return;
      at(t, cut).blocks = gathered;
      at(t, whole).blocks.clear();
      add("sp.all_to_all.default", t, {{"gather_dim", std::int64_t{whole}}, {"gather_blocks", scattered}, {"scatter_dim", std::int64_t{cut}}, {"scatter_blocks", gathered}}, false);
    } else if (cut >= 0 && kind < 4) {
      const ir::Dims blocks = at(t, cut).blocks;
      at(t, cut).blocks.clear();
      t = add("sp.all_gather.default", t, {{"dim", std::int64_t{cut}}, {"blocks", blocks}}, false);
      if (!oneIn(3)) return;
      at(t, cut).blocks = blocks;
      add("sp.slice.default", t, {{"dim", std::int64_t{cut}}, {"blocks", blocks}}, false);
    } else if (cut < 0 && kind == 4) {
      add("sp.all_reduce.default", t, {}, false);
    } else if (cut < 0 && whole >= 0) {  // no value is cut twice
      const ir::Dims blocks = blocksOf(at(t, whole).whole);
      at(t, whole).blocks = blocks;
      const bool sums = oneIn(3);
      t = add(sums ? "sp.reduce_scatter.default" : "sp.slice.default", t, {{"dim", std::int64_t{whole}}, {"blocks", blocks}}, false);
      if (sums || !oneIn(4)) return;
      at(t, whole).blocks.clear();
      add("sp.all_gather.default", t, {{"dim", std::int64_t{whole}}, {"blocks", blocks}}, false);
    }
  }

  /// Something of the parameter's shape, summed once (or not at all, or twice), sometimes through views, sometimes read again.
  void gradient(std::size_t p) {
    Tensor g = parameters_[p].first;
    g = add("aten.tanh.default", g, {}, false);
    if (oneIn(3)) {  // as the gradient of a weight: a transposed product
      std::swap(g.dims[0], g.dims[1]);
      const Args args = {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}};
      g = add("aten.transpose.int", g, args, true);
      if (oneIn(2)) g = add("aten.clone.default", g, {{"memory_format", ir::MemoryFormat::kContiguous}}, false);
      std::swap(g.dims[0], g.dims[1]);
      g = add("aten.transpose.int", g, args, true);
    }
    for (int sums = oneIn(6) ? 2 : oneIn(8) ? 0 : 1; sums > 0; --sums) g = add("sp.all_reduce.default", g, {}, false);
    if (oneIn(4)) g = add("aten.neg.default", g, {}, false);
    output(g, ir::OutputKind::kGradient, static_cast<int>(parameters_[p].second));
  }

  std::mt19937_64 random_;
  int ranks_ = 1;
  ir::Phase phase_ = ir::Phase::kForward;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<Tensor, std::size_t>> parameters_;  ///< with their input numbers
};

}  // namespace spscope::testing
