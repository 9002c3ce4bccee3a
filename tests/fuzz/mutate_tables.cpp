// SPDX-License-Identifier: Apache-2.0
// Mutations of an SQLite file by its tables: cells of other kinds and sizes, rows lost or doubled, tables and columns gone or
// renamed. Flipped bytes alone rarely get past SQLite's own checks to the reader behind it. Linked under libFuzzer only.
#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using Random = std::minstd_rand;
using Database = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

/// A random number below `count`, which is at least 1.
std::size_t below(Random& random, std::size_t count) { return random() % count; }

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// The first column of the rows that a query gives; empty where it fails.
std::vector<std::string> column(sqlite3* database, const std::string& query) {
  std::vector<std::string> texts;
  const auto add = [](void* to, int count, char** values, char**) {
    if (count > 0 && values[0]) static_cast<std::vector<std::string>*>(to)->push_back(values[0]);
    return 0;
  };
  sqlite3_exec(database, query.c_str(), add, &texts, nullptr);
  return texts;
}

/// An SQL expression for a cell: extremes, another kind of value, or a step away from what is there.
std::string value(Random& random, const std::string& columnName) {
  static constexpr std::array kValues = {"NULL", "0", "-1", "1", "9223372036854775807", "-9223372036854775807 - 1", "4294967296", "2147483647",
                                         "1e308", "-1e308", "0.5", "''", "'text'", "x'00ff'", "'\xff\xfe'", "zeroblob(5000)", "hex(randomblob(20))"};
  const std::string name = quoted(columnName);
  switch (below(random, 4)) {
    case 0: return name + " + 1";
    case 1: return "-" + name;
    case 2: return name + " * " + std::to_string(below(random, 100000));
    default: return kValues[below(random, kValues.size())];
  }
}

/// One statement that changes something of a table.
std::string change(Random& random, sqlite3* database) {
  const std::vector<std::string> tables = column(database, "SELECT name FROM sqlite_master WHERE type = 'table'");
  if (tables.empty()) return "";
  const std::string table = quoted(tables[below(random, tables.size())]);
  const std::vector<std::string> columns = column(database, "SELECT name FROM pragma_table_info(" + table + ")");
  if (columns.empty()) return "";
  const std::string& picked = columns[below(random, columns.size())];
  const std::string oneRow = " WHERE rowid IN (SELECT rowid FROM " + table + " ORDER BY random() LIMIT 1)";
  switch (below(random, 16)) {
    case 0: return "DROP TABLE " + table;
    case 1: return "ALTER TABLE " + table + " DROP COLUMN " + quoted(picked);
    case 2: return "ALTER TABLE " + table + " RENAME COLUMN " + quoted(picked) + " TO other";
    case 3: return "ALTER TABLE " + table + " RENAME TO other";
    case 4: return "DELETE FROM " + table;
    case 5: case 6: return "DELETE FROM " + table + oneRow;
    case 7: case 8: return "INSERT OR IGNORE INTO " + table + " SELECT * FROM " + table + oneRow;
    case 9: return "UPDATE OR IGNORE " + table + " SET " + quoted(picked) + " = " + value(random, picked);
    default: return "UPDATE OR IGNORE " + table + " SET " + quoted(picked) + " = " + value(random, picked) + oneRow;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  if (below(random, 4) == 0) return LLVMFuzzerMutate(data, size, most);
  sqlite3* opened = nullptr;
  const int status = sqlite3_open(":memory:", &opened);
  const Database database(opened, &sqlite3_close);
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(size + 1));
  if (status != SQLITE_OK || !copy) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(copy, data, size);
  const unsigned flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE;
  if (sqlite3_deserialize(opened, "main", copy, static_cast<sqlite3_int64>(size), static_cast<sqlite3_int64>(size), flags) != SQLITE_OK)
    return LLVMFuzzerMutate(data, size, most);
  for (std::size_t left = 1 + below(random, 3); left > 0; --left)
    sqlite3_exec(opened, change(random, opened).c_str(), nullptr, nullptr, nullptr);  // some fail, by design
  sqlite3_int64 length = 0;
  unsigned char* changed = sqlite3_serialize(opened, "main", &length, 0);
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> owned(changed, &sqlite3_free);
  if (!changed || length <= 0 || static_cast<std::size_t>(length) > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed, static_cast<std::size_t>(length));
  return static_cast<std::size_t>(length);
}
