// SPDX-License-Identifier: Apache-2.0
// Findings that do not stop the work: warnings and remarks with a code and a place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace spscope {

enum class Severity : std::uint8_t { kRemark, kWarning, kError };

struct Diagnostic {
  Severity severity = Severity::kWarning;
  std::string code;
  std::string message;
  std::string node;
  std::string source;
  std::string remedy;
};

/// Collects findings in the order in which they were made. Not thread-safe: one per request.
class DiagnosticSink {
 public:
  void warn(std::string_view code, std::string message, std::string node = {}, std::string source = {},
            std::string remedy = {});
  void remark(std::string_view code, std::string message, std::string node = {}, std::string source = {});
  const std::vector<Diagnostic>& all() const { return all_; }
  void append(const DiagnosticSink& other) { all_.insert(all_.end(), other.all_.begin(), other.all_.end()); }

 private:
  std::vector<Diagnostic> all_;
};

}  // namespace spscope
