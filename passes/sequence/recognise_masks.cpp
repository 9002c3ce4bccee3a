// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/recognise_masks.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/strings.h"
#include "core/ir/mask_rule.h"
#include "passes/rewrite_count.h"
#include "passes/rewriter.h"
#include "passes/sequence/mask_algebra.h"

namespace spscope::passes {
namespace {

using ir::Dims;
using ir::kNone;
using ir::MaskTerm;
using ir::NodeId;
using ir::ValueId;

const Symbol kSdpa("aten.scaled_dot_product_attention.default");

class Recognition {
 public:
  Recognition(ir::Graph& graph, const PassContext& context) : g_(graph), context_(context), reader_(graph), rw_(graph, "recognise-masks") {}

  bool run() {
    for (NodeId id : rw_.program()) {
      rw_.visit(id);
      const ir::Node& n = g_.node(id);
      const ValueId mask = n.op == kSdpa ? ir::useArg(n, "attn_mask") : kNone;
      if (mask == kNone || !isMatrix(mask) || !mayRewrite(g_, id)) {
        rw_.keep(id);
        continue;
      }
      const Status done = rewrite(id, mask);
      if (!done) {
        tell(id, mask, done.error().message);
        rw_.keep(id);
      }
    }
    return rw_.finish();
  }

 private:
  bool isMatrix(ValueId mask) const {
    const Dims& s = g_.value(mask).shape;
    return s.size() >= 2 && s[s.size() - 1] > 1 && s[s.size() - 2] > 1;
  }

  static Error no(std::string why) { return makeError("mask-kept", std::move(why)); }

  Status rewrite(NodeId id, ValueId mask) {
    const ir::Value& m = g_.value(mask);
    const ValueId q = ir::useArg(g_.node(id), "query"), k = ir::useArg(g_.node(id), "key"), v = ir::useArg(g_.node(id), "value");
    if (q == kNone || k == kNone || v == kNone) return no("query, key or value is missing");
    const Dims& queries = g_.value(q).shape;
    const Dims& keys = g_.value(k).shape;
    if (m.requires_grad || depends(mask)) return no("it is trained");
    if (ir::boolArg(g_.node(id), "is_causal", false)) return no("the attention is causal besides");
    if (queries.size() < 2 || keys.size() != queries.size()) return no("query and key differ in the number of dimensions");
    if (m.shape.size() > queries.size()) return no("it has more dimensions than the query");
    const std::int64_t rows = queries[queries.size() - 2], columns = keys[keys.size() - 2];
    if (m.shape[m.shape.size() - 2] != rows || m.shape.back() != columns) return no("it has not one row per query and one column per key");
    SP_ASSIGN(MaskMeaning meaning, reader_.read(mask));
    if (meaning.finite && (rows != columns || !surelySeesItself(meaning.formula)))
      return no("it adds a finite number, and a query that sees no key would see all of them alike");
    return write(id, meaning.formula);
  }

  /// What the kernel of rules takes; the flags are any kernel's.
  Status fitsKernel(const ir::Node& n) const {
    const ir::Value& q = g_.value(ir::useArg(n, "query"));
    const ir::Value& k = g_.value(ir::useArg(n, "key"));
    const ir::Value& v = g_.value(ir::useArg(n, "value"));
    if (q.shape.size() != 4 || v.shape.size() != 4) return no("the query has " + std::to_string(q.shape.size()) + " dimensions");
    if (q.dtype != k.dtype || q.dtype != v.dtype || !ir::isFloating(q.dtype) || ir::sizeOf(q.dtype) < 2) return no("the kernel does not take its types");
    if (q.shape[0] != k.shape[0] || q.shape[0] != v.shape[0] || k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2] || q.shape[3] != k.shape[3])
      return no("query, key and value differ in batch size, heads, length or head size");
    if (q.shape[1] != k.shape[1] && (!ir::boolArg(n, "enable_gqa", false) || q.shape[1] % k.shape[1] != 0)) return no("query heads do not go with key heads");
    if (ir::doubleArg(n, "dropout_p", 0) > 0) return no("the attention drops out");
    return {};
  }

