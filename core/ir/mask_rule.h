// SPDX-License-Identifier: Apache-2.0
// Attention masks as rules instead of S x S elements: what the passes write, the kernel computes and reports say.
//
// A query at i sees a key at j where every clause holds; a clause holds where one of its terms does. A term compares a
// number of the query with a number of the key: "row(i) <compare> column(j) + offset". A number is 0, the index itself,
// or an element of a vector (one per query or key) that the program computes: position, number of the document, whether
// it is a real token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/symbol.h"
#include "core/ir/placement.h"

namespace spscope::ir {

struct MaskTerm {
  enum Compare : std::uint8_t { kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };
  static constexpr std::int64_t kZero = -1, kIndex = -2;  ///< sides that are no vector
  std::int64_t clause = 0;
  Compare compare = kEqual;
  std::int64_t row = kZero, column = kZero;  ///< kZero, kIndex, or which vector
  std::int64_t offset = 0;
  friend bool operator==(const MaskTerm&, const MaskTerm&) = default;

  bool fixed() const { return row < 0 && column < 0; }  ///< known without running the program
};
/// By clause, clauses numbered from 0 without gaps. None: every query sees every key.
using MaskRule = std::vector<MaskTerm>;

/// "a < b" for kLess, and so on.
bool holds(MaskTerm::Compare compare, std::int64_t a, std::int64_t b);
MaskTerm::Compare negated(MaskTerm::Compare compare);  ///< not (a < b) is a >= b
MaskTerm::Compare mirrored(MaskTerm::Compare compare); ///< a < b is b > a

/// As an argument of a node (five numbers a term), and back; nullopt where the numbers are no rule over so many vectors.
Dims encodeMask(const MaskRule& rule);
std::optional<MaskRule> decodeMask(const Dims& numbers, std::int64_t rows, std::int64_t columns);

/// "causal, window of 16, document, padding": the kinds of the clauses, each once.
std::string describeMask(const MaskRule& rule);

/// Attention whose mask is a rule, as the placement pass sees it and as the kernel of this program for the CPU:
///   spscope.scaled_dot_product_attention.default(query, key, value, query_rows, key_columns, mask_rule, scale, enable_gqa)
///   spscope._scaled_dot_product_attention_for_cpu.default(query, key, value, query_rows, key_columns, mask_rule, scale)
///     -> (output, logsumexp)
/// query_rows are [B or 1, 1, queries, 1], key_columns [B or 1, 1, 1, keys], bool or integer.
inline const Symbol kMaskedAttention{"spscope.scaled_dot_product_attention.default"};
inline const Symbol kMaskedAttentionCpu{"spscope._scaled_dot_product_attention_for_cpu.default"};

}  // namespace spscope::ir
