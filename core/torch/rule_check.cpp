// SPDX-License-Identifier: Apache-2.0
#include "core/torch/rule_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/equivalent.h"
#include "core/torch/op_call.h"

namespace spscope::exec {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kFewElements = 1 << 14;   ///< an operand of at most as many is checked in its own shape
constexpr std::int64_t kMostElements = 1 << 22;  ///< larger ones are not computed at all
constexpr std::int64_t kBlockedSize = 6;         ///< what a dimension that may be cut is checked at
constexpr double kTolerance = 1e-9;              ///< float64; sums of blocks are rounded otherwise than the whole

/// One op with the shapes and arguments that a node has.
struct Site {
  const ir::OpRule* rule;
  std::vector<ir::Argument> args;  ///< tensors blanked
  std::vector<ir::Dims> shapes;
  std::vector<ir::DType> types;
  friend bool operator==(const Site&, const Site&) = default;
};

Site siteOf(const ir::Graph& graph, const ir::Node& node, const ir::OpRule& rule) {
  Site out{&rule, {node.args.begin(), node.args.end()}, {}, {}};
  ir::Node blank;
  blank.args = node.args;
  ir::forEachUse(blank, [&](ir::Use& use) {
    out.shapes.push_back(graph.value(use.value).shape);
    out.types.push_back(graph.value(use.value).dtype);
    use.value = 0;
  });
  out.args.assign(blank.args.begin(), blank.args.end());
  return out;
}

class Trial {
 public:
  Trial(const PreparedOp& op, const ir::OpRule& rule, const ir::BoundRule& bound, const Site& site) : op_(op), rule_(rule), bound_(bound), site_(site) {}

  /// Computes the op whole. False where it does not take these sizes.
  bool start(const std::vector<ir::Dims>& shapes) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(20261130);
    operands_.clear();
    for (std::size_t i = 0; i < shapes.size(); ++i) operands_.push_back(random(shapes[i], site_.types[i], generator));
    if (const Status status = call(op_, operands_, whole_); !status) {
      failure_ = status.error().message;
      return false;
    }
    if (whole_.size() < bound_.results.size()) return false;
    for (std::size_t k = 0; k < bound_.results.size(); ++k)
      if (whole_[k].defined() && whole_[k].dim() != static_cast<std::int64_t>(bound_.results[k].size())) return false;
    return true;
  }
  const std::string& failure() const { return failure_; }

  /// The op in blocks along `name`, against the whole.
  Status compare(const std::string& name) const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (const int d = ir::BoundRule::dimOf(bound_.operands[i], name); d >= 0) n = std::max(n, operands_[i].size(d));
    if (n < 2) return {};
    // A block of one, and others of unequal size.
    ir::Dims blocks = n == 2 ? ir::Dims{1, 1} : ir::Dims{1, (n - 1) / 2, n - 1 - (n - 1) / 2};
    std::vector<Tensors> parts;
    std::int64_t begin = 0;
    for (std::size_t rank = 0; rank < blocks.size(); begin += blocks[rank++]) {
      Tensors cut;
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        const int d = ir::BoundRule::dimOf(bound_.operands[i], name);
        cut.push_back(d >= 0 && operands_[i].size(d) == n ? operands_[i].narrow(d, begin, blocks[rank]).contiguous() : operands_[i]);
      }
      parts.emplace_back();
      if (const Status status = call(op_, cut, parts.back()); !status)
        return contradicted(name, blocks, strf("on rank %zu the op fails: %s", rank, status.error().message.c_str()));
    }
    for (std::size_t k = 0; k < bound_.results.size(); ++k)
      if (whole_[k].defined()) SP_TRY(compareResult(name, blocks, parts, k));
    return {};
  }

 private:
  static at::Tensor random(const ir::Dims& shape, ir::DType type, const at::Generator& generator) {
    if (ir::isFloating(type)) return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
    if (ir::isComplex(type)) return at::randn(shape, generator, at::TensorOptions().dtype(at::kComplexDouble));
    return at::randint(0, 2, shape, generator, at::TensorOptions().dtype(at::kLong)).to(toScalarType(type));
  }

  Status compareResult(const std::string& name, const ir::Dims& blocks, const std::vector<Tensors>& parts, std::size_t k) const {
    const int d = ir::BoundRule::dimOf(bound_.results[k], name);
    const at::Tensor want = whole_[k].to(at::kDouble).contiguous();
    at::Tensor got;
    if (d >= 0) {
      Tensors pieces;
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        std::vector<std::int64_t> shape = want.sizes().vec();
        shape[static_cast<std::size_t>(d)] = blocks[rank];
        if (parts[rank][k].sizes() != at::IntArrayRef(shape))
          return contradicted(name, blocks, strf("result %zu has the shape [%s] on rank %zu instead of [%s]", k + 1, join(parts[rank][k].sizes().vec(), ", ").c_str(), rank,
                                                 join(shape, ", ").c_str()));
        pieces.push_back(parts[rank][k].to(at::kDouble));
      }
      got = at::cat(pieces, d).contiguous();
    } else {
      Tensors addends;
      for (const Tensors& part : parts) {
        if (part[k].sizes() != want.sizes()) return contradicted(name, blocks, strf("result %zu has another shape in blocks", k + 1));
        addends.push_back(part[k].to(at::kDouble));
      }
      got = at::stack(addends).sum(0).contiguous();
    }
    const double *w = want.const_data_ptr<double>(), *g = got.const_data_ptr<double>();
    double scale = 0.0;
    for (std::int64_t i = 0; i < want.numel(); ++i)
      if (std::isfinite(w[i])) scale = std::max(scale, std::abs(w[i]));
    for (std::int64_t i = 0; i < want.numel(); ++i) {
      if (w[i] == g[i] || (std::isnan(w[i]) && std::isnan(g[i])) || std::abs(w[i] - g[i]) <= kTolerance * scale) continue;
      ir::Dims index(static_cast<std::size_t>(want.dim()));
      for (std::int64_t rest = i, axis = want.dim(); axis-- > 0; rest /= want.size(axis)) index[static_cast<std::size_t>(axis)] = rest % want.size(axis);
      if (d < 0) return contradicted(name, blocks, strf("result %zu at [%s] is %.9g, and the blocks add up to %.9g", k + 1, join(index, ", ").c_str(), w[i], g[i]));
      std::size_t rank = 0;
      for (std::int64_t end = blocks[0]; index[static_cast<std::size_t>(d)] >= end; end += blocks[++rank]) {}
      return contradicted(name, blocks, strf("result %zu at [%s] is %.9g, and %.9g on rank %zu", k + 1, join(index, ", ").c_str(), w[i], g[i], rank));
    }
    return {};
  }

  Error contradicted(const std::string& name, const ir::Dims& blocks, const std::string& how) const {
    std::vector<std::string> shapes;
    for (const at::Tensor& t : operands_) shapes.push_back("[" + join(t.sizes().vec(), ", ") + "]");
    Error e = makeError("rule-contradicted", strf("the rule \"%s\" of %s lets %s be cut, but on random operands %s, in blocks of %s along %s, %s", rule_.dims.c_str(),
                                                  rule_.shownName().c_str(), name.c_str(), join(shapes, ", ").c_str(), join(blocks, ", ").c_str(), name.c_str(), how.c_str()));
    e.node = "%" + op_.node;
    e.source = rule_.place;
    return e;
  }

  const PreparedOp& op_;
  const ir::OpRule& rule_;
  const ir::BoundRule& bound_;
  const Site& site_;
  Tensors operands_, whole_;
  std::string failure_;
};

