// SPDX-License-Identifier: Apache-2.0
#include "passes/faults/fault.h"

#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/strings.h"

namespace spscope::passes {
namespace {

Error usage(std::string message) {
  Error error = makeError("usage", "--plant: " + std::move(message), Outcome::kUsage);
  std::vector<std::string> names;
  for (const FaultInfo& info : faultKinds()) names.emplace_back(info.name);
  error.legal = "KIND[@NODE][,rank=R][,pass=PASS][,seed=N] or random:SEED, where KIND is " + join(names, ", ");
  return error;
}

}  // namespace

const std::vector<FaultInfo>& faultKinds() {
  static const std::vector<FaultInfo> kinds = {
      {FaultKind::kDropCollective, "drop-collective", "a collective is left out: each rank goes on with what it has", {"schedule", "sync-gradients"}, false},
      {FaultKind::kDoubleCollective, "double-collective", "a sum over the ranks is taken twice", {"schedule", "sync-gradients"}, false},
      {FaultKind::kWrongOffset, "wrong-offset", "a slice does not start where the rank's block does", {"shard-sequence"}, false},
      {FaultKind::kWrongAxis, "wrong-axis", "a transpose is a reshape to the same shape", {"insert-all-to-all", "build-joint"}, false},
      {FaultKind::kIgnoreMask, "ignore-mask", "attention without its mask", {"lower-attention"}, false},
      {FaultKind::kHeadOrder, "head-order", "heads of keys in reverse order", {"insert-all-to-all"}, false},
      {FaultKind::kTileHeads, "tile-heads", "repeated heads of keys and values are tiled: 0 1 0 1 instead of 0 0 1 1", {"insert-all-to-all"}, false},
      {FaultKind::kNan, "nan", "one element of one rank's value is NaN", {"schedule"}, true},
      {FaultKind::kBitFlip, "bit-flip", "one bit of one element of one rank's value is flipped", {"schedule"}, true},
      {FaultKind::kWrongDerivative, "wrong-derivative", "a node of the backward by another formula", {"build-joint"}, false},
      {FaultKind::kShiftLabels, "shift-labels", "labels are shifted inside each rank's block", {"shard-sequence"}, false},
      {FaultKind::kMeanOfMeans, "mean-of-means", "each rank divides by its own count of labels, then the ranks are averaged", {"parallelize-loss"}, false},
      {FaultKind::kLocalAttention, "local-attention", "a placement rule lets attention be cut on the sequence", {"plan-sequence"}, false},
  };
  return kinds;
}

const FaultInfo& infoOf(FaultKind kind) {
  const auto& kinds = faultKinds();
  return *std::find_if(kinds.begin(), kinds.end(), [&](const FaultInfo& info) { return info.kind == kind; });
}

std::string Fault::text() const {
  if (random) return strf("random:%llu", static_cast<unsigned long long>(seed));
  std::string out(infoOf(kind).name);
  if (!node.empty()) out += "@" + node;
  if (rank >= 0) out += strf(",rank=%d", rank);
  if (!pass.empty()) out += ",pass=" + pass;
  if (seed != 0) out += strf(",seed=%llu", static_cast<unsigned long long>(seed));
  return out;
}

Result<Fault> parseFault(const std::string& text) {
  Fault out;
  constexpr std::string_view kRandom = "random:";
  if (text.starts_with(kRandom)) {
    out.random = true;
    if (!readNumber(std::string_view(text).substr(kRandom.size()), out.seed)) return usage(text + " has no number as its seed");
    return out;
  }
  const std::vector<std::string> parts = split(text, ',');
  const std::size_t at = parts[0].find('@');
  const std::string name = parts[0].substr(0, at);
  const auto& kinds = faultKinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const FaultInfo& info) { return info.name == name; });
  if (kind == kinds.end()) return usage("there is no fault " + name);
  out.kind = kind->kind;
  if (at != std::string::npos) out.node = parts[0].substr(at + 1);
  if (out.node.starts_with('%')) out.node.erase(0, 1);
  if (at != std::string::npos && out.node.empty()) return usage("no node behind the @ of " + text);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string key = parts[i].substr(0, equals), value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
    if (key == "pass") {
      out.pass = value;
      if (std::find(kind->passes.begin(), kind->passes.end(), value) == kind->passes.end())
        return usage(name + " is not made in the pass '" + value + "' but in " + join(std::vector<std::string>(kind->passes.begin(), kind->passes.end()), ", "));
    } else if (key == "rank") {
      if (!readNumber(value, out.rank) || out.rank < 0) return usage(parts[i] + ": which rank?");
    } else if (key == "seed") {
      if (!readNumber(value, out.seed)) return usage(parts[i] + " is no number");
    } else {
      return usage(parts[i] + " is not understood");
    }
  }
  return out;
}

}  // namespace spscope::passes
