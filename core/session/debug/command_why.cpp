// SPDX-License-Identifier: Apache-2.0
// Commands that ask for reasons.
#include "core/base/numbers.h"
#include "core/session/debug/command_work.h"
#include "passes/memory/save_policy.h"

namespace spscope::session::debug {
namespace {

Status why(Work& w) {
  SP_ASSIGN(w.out.about, w.takeValue());
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.why, w.debugger.why(w.out.about));
  return {};
}

Status whatif(Work& w) {
  using Kind = WhatIfQuestion::Kind;
  WhatIfQuestion question;
  std::string first = w.take();
  const std::string second = w.take();
  if (second.empty()) return w.usage("what should be otherwise?");
  if (first == "save") {
    question.kind = Kind::kPolicy;
    question.policy = second;
    SP_TRY(passes::parseSavePolicy(second));
  } else if (first == "sp") {
    question.kind = Kind::kRanks;
    const auto ranks = numberIn<std::int64_t>(second);
    if (!ranks || *ranks < 1 || *ranks > 4096) return w.usage(second + " is no number of ranks");
    question.ranks = static_cast<int>(*ranks);
  } else {
    question.name = first.substr(first.starts_with('%') ? 1 : 0);
    if (second == "save") question.kind = Kind::kSave;
    else if (second == "recompute") question.kind = Kind::kRecompute;
    else if (second == "whole" || second == "replicated" || second == "gather") question.kind = Kind::kWhole;
    else if (second == "shard") question.kind = Kind::kShard;
    else return w.usage("what is " + second + "?");
    if (question.kind == Kind::kShard) {
      const std::string dim = w.take();
      const auto number = numberIn<std::int64_t>(dim);
      if (!number || *number < -64 || *number > 64) return w.usage(dim + " is no dimension");
      question.dim = static_cast<int>(*number);
    }
  }
  SP_TRY(w.nothingLeft());
  if (w.debugger.compiled() == nullptr) SP_TRY(haveOrigin(nullptr));
  SP_ASSIGN(w.out.what_if, whatIf(question, w.debugger.graph(0), *w.debugger.compiled(), w.debugger.origin(), w.debugger.request()));
  return {};
}

}  // namespace

std::vector<Command> whyCommands() {
  return {
      {{"why", "y", "%NAME", "why it is placed so, exchanged, kept, this large; which pass made it, from what"}, why},
      {{"whatif", "", "%NAME save|recompute|whole|shard DIM, or save POLICY, or sp N", "compile again with one thing marked otherwise, and what that changes"}, whatif},
  };
}

}  // namespace spscope::session::debug
