// SPDX-License-Identifier: Apache-2.0
// What an attention mask says, read off the ops that define it: abstract interpretation, no element is evaluated.
//
// Three questions about a value, each answered from those about its operands:
//   line(v)     is it a x index + c along one dimension, whatever the data (aranges, sums with numbers, differences of neighbours)?
//   truth(v)    of a [.., Q, K] matrix: where is it not zero? As clauses of comparisons between a number of the row and one
//               of the column; a matrix that does not vary along one of the two is itself such a vector.
//   additive(v) of a float matrix of zeros and one very negative number: where is it zero?
// Whatever has no rule makes the whole mask unrecognised, with the op and the reason.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/mask_rule.h"

namespace spscope::passes {

/// A vector that a mask compares: a value of the graph and how its dimensions are brought to the mask's.
struct MaskVector {
  struct Step {
    enum Kind : std::uint8_t { kUnsqueeze, kReshape, kSwapLast, kSlice } kind;
    ir::Dims numbers;  ///< kUnsqueeze: the dim, from the end; kReshape: the shape; kSlice: dim from the end, start, end
    friend bool operator==(const Step&, const Step&) = default;
    friend auto operator<=>(const Step&, const Step&) = default;
  };
  ir::ValueId value = ir::kNone;
  std::vector<Step> steps;
  friend bool operator==(const MaskVector&, const MaskVector&) = default;
  friend auto operator<=>(const MaskVector&, const MaskVector&) = default;
};

/// One side of a comparison.
struct MaskSide {
  enum Kind : std::uint8_t { kZero, kIndex, kVector } kind = kZero;
  MaskVector vector;  ///< kVector
  friend bool operator==(const MaskSide&, const MaskSide&) = default;
};

struct MaskCompare {
  ir::MaskTerm::Compare compare = ir::MaskTerm::kEqual;
  MaskSide row, column;
  std::int64_t offset = 0;  ///< row <compare> column + offset
  friend bool operator==(const MaskCompare&, const MaskCompare&) = default;
};
using MaskClause = std::vector<MaskCompare>;   ///< one of them holds; empty: never
using MaskFormula = std::vector<MaskClause>;   ///< all of them hold; empty: always

/// What an attention's mask says.
struct MaskMeaning {
  MaskFormula formula;
  /// The mask adds a finite number where it bans: a query that sees no key would then see all of them alike.
  bool finite = false;
};

class MaskReader {
 public:
  /// The graph must stay as it is while this lives.
  explicit MaskReader(const ir::Graph& graph) : graph_(graph) {}
  /// The meaning of an attn_mask: bool, or added to the scores. Error: mask-kept, its message the reason.
  Result<MaskMeaning> read(ir::ValueId mask);

 private:
  /// a x index along dimension `axis` (from the end, 1: the last) + offset.
  struct Line {
    int axis = 0;  ///< 0: the same number everywhere
    std::int64_t slope = 0, offset = 0;
  };
  /// Sum of at most one number of the row and one of the column.
  struct Sum {
    MaskSide row, column;
    int row_sign = 0, column_sign = 0;
    std::int64_t offset = 0;
  };
  enum class Question : std::uint8_t { kTruth, kAdditive };
  using Answer = Result<MaskMeaning>;

  const ir::Value& value(ir::ValueId v) const { return graph_.value(v); }
  const ir::Node* producer(ir::ValueId v) const;
  std::optional<std::int64_t> wholeNumber(const ir::Node& node, Symbol argument);
  std::optional<double> number(ir::ValueId v);                             ///< of a value that is the same everywhere
  std::optional<double> number(const ir::Node& node, Symbol argument);
  std::optional<Line> line(ir::ValueId v);
  std::optional<Line> lineOf(const ir::Node& n, ir::ValueId v);
  bool binary(ir::ValueId v, int depth = 0);  ///< holds only zeros and ones
  Answer ask(ir::ValueId v, Question question);
  Answer answer(ir::ValueId v, Question question);
  std::optional<Answer> through(const ir::Node& n, ir::ValueId v, Question question);
  Answer truthOf(const ir::Node& n, ir::ValueId v);
  Answer additiveOf(const ir::Node& n, ir::ValueId v);
  Answer comparison(const ir::Node& n, ir::ValueId v);
  Answer band(const ir::Node& n, MaskMeaning of);
  std::optional<Sum> sum(ir::ValueId v, int depth = 0);
  std::optional<MaskSide> side(ir::ValueId v, bool row);
  Answer compareSum(const Sum& s, ir::MaskTerm::Compare compare, ir::ValueId at);
  Error unknown(ir::ValueId v, const std::string& why) const;

  const ir::Graph& graph_;
  std::unordered_map<ir::ValueId, std::optional<Line>> lines_;
  std::map<std::pair<ir::ValueId, Question>, Answer> answers_;
  int depth_ = 0;
};

MaskFormula bothHold(MaskFormula a, const MaskFormula& b);
/// nullopt where it would have too many terms.
std::optional<MaskFormula> eitherHolds(const MaskFormula& a, const MaskFormula& b);
std::optional<MaskFormula> neverHolds(const MaskFormula& a);
/// Each query sees the key at its own place, whatever the data.
bool surelySeesItself(const MaskFormula& formula);

}  // namespace spscope::passes
