// SPDX-License-Identifier: Apache-2.0
// See masked_attention.h.
#include "core/torch/masked_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "core/ir/mask_rule.h"
#include "core/torch/own_ops.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using ir::MaskTerm;
using std::int64_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
struct Run : Range {
  bool masked = false;  ///< some queries of the block do not see some of its keys
};
struct Extremes {
  int64_t least = 0, most = 0;
};

/// A vector of the rule for one sequence: elements, and the extremes of each step of them.
struct Side {
  Tensor numbers;  ///< int64, contiguous
  std::vector<Extremes> steps;
};

Side sideOf(const Tensor& vector, int64_t batch) {
  Side out;
  out.numbers = vector.select(0, vector.size(0) == 1 ? 0 : batch).reshape({-1}).to(at::kLong).contiguous();
  const int64_t* data = out.numbers.const_data_ptr<int64_t>();
  for (int64_t begin = 0; begin < out.numbers.numel(); begin += kMaskStep) {
    const auto [least, most] = std::minmax_element(data + begin, data + std::min(out.numbers.numel(), begin + kMaskStep));
    out.steps.push_back({*least, *most});
  }
  return out;
}

enum class Seen : std::uint8_t { kAll, kNone, kSome };

/// Whether `a compare b` holds for all, none or some pairs.
Seen compare(MaskTerm::Compare how, Extremes a, Extremes b) {
  const auto decide = [](bool all, bool none) { return all ? Seen::kAll : none ? Seen::kNone : Seen::kSome; };
  switch (how) {
    case MaskTerm::kLess: return decide(a.most < b.least, a.least >= b.most);
    case MaskTerm::kLessEqual: return decide(a.most <= b.least, a.least > b.most);
    case MaskTerm::kGreater: return decide(a.least > b.most, a.most <= b.least);
    case MaskTerm::kGreaterEqual: return decide(a.least >= b.most, a.most < b.least);
    default: break;
  }
  const bool apart = a.most < b.least || b.most < a.least;
  const bool one = a.least == a.most && b.least == b.most && a.least == b.least;
  return how == MaskTerm::kEqual ? decide(one, apart) : decide(apart, one);
}

