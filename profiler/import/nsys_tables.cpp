// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/nsys_tables.h"

#include <algorithm>
#include <cctype>

#include "core/base/strings.h"

namespace spscope::trace {
namespace {

std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

Result<NsysTables> NsysTables::open(Database& database) {
  NsysTables out(database);
  std::vector<std::string> names;
  {
    // Views and virtual tables could run code of the file's choosing.
    SP_ASSIGN(Statement statement, database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"));
    while (true) {
      SP_ASSIGN(const bool more, statement.next());
      if (!more) break;
      names.emplace_back(statement.text(0));
    }
  }
  for (const std::string& name : names) {
    auto statement = database.prepare("SELECT name FROM pragma_table_info(?)");
    if (!statement) continue;
    statement->bind(name);
    std::vector<std::string> columns;
    for (auto more = statement->next(); more && *more; more = statement->next()) columns.emplace_back(statement->text(0));
    out.tables_.emplace(name, std::move(columns));
  }
  return out;
}

std::string NsysTables::find(std::string_view base) const {
  std::string best;
  int best_version = -1;
  for (const auto& [name, columns] : tables_) {
    if (name.compare(0, base.size(), base) != 0) continue;
    const std::string_view rest = std::string_view(name).substr(base.size());
    int version = 0;
    if (!rest.empty()) {
      if (rest.size() < 3 || rest.size() > 8 || rest.substr(0, 2) != "_V" || !std::all_of(rest.begin() + 2, rest.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
      version = std::stoi(std::string(rest.substr(2)));
    }
    if (version > best_version) best_version = version, best = name;
    asked_.insert(name);
  }
  return best;
}

std::vector<std::string> NsysTables::columnsOf(std::string_view base) const {
  const auto it = tables_.find(find(base));
  return it == tables_.end() ? std::vector<std::string>() : it->second;
}

std::vector<std::string> NsysTables::unread() {
  std::vector<std::string> out;
  for (const auto& [name, columns] : tables_) {
    if (asked_.count(name) != 0 || std::find(columns.begin(), columns.end(), "start") == columns.end()) continue;
    auto statement = database_->prepare("SELECT count(*) FROM " + quoted(name));
    if (!statement) continue;
    const auto more = statement->next();
    if (more && *more && statement->integer(0) > 0) out.push_back(name + " (" + std::to_string(statement->integer(0)) + " rows)");
  }
  return out;
}

Result<bool> NsysTables::each(std::string_view base, const std::vector<std::string_view>& columns, Problems& problems, const CancelToken& cancel,
                              const std::function<void(Statement&, std::int64_t)>& row) {
  const std::string table = find(base);
  if (table.empty()) return false;
  const std::vector<std::string>& there = tables_.at(table);
  std::vector<std::string> chosen;
  for (std::string_view wanted : columns) {
    const bool optional = wanted.substr(0, 1) == "?";
    if (optional) wanted.remove_prefix(1);
    std::string found = "NULL";
    for (const std::string& name : split(wanted, '|')) {
      const auto it = std::find_if(there.begin(), there.end(), [&](const std::string& c) { return lower(c) == lower(name); });
      if (found == "NULL" && it != there.end()) found = quoted(*it);
    }
    if (found == "NULL" && !optional) problems.count(Problem::kMissingTable, table + "." + std::string(wanted));
    chosen.push_back(std::move(found));
  }
  auto statement = database_->prepare("SELECT " + join(chosen, ", ") + " FROM " + quoted(table));
  if (!statement) {
    problems.count(Problem::kMissingTable, table);
    return true;
  }
  for (std::int64_t number = 1;; ++number) {
    if (++rows_ % (1 << 15) == 0) {
      SP_TRY(cancel.check());
      if (on_rows) on_rows(rows_);
    }
    const auto more = statement->next();
    if (!more) problems.count(Problem::kTruncated, table + " row " + std::to_string(number));
    if (!more || !*more) return true;
    row(*statement, number);
  }
}

}  // namespace spscope::trace
