// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/schedule.h"

#include <map>

#include "core/base/strings.h"
#include "core/torch/program.h"

namespace spscope::session::debug {

Result<Schedule> Schedule::create(const std::vector<std::shared_ptr<const ir::Graph>>& programs) {
  Schedule out;
  out.programs_ = programs;
  std::map<const ir::Graph*, std::shared_ptr<const std::vector<bool>>> known;  // ranks of one class share a program
  for (std::size_t r = 0; r < programs.size(); ++r) {
    auto& collective = known[programs[r].get()];
    if (!collective) {
      exec::ProgramOptions options;
      options.rank = static_cast<int>(r);
      options.ranks = static_cast<int>(programs.size());
      SP_ASSIGN(const auto program, exec::Program::prepare(programs[r], options));
      auto flags = std::make_shared<std::vector<bool>>(program->nodeCount());
      for (std::size_t i = 0; i < flags->size(); ++i) (*flags)[i] = program->isCollective(i);
      collective = std::move(flags);
    }
    out.collective_.push_back(collective);
  }
  return out;
}

bool Schedule::meets(int rank, std::size_t place) const {
  const std::vector<bool>& flags = *collective_[static_cast<std::size_t>(rank)];
  return place < flags.size() && flags[place];
}

Status Schedule::move(Places& places) const {
  bool alone = false;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r] >= collective_[r]->size() || (*collective_[r])[places[r]]) continue;
    ++places[r];
    alone = true;
  }
  return alone ? Status() : meet(places);
}

Status Schedule::move(Places& places, int rank) const {
  std::size_t& place = places[static_cast<std::size_t>(rank)];
  if (!meets(rank, place)) {
    ++place;
    return {};
  }
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (meets(static_cast<int>(r), places[r])) continue;
    Error error = makeError("rank-waits", strf("a collective needs all ranks, and rank %zu has not come to it", r), Outcome::kRunFailed);
    const ir::Graph& g = *programs_[static_cast<std::size_t>(rank)];
    error.node = "%" + g.node(g.order[place]).name;
    return error;
  }
  return meet(places);
}

Status Schedule::meet(Places& places) const {
  const auto node = [&](std::size_t r) -> const ir::Node* {
    return places[r] < programs_[r]->order.size() ? &programs_[r]->node(programs_[r]->order[places[r]]) : nullptr;
  };
  for (std::size_t r = 0; r < places.size(); ++r) {
    const ir::Node *first = node(0), *of = node(r);
    if (first != nullptr && of != nullptr && first->op == of->op) continue;
    return makeError("rank-programs-differ", strf("rank 0 stands before %s, rank %zu %s", first == nullptr ? "its end" : first->op.str().c_str(), r,
                                                  of == nullptr ? "is through" : ("before " + of->op.str()).c_str()),
                     Outcome::kRunFailed);
  }
  for (std::size_t& place : places) ++place;
  return {};
}

}  // namespace spscope::session::debug