/// The operands' shapes with every dimension that may be cut at kBlockedSize.
std::vector<ir::Dims> fewer(const ir::OpRule& rule, const ir::BoundRule& bound, std::vector<ir::Dims> shapes) {
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (std::size_t d = 0; d < shapes[i].size(); ++d)
      if (rule.isCuttable(bound.operands[i][d])) shapes[i][d] = std::min(shapes[i][d], kBlockedSize);
  return shapes;
}

std::int64_t largest(const std::vector<ir::Dims>& shapes) {
  std::int64_t out = 0;
  for (const ir::Dims& s : shapes) out = std::max(out, ir::numel(s));
  return out;
}

}  // namespace

Result<RuleChecks> checkRules(const ir::Graph& graph, const ir::OpRules& rules, const Equivalents& equivalents, const CancelToken& cancel,
                              DiagnosticSink& diagnostics) {
  RuleChecks out;
  std::vector<Site> seen;
  const at::AutoGradMode no_grad(false);
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    const ir::OpRule* rule = rules.find(node.op);
    if (rule == nullptr) continue;
    SP_TRY(cancel.check());
    SP_ASSIGN(const ir::BoundRule bound, ir::bind(*rule, graph, node));
    Site site = siteOf(graph, node, *rule);
    if (std::find(seen.begin(), seen.end(), site) != seen.end()) continue;
    seen.push_back(site);
    const auto unchecked = [&](const std::string& why) {
      ++out.unchecked;
      diagnostics.warn("rule-unchecked", "the rule of " + rule->shownName() + " is taken at its word: " + why, "%" + node.name, rule->place);
    };
    Result<PreparedOp> op = prepare(node, c10::Device(c10::kCPU), &equivalents);
    if (!op) {
      if (op.error().code != "op-unknown") return std::move(op).error();
      unchecked("there is neither a kernel for it here nor an equivalent in the rule");
      continue;
    }
    Trial trial(*op, *rule, bound, site);
    const std::vector<ir::Dims> few = fewer(*rule, bound, site.shapes);
    std::vector<std::vector<ir::Dims>> tries{site.shapes};
    if (largest(site.shapes) > kFewElements) tries.insert(tries.begin(), few);
    const bool started = std::any_of(tries.begin(), tries.end(), [&](const auto& shapes) { return largest(shapes) <= kMostElements && trial.start(shapes); });
    if (!started) {
      unchecked(trial.failure().empty() ? "its operands are too large to try it" : "on random operands it fails: " + trial.failure());
      continue;
    }
    ++out.checked;
    std::vector<std::string> names;
    for (const ir::DimNames& operand : bound.operands)
      for (const std::string& name : operand)
        if (rule->isCuttable(name) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    for (const std::string& name : names) SP_TRY(trial.compare(name));
  }
  return out;
}

}  // namespace spscope::exec
