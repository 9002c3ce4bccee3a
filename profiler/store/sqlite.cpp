// SPDX-License-Identifier: Apache-2.0
#include "profiler/store/sqlite.h"

#include <sqlite3.h>

#include <cstring>
#include <filesystem>

#include "core/base/strings.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {
namespace {

/// A file name as the URI that SQLite wants for "immutable".
std::string uriOf(const std::string& path) {
  std::string out = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') out += strf("%%%02x", static_cast<unsigned char>(c));
    else out += c;
  }
  return out + "?immutable=1";
}

}  // namespace

void Database::Closer::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
void Statement::Closer::operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }

Error Database::error(std::string_view doing) const {
  const int code = sqlite3_errcode(handle_.get());
  std::string why = sqlite3_errmsg(handle_.get());
  if (code == SQLITE_FULL) why = "the disk is full";
  const int reason = code == SQLITE_IOERR ? sqlite3_system_errno(handle_.get()) : 0;
  if (reason != 0) why += std::string(" (") + std::strerror(reason) + ")";
  return makeError(writes_ ? "file-unwritable" : "trace-unreadable", path_ + ": " + std::string(doing) + ": " + why,
                   writes_ ? Outcome::kNo : Outcome::kRefused);
}

Result<Database> Database::openToRead(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) return makeError("file-missing", path + " does not exist");
  if (std::filesystem::is_directory(status)) return makeError("file-is-folder", path + " is a folder");
  Database out;
  out.path_ = path;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(uriOf(path).c_str(), &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return makeError("file-unreadable", path + ": " + sqlite3_errstr(code));
  SP_TRY(out.distrust());
  return out;
}

Result<Database> Database::ofBytes(std::span<const std::byte> bytes, const std::string& name) {
  Database out;
  out.path_ = name;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return makeError("file-unreadable", name + ": " + sqlite3_errstr(code));
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));  // READONLY: not written
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  if (sqlite3_deserialize(handle, "main", data, size, size, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) return out.error("opening failed");
  SP_TRY(out.distrust());
  return out;
}

Status Database::distrust() {
  // Nothing in a foreign schema may call functions, and a damaged one may not be used to write; texts of gigabytes are none.
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(handle_.get(), SQLITE_LIMIT_LENGTH, 64 << 20);
  return run("SELECT count(*) FROM sqlite_master");  // opening reads nothing yet
}

Result<Database> Database::create(const std::string& path) {
  Database out;
  out.path_ = path;
  out.writes_ = true;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return makeError("file-unwritable", path + ": " + sqlite3_errstr(code), Outcome::kNo);
  SP_TRY(out.run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-16384"));
  return out;
}

Status Database::run(std::string_view sql) {
  if (sqlite3_exec(handle_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return error("statement failed");
}

Result<Statement> Database::prepare(std::string_view sql) {
  Statement out;
  out.database_ = this;
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return error("statement failed");
  return out;
}

bool Database::hasTable(std::string_view name) {
  auto statement = prepare("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?");
  if (!statement) return false;
  const auto row = statement->bind(name).next();
  return row && *row;
}

Status Database::close() {
  const int code = sqlite3_close(handle_.get());
  if (code != SQLITE_OK) return error("closing failed");
  handle_.release();
  return {};
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(handle_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(double value) {
  sqlite3_bind_double(handle_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  // An empty view may have no address, which SQLite takes for NULL.
  sqlite3_bind_text64(handle_.get(), ++bound_, text.empty() ? "" : text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bindNull() {
  sqlite3_bind_null(handle_.get(), ++bound_);
  return *this;
}

Statement& Statement::bindKnown(std::int64_t value) { return value == kUnknown ? bindNull() : bind(value); }

Status Statement::run() {
  const int code = sqlite3_step(handle_.get());
  const bool fine = code == SQLITE_DONE;
  Status out;
  if (!fine) out = database_->error("writing failed");
  sqlite3_reset(handle_.get());
  bound_ = 0;
  return out;
}

Result<bool> Statement::next() {
  const int code = sqlite3_step(handle_.get());
  bound_ = 0;
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(handle_.get());
    return false;
  }
  return database_->error("reading failed");
}

bool Statement::isNull(int column) const { return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL; }
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
std::int64_t Statement::known(int column) const {
  const int type = sqlite3_column_type(handle_.get(), column);
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT ? integer(column) : kUnknown;
}
double Statement::real(int column) const { return sqlite3_column_double(handle_.get(), column); }
std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return text ? std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))) : std::string_view();
}

}  // namespace spscope::trace
