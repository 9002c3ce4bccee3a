// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. The one place that names the expected<> library.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "core/base/error.h"

namespace spscope {

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

using Status = Result<void>;

}  // namespace spscope

#define SP_CONCAT_INNER(a, b) a##b
#define SP_CONCAT(a, b) SP_CONCAT_INNER(a, b)

/// Leaves the function with the error when `expr` failed.
#define SP_TRY(expr)                                      \
  do {                                                    \
    if (auto sp_status = (expr); !sp_status)              \
      return std::move(sp_status).error();                \
  } while (false)

/// `SP_ASSIGN(auto x, f())`: x is f()'s value, or the function returns its error.
#define SP_ASSIGN(lhs, expr) SP_ASSIGN_INNER(lhs, expr, SP_CONCAT(sp_result_, __LINE__))
#define SP_ASSIGN_INNER(lhs, expr, tmp)           \
  auto tmp = (expr);                              \
  if (!tmp) return std::move(tmp).error();        \
  lhs = std::move(*tmp)
