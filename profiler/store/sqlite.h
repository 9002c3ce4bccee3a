// SPDX-License-Identifier: Apache-2.0
// The little that we need of SQLite: a file opened to be read or written, statements whose failure is a Status. The one
// place that includes sqlite3.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace spscope::trace {

class Statement;

/// Not thread-safe.
class Database {
 public:
  /// An existing file, never changed: opened immutable, so neither locks nor journals are made beside it.
  /// Errors: file-missing, file-unreadable, file-is-folder, trace-unreadable (no SQLite file).
  static Result<Database> openToRead(const std::string& path);
  /// A database that lies in memory, never changed; `bytes` must outlive it. `name` is its path in errors.
  static Result<Database> ofBytes(std::span<const std::byte> bytes, const std::string& name);
  /// A new file, without journal or syncs: for a temporary name that is thrown away when anything fails.
  /// Errors: file-unwritable.
  static Result<Database> create(const std::string& path);

  /// One or several statements without results.
  Status run(std::string_view sql);
  Result<Statement> prepare(std::string_view sql);
  bool hasTable(std::string_view name);
  /// Closes the file; reports what only then fails.
  Status close();

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  Error error(std::string_view doing) const;
  /// Before anything of a foreign file is read.
  Status distrust();
  std::unique_ptr<sqlite3, Closer> handle_;
  std::string path_;
  bool writes_ = false;
  friend class Statement;
};

/// A prepared statement; its Database must outlive it.
class Statement {
 public:
  /// Parameters are bound one after the other, in the order of the calls.
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bindNull();
  /// NULL where the value is kUnknown (trace.h) or absent.
  Statement& bindKnown(std::int64_t value);

  /// Runs a statement that has no rows, and makes it ready for the next set of parameters.
  Status run();
  /// The next row; false after the last one.
  Result<bool> next();

  bool isNull(int column) const;
  std::int64_t integer(int column) const;
  /// kUnknown for NULL and what is no number.
  std::int64_t known(int column) const;
  double real(int column) const;
  /// Valid until the next call of next().
  std::string_view text(int column) const;

 private:
  friend class Database;
  struct Closer {
    void operator()(sqlite3_stmt* handle) const;
  };
  std::unique_ptr<sqlite3_stmt, Closer> handle_;
  const Database* database_ = nullptr;
  int bound_ = 0;
};

}  // namespace spscope::trace
