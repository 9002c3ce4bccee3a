// SPDX-License-Identifier: Apache-2.0
// Whether two graphs are the same, whatever their value ids are: a value is what defines it, an input or a node's output.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace spscope::ir {

/// Compares everything that the text form holds: nodes by id and in order, names, arguments, types, placements,
/// provenance, locations (without the stack), inputs, outputs, mesh. `why` (may be null) gets the first difference.
bool structurallyEqual(const Graph& a, const Graph& b, std::string* why);

/// Values of two graphs that mean the same: same input, or same output of the node with the same id.
class ValueIdentity {
 public:
  ValueIdentity(const Graph& a, const Graph& b);
  bool same(ValueId in_a, ValueId in_b) const {
    if (in_a == kNone || in_b == kNone) return in_a == in_b;
    const Value& x = a_.value(in_a);
    const Value& y = b_.value(in_b);
    if (x.producer != y.producer) return false;
    if (x.producer != kNone) return x.output_index == y.output_index;
    const std::int32_t i = input_of_a_[static_cast<std::size_t>(in_a)];
    const std::int32_t j = input_of_b_[static_cast<std::size_t>(in_b)];
    return i != kNone && j != kNone ? i == j : x.name == y.name;
  }
  bool same(const Attribute& in_a, const Attribute& in_b) const;  ///< NaN equals NaN here

 private:
  const Graph& a_;
  const Graph& b_;
  std::vector<std::int32_t> input_of_a_, input_of_b_;  ///< by value id; numbers that agree where the input's name does
};

/// Equal as far as the kind gives the other members a meaning.
bool samePlacement(const Placement& a, const Placement& b);
bool sameLocation(const LocationRef& a, const LocationRef& b);  ///< without the stack

}  // namespace spscope::ir