  /// Whether a trainable input stands behind the value.
  bool depends(ValueId v) {
    if (trained_.empty()) {
      trained_.assign(g_.valueCount(), false);
      for (const ir::Input& input : g_.inputs) trained_[static_cast<std::size_t>(input.value)] = input.trainable;
      for (NodeId id : rw_.program()) {
        bool any = false;
        ir::forEachUse(g_.node(id), [&](const ir::Use& use) { any = any || trained_[static_cast<std::size_t>(use.value)]; });
        for (ValueId out : g_.node(id).outputs)
          if (out != kNone && any && ir::isFloating(g_.value(out).dtype)) trained_[static_cast<std::size_t>(out)] = true;
      }
    }
    return trained_[static_cast<std::size_t>(v)];
  }

  Status write(NodeId id, const MaskFormula& formula) {
    ir::MaskRule rule;
    std::vector<MaskVector> row_vectors, column_vectors;
    const auto side = [](const MaskSide& s, std::vector<MaskVector>& vectors) -> std::int64_t {
      if (s.kind != MaskSide::kVector) return s.kind == MaskSide::kZero ? MaskTerm::kZero : MaskTerm::kIndex;
      const std::ptrdiff_t at = std::find(vectors.begin(), vectors.end(), s.vector) - vectors.begin();
      if (at == static_cast<std::ptrdiff_t>(vectors.size())) vectors.push_back(s.vector);
      return at;
    };
    for (std::size_t c = 0; c < formula.size(); ++c) {
      if (formula[c].empty()) return no("it bans every key");
      for (const MaskCompare& t : formula[c])
        rule.push_back({static_cast<std::int64_t>(c), t.compare, side(t.row, row_vectors), side(t.column, column_vectors), t.offset});
    }
    const bool causal = rule.size() == 1 && rule[0].row == MaskTerm::kIndex && rule[0].column == MaskTerm::kIndex &&
                        ((rule[0].compare == MaskTerm::kGreaterEqual && rule[0].offset == 0) || (rule[0].compare == MaskTerm::kGreater && rule[0].offset == -1));
    const std::string what = ir::describeMask(rule);
    if (!rule.empty() && !causal) {
      if (context_.settings.device != "cpu") return no("it says " + what + ", for which no kernel of " + context_.settings.device + " is used yet");
      SP_TRY(fitsKernel(g_.node(id)));
    }
    // First whether all of them can be made, then making them: a pass that gives up leaves nothing behind.
    ir::UseList rows, columns;
    for (const bool dry : {true, false}) {
      rows.clear(), columns.clear();
      for (const MaskVector& x : row_vectors) {
        SP_ASSIGN(const ValueId made, vector(x, id, true, dry));
        rows.push_back({made});
      }
      for (const MaskVector& x : column_vectors) {
        SP_ASSIGN(const ValueId made, vector(x, id, false, dry));
        columns.push_back({made});
      }
    }
    ir::Node& n = g_.node(id);
    n.erase("attn_mask");
    if (causal) n.set("is_causal", true);
    if (!rule.empty() && !causal) {
      n.op = ir::kMaskedAttention;
      n.erase("is_causal");
      n.erase("dropout_p");
      n.set("query_rows", std::move(rows));
      n.set("key_columns", std::move(columns));
      n.set("mask_rule", ir::encodeMask(rule));
    }
    rw_.keepChanged(id);
    context_.count("recognised");
    if (causal || rule.empty()) context_.count("flags");
    if (described_.insert(what).second)
      context_.diagnostics->remark("mask-recognised", "an attention mask says: " + what, "%" + n.name, n.location ? n.location->source : "");
    return {};
  }

