// SPDX-License-Identifier: Apache-2.0
#include "tests/support/zoo.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "core/torch/compare.h"
#include "core/torch/tensor_store.h"
#include "tests/support/temp_folder.h"

namespace spscope::zoo {
namespace {

Json readJson(const std::string& path) {
  std::ifstream in(path);
  Json json = Json::parse(in, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error("not readable: " + path);
  return json;
}

/// Larger of the two; a value that is no number is larger than all.
void raise(double& most, std::string& worst, double value, const std::string& name) {
  if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
  if (value > most || worst.empty()) most = std::max(most, value), worst = name;
}

}  // namespace

std::string folder(bool stress) {
  return std::string(SPSCOPE_SOURCE_DIR) + (stress ? "/tests/data/stress/" : "/tests/data/zoo/");
}

const Json& manifest(bool stress) {
  static const std::map<bool, Json> both{{false, readJson(folder(false) + "manifest.json")},
                                         {true, readJson(folder(true) + "manifest.json")}};
  return both.at(stress)["models"];
}

std::vector<std::string> names(bool stress) {
  std::vector<std::string> out;
  for (const Json& model : manifest(stress)) out.push_back(model["name"].get<std::string>());
  return out;
}

Json reference(const std::string& name, bool stress) { return readJson(folder(stress) + name + ".ref.json"); }

Distance distance(double loss, const exec::TensorBag& gradients, const Json& reference, const std::string& type) {
  Distance out;
  out.loss = exec::relativeError(loss, reference.at("loss_" + type).get<double>());
  double total = 0.0;
  for (const auto& [name, entry] : reference["grads"].items())
    if (!entry.is_null() && entry.contains(type) && !entry[type].is_null()) total += std::pow(entry[type]["norm"].get<double>(), 2);
  total = std::sqrt(total);
  for (const auto& [name, entry] : reference["grads"].items()) {
    if (entry.is_null() || !entry.contains(type) || entry[type].is_null()) continue;  // tied: the other name has all of it
    const Json& want = entry[type];
    exec::TensorStatistics got;
    std::vector<double> values(want["idx"].size(), 0.0);
    if (gradients.contains(name)) {
      got = exec::statistics(gradients, name).value();
      values = exec::elements(gradients, name, want["idx"].get<std::vector<std::int64_t>>()).value();
    }
    const double norm = std::max(want["norm"].get<double>(), 1e-6 * total);
    const auto look = [&](double a, double b, const char* figure) {
      raise(out.gradient, out.worst, std::abs(a - b) / norm, name + " " + figure);
    };
    look(got.norm, want["norm"].get<double>(), "norm");
    look(got.sum, want["sum"].get<double>(), "sum");
    look(got.absmax, want["absmax"].get<double>(), "absmax");
    look(got.dot_sin, want["dot_sin"].get<double>(), "dot_sin");
    for (std::size_t i = 0; i < values.size(); ++i) look(values[i], want["val"][i].get<double>(), "value");
    ++out.gradients;
  }
  return out;
}

Case caseOf(const std::string& name, int sp, bool stress) {
  Case out;
  out.path = folder(stress) + name + ".pt2";
  out.inputs = {folder(stress) + name + ".inputs.safetensors"};
  out.sp = sp;
  return out;
}

Result<Verified> verify(const Case& what) {
  Verified out;
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::VerifyRequest verify;
  verify.open.path = what.path;
  verify.open.seq = what.seq;
  verify.open.batch = what.batch;
  verify.open.dtype = what.dtype;
  verify.open.sequence_marks = verify.settings.sequence_marks = what.marks;
  verify.settings.sp = what.sp;
  verify.settings.dp = what.dp;
  verify.settings.zero = what.zero;
  verify.settings.save = what.save;
  verify.settings.rules = what.rules;
  verify.settings.seq = what.seq;
  verify.settings.batch = what.batch;
  verify.data.inputs = what.inputs;
  verify.data.seed = what.seed;
  verify.data.seed_weights = what.seed_weights;
  verify.ranks = what.ranks;
  verify.settings.tile_loss = what.tile_bytes != 0;
  if (what.tile_bytes != 0) verify.settings.tile_bytes = what.tile_bytes;
  const TempFolder scratch;
  verify.grads_path = scratch.path("grads.safetensors");
  SP_ASSIGN(const auto model, session::open(verify.open, request));
  SP_ASSIGN(out.outcome, session::verify(*model, verify, request));
  SP_ASSIGN(out.gradients, exec::loadBag(verify.grads_path));
  for (const Diagnostic& d : diagnostics.all())
    if (d.severity == Severity::kWarning) out.warnings.push_back(d.code);
  return out;
}

void expectEqual(const Verified& v) {
  const auto& o = v.outcome;
  EXPECT_TRUE(o.equal) << "loss " << o.loss << " instead of " << o.reference_loss << "; worst gradient " << o.gradients.worst
                       << " off by " << o.gradients.rel_max << " on rank " << o.worst_rank;
  EXPECT_EQ(o.compiled.figures.inserted_all_to_all, o.compiled.figures.expected_all_to_all);
  EXPECT_FALSE(o.gradients.parameters.empty());
  EXPECT_GT(o.gradients.total_norm, 0.0);
}

}  // namespace spscope::zoo
