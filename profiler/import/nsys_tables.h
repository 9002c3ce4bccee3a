// SPDX-License-Identifier: Apache-2.0
// Tables and columns of an Nsight export, whatever its version calls them: by prefix and highest version, columns by the
// first of several names. What is absent reads as NULL and is counted.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/cancel.h"
#include "profiler/store/sqlite.h"
#include "profiler/trace/problems.h"

namespace spscope::trace {

class NsysTables {
 public:
  /// Errors: trace-unreadable.
  static Result<NsysTables> open(Database& database);

  /// The table "BASE" or "BASE_V3": the highest version; "" where there is none.
  std::string find(std::string_view base) const;
  bool has(std::string_view base) const { return !find(base).empty(); }
  std::vector<std::string> columnsOf(std::string_view base) const;
  /// Tables that nobody asked for and that look like recorded events, with their numbers of rows.
  std::vector<std::string> unread();

  /// Calls `row` for each row with the columns in the order asked for. "a|b": the first of these that exists. A leading "?"
  /// marks a column that not every version has: not counted where it is missing. A damaged page ends the table and is
  /// counted. False: there is no such table.
  Result<bool> each(std::string_view base, const std::vector<std::string_view>& columns, Problems& problems, const CancelToken& cancel,
                    const std::function<void(Statement&, std::int64_t number)>& row);

  /// Rows read so far, of all in the tables that were found.
  std::function<void(std::int64_t rows)> on_rows;

 private:
  explicit NsysTables(Database& database) : database_(&database) {}
  Database* database_;
  std::map<std::string, std::vector<std::string>> tables_;  ///< columns
  mutable std::set<std::string> asked_;
  std::int64_t rows_ = 0;
};

}  // namespace spscope::trace
