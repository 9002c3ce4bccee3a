// SPDX-License-Identifier: Apache-2.0
// The parser of the text form: one pass, one token of look-ahead, no recursion. Private to core/ir. Values may be used
// before the line that defines them (the verifier is what refuses that), so that a broken graph can be written in a test.
#pragma once

#include <deque>
#include <unordered_map>

#include "core/ir/text.h"
#include "core/ir/text_reader.h"

namespace spscope::ir {

class Parser : private TokenReader {
 public:
  using TokenReader::TokenReader;

  Result<GraphText> parse();

 private:
  // --- parts of the graph -----------------------------------------------------------------------------------------
  Status header(TextHeader* out);
  Status graphLine();
  Status input();
  Status output();
  Status node();
  Result<Value> type();
  Result<FactorList> factors();
  Result<Placement> placement(std::string_view word);
  Result<Attribute> attribute();
  Result<Attribute> attributeList(std::string_view kind);
  Status nodeTail(Node* node);
  Result<LocationRef> location(std::size_t start);

  Result<std::string_view> valueName();
  Result<ValueId> valueUse();
  Result<ValueId> valueDefinition(std::string_view name, const Token& at, Value value);
  Symbol symbol(std::string_view text);

  struct Known {
    ValueId id = kNone;
    bool defined = false;
    std::size_t first_use = 0;
  };

  Graph graph_;
  std::int64_t next_id_ = 0;
  std::int64_t max_ids_ = 0;
  std::vector<bool> id_taken_;
  std::unordered_map<std::string_view, Known> values_;
  std::unordered_map<std::string_view, Symbol> symbols_;      // interning takes a lock; a text repeats few words
  std::unordered_map<std::string_view, LocationRef> locations_;  // by their text, so that nodes share them
  std::deque<std::string> unquoted_;                          // owns names written in quotes
};

}  // namespace spscope::ir
