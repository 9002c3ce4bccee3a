// SPDX-License-Identifier: Apache-2.0
#include "core/session/rule_file.h"

#include <algorithm>

#include "core/session/toml_place.h"

namespace spscope::session {
namespace {

const std::vector<std::string> kKeys{"name", "dims", "whole", "ordered", "sum", "equivalent"};

/// One table [[op]] of the file.
class Reader {
 public:
  Reader(const std::string& path, const toml::table& table) : path_(path), table_(table) {}

  Result<ir::OpRule> rule() const {
    for (const auto& [key, value] : table_)
      if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end()) {
        Error e = errorAtToml("rule-key", "'" + std::string(key.str()) + "' is no part of a rule", path_, key.source());
        e.legal = nearest(key.str(), kKeys);
        if (e.legal.empty()) e.legal = join(kKeys, ", ");
        return e;
      }
    SP_ASSIGN(const std::string name, text("name"));
    SP_ASSIGN(const std::string dims, text("dims"));
    Result<ir::OpRule> parsed = ir::parseDims(dims);
    if (!parsed) return placed(std::move(parsed).error(), "dims");
    ir::OpRule out = std::move(*parsed);
    SP_ASSIGN(out.op, symbol(name));
    SP_ASSIGN(out.whole, list("whole"));
    SP_ASSIGN(out.ordered, list("ordered"));
    SP_ASSIGN(out.sum, list("sum"));
    if (table_.contains("equivalent")) {
      SP_ASSIGN(out.equivalent, text("equivalent"));
    }
    if (const Status sound = ir::checkRule(out); !sound) return placed(sound.error(), "dims");
    out.place = strf("%s:%u", path_.c_str(), table_.source().begin.line);
    return out;
  }

 private:
  Error placed(Error e, const char* key) const {
    const toml::node* node = table_.get(key);
    const toml::source_region& where = node ? node->source() : table_.source();
    e.source = strf("%s:%u:%u", path_.c_str(), where.begin.line, where.begin.column);
    return e;
  }

  Result<std::string> text(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return placed(makeError("rule-value", std::string("the rule has no ") + key, Outcome::kUsage), key);
    if (!node->is_string()) return placed(makeError("rule-value", std::string(key) + " is no text", Outcome::kUsage), key);
    return node->as_string()->get();
  }

  Result<std::vector<std::string>> list(const char* key) const {
    std::vector<std::string> out;
    const toml::node* node = table_.get(key);
    if (node == nullptr) return out;
    const Error wrong = placed(makeError("rule-value", std::string(key) + " is no list of names: write [\"s\"]", Outcome::kUsage), key);
    if (!node->is_array()) return wrong;
    for (const toml::node& entry : *node->as_array()) {
      if (!entry.is_string()) return wrong;
      out.push_back(entry.as_string()->get());
    }
    return out;
  }

  /// "mylib::fused_rope" and "mylib.fused_rope.default" are the graph's mylib.fused_rope.default.
  Result<Symbol> symbol(std::string name) const {
    if (const std::size_t colons = name.find("::"); colons != std::string::npos) {
      name.replace(colons, 2, ".");
      if (std::count(name.begin(), name.end(), '.') == 1) name += ".default";
    }
    const std::vector<std::string> parts = split(name, '.');
    const bool empty = std::any_of(parts.begin(), parts.end(), [](const std::string& p) { return p.empty(); });
    if (parts.size() != 3 || empty) return placed(makeError("rule-value", "'" + name + "' is no name of an op: write library::op", Outcome::kUsage), "name");
    if (parts[0] == "sp") return placed(makeError("rule-value", "the ops of sp:: are this program's own", Outcome::kUsage), "name");
    return Symbol(name);
  }

  const std::string& path_;
  const toml::table& table_;
};

}  // namespace

Result<ir::OpRulesRef> parseRules(const std::string& path, const std::string& text) {
  SP_ASSIGN(const toml::table file, parsedToml("rule-syntax", path, text));
  auto out = std::make_shared<ir::OpRules>();
  out->path = path;
  out->text = text;
  for (const auto& [key, node] : file) {
    const auto* tables = key.str() == "op" ? node.as_array() : nullptr;
    if (tables == nullptr) {
      Error e = errorAtToml("rule-key", "'" + std::string(key.str()) + "' is no part of a rule file", path, key.source());
      e.legal = "[[op]]";
      return e;
    }
    for (const toml::node& table : *tables) {
      if (!table.is_table()) return errorAtToml("rule-value", "a rule is a table: write [[op]]", path, table.source());
      SP_ASSIGN(ir::OpRule rule, Reader(path, *table.as_table()).rule());
      if (const ir::OpRule* other = out->find(rule.op))
        return errorAtToml("rule-value", rule.shownName() + " has a rule at " + other->place + " already", path, table.source());
      out->rules.push_back(std::move(rule));
    }
  }
  if (out->rules.empty()) return makeError("rule-value", path + " holds no rule", Outcome::kUsage);
  return ir::OpRulesRef(std::move(out));
}

Result<ir::OpRulesRef> readRules(const std::string& path) {
  SP_ASSIGN(const std::string text, smallToml("rule-syntax", path, "a rule file"));
  return parseRules(path, text);
}

}  // namespace spscope::session