  /// The vector as [B or 1, 1, queries, 1] or [B or 1, 1, 1, keys]; dry: only whether that can be.
  Result<ValueId> vector(const MaskVector& x, NodeId id, bool row, bool dry) {
    if (const auto it = made_.find({x, row}); it != made_.end()) return it->second;
    ValueId v = x.value;
    Dims shape = g_.value(v).shape;
    const ir::DType dtype = g_.value(v).dtype;
    const auto emit = [&](const char* op, std::vector<ir::Argument> args) {
      if (dry) return;
      args.insert(args.begin(), {"self", ir::Use{v}});
      v = rw_.emitPlain(op, std::move(args), dtype, shape, id);
    };
    const auto unsqueeze = [&](std::size_t end) {
      if (end > shape.size() + 1) return;
      const auto d = static_cast<std::int64_t>(shape.size() + 1 - end);
      shape.insert(shape.begin() + d, 1);
      emit("aten.unsqueeze.default", {{"dim", d}});
    };
    const auto raise = [&](std::size_t rank) {
      while (shape.size() < rank) unsqueeze(shape.size() + 1);
    };
    const auto reshape = [&](const Dims& to) {
      if (ir::numel(shape) != ir::numel(to)) return false;
      shape = to;
      emit("aten.reshape.default", {{"shape", to}});
      return true;
    };
    for (const MaskVector::Step& step : x.steps) {
      switch (step.kind) {
        case MaskVector::Step::kUnsqueeze: unsqueeze(static_cast<std::size_t>(step.numbers[0])); break;
        case MaskVector::Step::kReshape: {
          Dims alone(step.numbers.size(), 1);  // it may be the same along what the matrix has in front
          std::copy(step.numbers.end() - 2, step.numbers.end(), alone.end() - 2);
          if (!reshape(step.numbers) && !reshape(alone)) return no("a reshape mixes its batch with what is in front");
          break;
        }
        case MaskVector::Step::kSwapLast:
          raise(2);
          std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
          emit("aten.transpose.int", {{"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}});
          break;
        case MaskVector::Step::kSlice: {
          const auto end = static_cast<std::size_t>(step.numbers[0]);
          if (shape.size() < end || shape[shape.size() - end] == 1) break;
          shape[shape.size() - end] = step.numbers[2] - step.numbers[1];
          emit("aten.slice.Tensor", {{"dim", static_cast<std::int64_t>(shape.size() - end)}, {"start", step.numbers[1]}, {"end", step.numbers[2]}});
          break;
        }
      }
    }
    raise(4);
    if (shape.size() != 4 || shape[row ? 3 : 2] != 1) return no("a vector of it has another shape than its rows or columns");
    if (shape[1] != 1) return no("it differs between heads");
    if (!dry) made_[{x, row}] = v;
    return v;
  }

  void tell(NodeId id, ValueId mask, const std::string& why) {
    context_.count("kept");
    if (!told_.insert(mask).second) return;
    const ir::Node& n = g_.node(id);
    context_.diagnostics->warn("mask-kept", "an attention mask of " + formatBytes(ir::numel(g_.value(mask).shape) * ir::sizeOf(g_.value(mask).dtype)) +
                                                " stays whole on every rank: " + why,
                               "%" + n.name, n.location ? n.location->source : "");
  }

  ir::Graph& g_;
  const PassContext& context_;
  MaskReader reader_;
  Rewriter rw_;
  std::vector<bool> trained_;
  std::map<std::pair<MaskVector, bool>, ValueId> made_;
  std::set<std::string> described_;
  std::set<ValueId> told_;
};

}  // namespace

Pass recogniseMasksPass() {
  return {{"recognise-masks",
           "Replace attention masks of S x S elements by what they say",
           {{"recognised", "attentions whose mask became flags or a rule"},
            {"flags", "of these, causal or without any mask"},
            {"kept", "attentions whose mask stays whole"}},
           ir::Form::kGlobal,
           ir::Form::kGlobal},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
            if (!context.settings.read_masks) return false;
            return Recognition(graph, context).run();
          }};
}

}  // namespace spscope::passes
