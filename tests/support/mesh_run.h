// SPDX-License-Identifier: Apache-2.0
// Trainings on meshes: one model, its batches, and a run of them with everything that is compared.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/session/run.h"
#include "core/torch/compare.h"
#include "core/torch/tensor_store.h"

namespace spscope::mesh {

/// A folder that goes with the test.
struct Folder {
  std::string path = testing::TempDir() + "spscope-mesh-XXXXXX";
  Folder() {
    if (!mkdtemp(path.data())) ADD_FAILURE() << "no temporary folder";
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

struct Training {
  std::string path;
  std::vector<std::string> inputs;
  int dp = 1, sp = 1, zero = 0, accumulate = 1;
  double clip = 0.0;
  std::int64_t steps = 3, batch = 4, seq = 0;
  std::string ranks = "virtual", optimizer = "adamw", save_to, resume;
  std::optional<ir::DType> dtype = ir::DType::kF64;
  double lr = 1e-3;
  bool master_weights = true, wide_gradients = true;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

inline session::OpenRequest openOf(const Training& t) {
  session::OpenRequest open;
  open.path = t.path;
  open.dtype = t.dtype;
  open.batch = t.batch;
  open.seq = t.seq;
  return open;
}

inline Result<session::RunOutcome> tryTrain(const Training& t) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::RunRequest run;
  run.open = openOf(t);
  run.settings.batch = t.batch;
  run.settings.seq = t.seq;
  run.settings.dp = t.dp;
  run.settings.sp = t.sp;
  run.settings.zero = t.zero;
  run.settings.accumulate = t.accumulate;
  run.settings.optimizer = t.optimizer;
  run.settings.bucket_bytes = t.bucket_bytes;
  run.data.inputs = t.inputs;
  run.ranks = t.ranks;
  run.clip = t.clip;
  run.lr = t.lr;
  run.settings.master_weights = t.master_weights;
  run.settings.wide_gradients = t.wide_gradients;
  run.steps = t.steps;
  run.save_to = t.save_to;
  run.resume = t.resume;
  run.timeout_seconds = 100;
#ifdef SPSCOPE_PROGRAM
  run.program = SPSCOPE_PROGRAM;
#endif
  SP_ASSIGN(session::RunOutcome outcome, session::run(run, request));
  if (outcome.failure) return outcome.failure->error;
  return outcome;
}

inline session::RunOutcome train(const Training& t) {
  auto outcome = tryTrain(t);
  if (!outcome) {
    ADD_FAILURE() << t.dp << "x" << t.sp << " zero " << t.zero << ": " << outcome.error().format();
    return {};
  }
  return std::move(*outcome);
}

/// Largest |a - b| over the largest |b| of each tensor; infinity where names differ.
inline double distance(const std::string& a, const std::string& b) {
  const auto x = exec::loadBag(a), y = exec::loadBag(b);
  if (!x || !y || x->names() != y->names()) return INFINITY;
  double worst = 0.0;
  for (const std::string& name : y->names()) {
    const auto p = x->values(name).value(), q = y->values(name).value();
    if (p.size() != q.size()) return INFINITY;
    double most = 1e-300, off = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) most = std::max(most, std::abs(q[i])), off = std::max(off, std::abs(p[i] - q[i]));
    if (!(off / most <= worst)) worst = off / most;
  }
  return worst;
}

/// `count` batches of `rows` rows, seeded, with few valid labels: rows and shards without any, none at the same place twice.
inline std::vector<std::string> unevenBatches(const Training& t, std::int64_t rows, int count, const std::string& folder, std::uint64_t seed = 1) {
  std::vector<std::string> out;
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::OpenRequest open = openOf(t);
  open.batch = rows;
  const auto model = session::open(open, request);
  if (!model) {
    ADD_FAILURE() << model.error().format();
    return out;
  }
  for (int k = 0; k < count; ++k) {
    exec::TensorBag bag = exec::seedInputs(*(*model)->graph, seed + static_cast<std::uint64_t>(k));
    if (bag.contains("labels")) {
      const auto shape = bag.entry("labels")->shape;
      const std::vector<double> values = bag.values("labels").value();
      std::vector<std::int64_t> labels;
      const std::int64_t length = shape.back();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::int64_t row = static_cast<std::int64_t>(i) / length, at = static_cast<std::int64_t>(i) % length;
        // Row 0 all; row 1 only its beginning; row 2 none; row 3 every fifth, from a place that moves with the batch.
        const bool valid = (row + k) % 4 == 0 || ((row + k) % 4 == 1 && at < length / 3) || ((row + k) % 4 == 3 && at % 5 == k % 5);
        labels.push_back(valid ? static_cast<std::int64_t>(values[i]) : -100);
      }
      bag.erase("labels");
      EXPECT_TRUE(bag.add("labels", ir::DType::kI64, shape, std::as_bytes(std::span(labels))));
    }
    out.push_back(folder + "/batch" + std::to_string(rows) + "-" + std::to_string(k) + ".safetensors");
    const Status saved = exec::saveBag(bag, out.back());
    EXPECT_TRUE(saved) << (saved ? "" : saved.error().format());
  }
  return out;
}

/// The rows of several batches in one file.
inline std::string joined(const std::vector<std::string>& files, const std::string& path) {
  exec::TensorBag out;
  std::vector<exec::TensorBag> bags;
  for (const std::string& f : files) bags.push_back(exec::loadBag(f).value());
  for (const std::string& name : bags[0].names()) {
    const auto entry = bags[0].entry(name).value();
    ir::Dims shape = entry.shape;
    std::vector<std::int64_t> all;
    for (const exec::TensorBag& bag : bags) {
      const std::vector<double> values = bag.values(name).value();
      for (const double v : values) all.push_back(static_cast<std::int64_t>(v));
    }
    shape[0] = shape[0] * static_cast<std::int64_t>(bags.size());
    EXPECT_EQ(entry.dtype, ir::DType::kI64);
    EXPECT_TRUE(out.add(name, entry.dtype, shape, std::as_bytes(std::span(all))));
  }
  EXPECT_TRUE(exec::saveBag(out, path));
  return path;
}

}  // namespace spscope::mesh