/// The rule on one sequence of the batch, or on all of them where no vector differs between them.
class Rule {
 public:
  Rule(at::TensorList rows, at::TensorList columns, at::IntArrayRef numbers, int64_t batch) {
    const auto rule = ir::decodeMask(numbers.vec(), static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size()));
    TORCH_CHECK(rule.has_value(), "spscope: the numbers of the mask's rule are damaged");
    terms_ = *rule;
    for (const Tensor& t : rows) rows_.push_back(sideOf(t, batch));
    for (const Tensor& t : columns) columns_.push_back(sideOf(t, batch));
  }

  /// The runs of keys that queries of the block see, in order.
  std::vector<Run> runs(Range queries, int64_t keys) const {
    std::vector<Run> out;
    for (int64_t begin = 0; begin < keys; begin += kMaskStep) {
      const Range step{begin, std::min(keys, begin + kMaskStep)};
      const Seen seen = look(queries, step);
      if (seen == Seen::kNone) continue;
      const bool masked = seen == Seen::kSome;
      if (!masked && !out.empty() && out.back().end == begin && !out.back().masked && step.end - out.back().begin <= kKeyRun)
        out.back().end = step.end;
      else
        out.push_back({step, masked});
    }
    return out;
  }

  /// Who sees whom, [queries, keys] bool.
  Tensor block(Range queries, Range keys) const {
    Tensor all, clause;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const MaskTerm& t = terms_[i];
      const Tensor one = apply(t.compare, numbers(rows_, t.row, queries).unsqueeze(1), numbers(columns_, t.column, keys).add(t.offset).unsqueeze(0));
      clause = clause.defined() ? clause.logical_or(one) : one;
      if (i + 1 < terms_.size() && terms_[i + 1].clause == t.clause) continue;
      all = all.defined() ? all.logical_and(clause) : clause;
      clause = Tensor();
    }
    if (!all.defined()) all = at::ones({1, 1}, at::kBool);
    return all.expand({queries.size(), keys.size()});
  }

 private:
  static Tensor apply(MaskTerm::Compare how, const Tensor& a, const Tensor& b) {
    switch (how) {
      case MaskTerm::kLess: return a.lt(b);
      case MaskTerm::kLessEqual: return a.le(b);
      case MaskTerm::kEqual: return a.eq(b);
      case MaskTerm::kNotEqual: return a.ne(b);
      case MaskTerm::kGreater: return a.gt(b);
      case MaskTerm::kGreaterEqual: break;
    }
    return a.ge(b);
  }

  static Tensor numbers(const std::vector<Side>& sides, int64_t which, Range range) {
    if (which >= 0) return sides[static_cast<std::size_t>(which)].numbers.slice(0, range.begin, range.end);
    if (which == MaskTerm::kZero) return at::zeros({1}, at::kLong);
    Tensor out = at::empty({range.size()}, at::kLong);
    int64_t* data = out.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < range.size(); ++i) data[i] = range.begin + i;
    return out;
  }

  static Extremes extremes(const std::vector<Side>& sides, int64_t which, Range range) {
    if (which == MaskTerm::kZero) return {};
    if (which == MaskTerm::kIndex) return {range.begin, range.end - 1};
    Extremes out{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    const auto& steps = sides[static_cast<std::size_t>(which)].steps;
    for (int64_t s = range.begin / kMaskStep; s * kMaskStep < range.end; ++s) {
      out.least = std::min(out.least, steps[static_cast<std::size_t>(s)].least);
      out.most = std::max(out.most, steps[static_cast<std::size_t>(s)].most);
    }
    return out;
  }

  Seen look(Range queries, Range keys) const {
    Seen all = Seen::kAll;
    for (std::size_t i = 0; i < terms_.size();) {
      Seen clause = Seen::kNone;
      const int64_t number = terms_[i].clause;
      for (; i < terms_.size() && terms_[i].clause == number; ++i) {
        const MaskTerm& t = terms_[i];
        Extremes key = extremes(columns_, t.column, keys);
        key.least += t.offset, key.most += t.offset;
        const Seen one = compare(t.compare, extremes(rows_, t.row, queries), key);
        if (one == Seen::kAll) clause = Seen::kAll;
        if (one == Seen::kSome && clause == Seen::kNone) clause = Seen::kSome;
      }
      if (clause == Seen::kNone) return Seen::kNone;
      if (clause == Seen::kSome) all = Seen::kSome;
    }
    return all;
  }

  ir::MaskRule terms_;
  std::vector<Side> rows_, columns_;
};

/// What the flash kernel adds to the scores: 0 where seen, else -inf.
Tensor additive(const Tensor& seen, at::ScalarType type) {
  return at::zeros({1, 1, seen.size(0), seen.size(1)}, type).masked_fill_(seen.logical_not(), -kInfinity);
}

at::ScalarType accumulateType(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// One rule for the whole batch where no vector differs between its sequences, else one for each.
Range sequences(at::TensorList rows, at::TensorList columns, int64_t batch) {
  for (const at::TensorList& list : {rows, columns})
    for (const Tensor& t : list)
      if (t.size(0) != 1) return {0, batch};
  return {0, 1};
}

Tensor part(const Tensor& t, int64_t dim, Range range) { return t.narrow(dim, range.begin, range.size()); }

}  // namespace

