// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/tape.h"

#include <algorithm>

namespace spscope::session::debug {

const ir::Node* Tape::next(int rank) const {
  const ir::Graph& g = graph(rank);
  const std::size_t place = places_[static_cast<std::size_t>(rank)];
  return place < g.order.size() ? &g.node(g.order[place]) : nullptr;
}

bool Tape::done() const {
  for (int r = 0; r < size(); ++r)
    if (places_[static_cast<std::size_t>(r)] < graph(r).order.size()) return false;
  return true;
}

Result<bool> Tape::live(int rank, ir::ValueId id) {
  const auto found = value(rank, id);
  if (found || found.error().code == "value-not-live") return found.has_value();
  return found.error();
}

Result<exec::ValueScan> Tape::scan(int rank, ir::ValueId id, std::size_t places) {
  SP_ASSIGN(const exec::TensorBag bag, value(rank, id));
  return exec::scanValue(bag, places);
}

Result<std::size_t> Tape::makerOf(int rank, ir::ValueId value) const {
  const ir::Graph& g = graph(rank);
  const ir::NodeId producer = g.value(value).producer;
  const auto at = std::find(g.order.begin(), g.order.end(), producer);
  if (producer == ir::kNone || at == g.order.end()) return makeError("value-not-live", "%" + g.value(value).name + " is not computed by this program");
  return static_cast<std::size_t>(at - g.order.begin());
}

}  // namespace spscope::session::debug
