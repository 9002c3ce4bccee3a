// SPDX-License-Identifier: Apache-2.0
// The worst figures over the tests of a program, printed when it ends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

namespace spscope::zoo {

/// Table of group ("zoo, P = 2") against the largest relative errors met.
class WorstFigures : public testing::Environment {
 public:
  void add(const std::string& group, double loss, double gradient, const std::string& model) {
    Row& row = rows_[group];
    ++row.models;
    row.loss = std::max(row.loss, loss);
    if (gradient >= row.gradient) row.gradient = gradient, row.model = model;
  }
  void TearDown() override {
    for (const auto& [group, row] : rows_)
      std::printf("[ WORST    ] %-34s %3d models   loss %.1e   gradient %.1e (%s)\n", group.c_str(), row.models, row.loss,
                  row.gradient, row.model.c_str());
  }
  /// The program's table; gtest owns it.
  static WorstFigures& table() {
    static auto* const it = static_cast<WorstFigures*>(testing::AddGlobalTestEnvironment(new WorstFigures));
    return *it;
  }

 private:
  struct Row {
    int models = 0;
    double loss = 0.0, gradient = 0.0;
    std::string model;
  };
  std::map<std::string, Row> rows_;
};

}  // namespace spscope::zoo