std::tuple<Tensor, Tensor> maskedAttention(const Tensor& query, const Tensor& key, const Tensor& value, at::TensorList rows, at::TensorList columns,
                                           at::IntArrayRef numbers, std::optional<double> scale) {
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  const at::ScalarType type = accumulateType(query);
  Tensor out = at::empty({batch, queries, heads, value.size(3)}, query.options()).transpose(1, 2);
  Tensor sums = at::empty({batch, queries, heads}, query.options().dtype(type)).transpose(1, 2);
  if (query.numel() == 0 || value.numel() == 0) return {out.zero_(), sums.zero_()};
  const Range several = sequences(rows, columns, batch);
  for (int64_t b = several.begin; b < several.end; ++b) {
    const Rule rule(rows, columns, numbers, b);
    const Range mine = several.size() == 1 ? Range{0, batch} : Range{b, b + 1};
    const Tensor q = part(query, 0, mine), k = part(key, 0, mine), v = part(value, 0, mine);
    for (int64_t begin = 0; begin < queries; begin += kMaskStep) {
      const Range block{begin, std::min(queries, begin + kMaskStep)};
      Tensor joined, total;
      for (const Run& run : rule.runs(block, key.size(2))) {
        std::optional<Tensor> mask;
        Tensor blind;  // queries that see none of these keys; the kernel calls their log-sum-exp 0
        if (run.masked) {
          const Tensor seen = rule.block(block, run);
          mask = additive(seen, query.scalar_type());
          blind = seen.any(1).logical_not();
        }
        auto [some, sum] = at::_scaled_dot_product_flash_attention_for_cpu(part(q, 2, block), part(k, 2, run), part(v, 2, run), 0.0, false, mask, scale);
        mask.reset();
        if (blind.defined()) sum = sum.masked_fill(blind.view({1, 1, -1}), -kInfinity);
        if (!joined.defined()) {
          joined = some, total = sum;
          continue;
        }
        // Both may have seen nothing: -inf by -inf has no number, and weighs nothing.
        const Tensor both = at::logaddexp(total, sum);
        const auto weight = [&](const Tensor& of) { return at::exp(of.sub(both)).masked_fill_(of.eq(-kInfinity), 0.0).unsqueeze(3); };
        joined = joined.to(type).mul_(weight(total));  // both are ours alone
        joined.add_(some.to(type).mul_(weight(sum)));
        total = both;
      }
      Tensor out_block = part(part(out, 0, mine), 2, block), sum_block = part(part(sums, 0, mine), 2, block);
      if (!joined.defined()) {
        out_block.zero_(), sum_block.zero_();
        continue;
      }
      out_block.copy_(joined);
      sum_block.copy_(total.masked_fill(total.eq(-kInfinity), 0.0));
    }
  }
  return {out, sums};
}

std::tuple<Tensor, Tensor, Tensor> maskedAttentionBackward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& out, const Tensor& sums, at::TensorList rows, at::TensorList columns,
                                                           at::IntArrayRef numbers, std::optional<double> scale) {
  const int64_t batch = query.size(0), queries = query.size(2);
  const at::ScalarType type = accumulateType(query);
  // Blocks of queries add up in key and value: in float32 where they are shorter.
  const auto zerosLike = [&](const Tensor& t, at::ScalarType of) { return at::zeros({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options().dtype(of)).transpose(1, 2); };
  Tensor dq = zerosLike(query, query.scalar_type()), dk = zerosLike(key, type), dv = zerosLike(value, type);
  if (query.numel() != 0 && value.numel() != 0) {
    const Range several = sequences(rows, columns, batch);
    for (int64_t b = several.begin; b < several.end; ++b) {
      const Rule rule(rows, columns, numbers, b);
      const Range mine = several.size() == 1 ? Range{0, batch} : Range{b, b + 1};
      const Tensor q = part(query, 0, mine), k = part(key, 0, mine), v = part(value, 0, mine);
      Tensor dk_part = part(dk, 0, mine), dv_part = part(dv, 0, mine);
      for (int64_t begin = 0; begin < queries; begin += kMaskStep) {
        const Range block{begin, std::min(queries, begin + kMaskStep)};
        const Tensor grad_block = part(part(grad, 0, mine), 2, block), out_block = part(part(out, 0, mine), 2, block);
        const Tensor sum_block = part(part(sums, 0, mine), 2, block);
        Tensor joined;
        for (const Run& run : rule.runs(block, key.size(2))) {
          std::optional<Tensor> mask;
          if (run.masked) mask = additive(rule.block(block, run), query.scalar_type());
          // With the block's own result and log-sum-exp each run gives its share of the gradients.
          const auto [one, keys, values] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
              grad_block, part(q, 2, block), part(k, 2, run), part(v, 2, run), out_block, sum_block, 0.0, false, mask, scale);
          joined = joined.defined() ? joined.add_(one) : one.to(type);
          part(dk_part, 2, run).add_(keys);
          part(dv_part, 2, run).add_(values);
        }
        if (joined.defined()) part(part(dq, 0, mine), 2, block).copy_(joined);
      }
    }
  }
  return {dq, dk.to(key.scalar_type()), dv.to(value.scalar_type())};
}

}  // namespace spscope::exec
