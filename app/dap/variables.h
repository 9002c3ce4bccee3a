// SPDX-License-Identifier: Apache-2.0
// What a client may unfold where the ranks stand: scopes, values, their figures, their elements a page at a time. References are
// good until a rank moves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/dap/wire/message.h"
#include "core/session/debug/debugger.h"

namespace spscope::app::dap {

class Variables {
 public:
  enum class Kind : std::uint8_t { kOperands, kResults, kLive, kInputs, kParameters, kValue, kElements, kDifference, kWhy };
  /// Whose tensor the elements are of.
  enum class Side : std::uint8_t { kRank, kWhole, kUnsharded };

  explicit Variables(session::debug::Debugger& debugger) : debugger_(debugger) {}
  void clear();

  /// The scopes of a rank, where it stands now.
  Json scopes(int rank);
  /// The children of a reference. `count` 0: all, though of elements not more than a page. Errors: dap-argument (no such reference),
  /// those of the debugger.
  Result<Json> children(std::int64_t reference, std::int64_t start, std::int64_t count);
  /// A value as a variable: name, value, what is under it. Errors: value-unknown, value-not-live, tensor-dtype.
  Result<Json> value(int rank, const std::string& name);
  bool knows(int rank, const std::string& name) const;  ///< a value's name exactly, without "%"

 private:
  struct Handle {
    Kind kind = Kind::kValue;
    int rank = 0;
    std::string value;
    Side side = Side::kRank;
    ir::Dims index;  ///< kElements: of the first dimensions
  };
  int keep(Handle handle);
  Json described(int rank, std::string shown_name, const std::string& value);
  Result<Json> operands(const Handle& handle);
  Result<Json> results(const Handle& handle);
  Result<Json> named(const Handle& handle, std::int64_t start, std::int64_t count);
  Result<Json> figures(const Handle& handle);
  Result<Json> elements(const Handle& handle, std::int64_t start, std::int64_t count);
  Result<Json> difference(const Handle& handle);
  Result<Json> why(const Handle& handle);
  Result<const exec::TensorBag*> bag(int rank, const std::string& value, Side side);
  /// Names of what a scope of many values holds.
  std::vector<std::string> listed(const Handle& handle) const;

  session::debug::Debugger& debugger_;
  std::vector<Handle> handles_;
  std::map<std::string, exec::TensorBag> bags_;  ///< that were asked for where the ranks stand now
};

}  // namespace spscope::app::dap
