// SPDX-License-Identifier: Apache-2.0
#include "core/torch/virtual_snapshot.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <set>
#include <unordered_map>

namespace spscope::exec {
namespace {

const void* storageOf(const at::Tensor& t) { return t.storage().unsafeGetStorageImpl(); }

/// Copies of storages, and tensors moved over to them with the windows that they had.
class Copies {
 public:
  void add(const at::Tensor& t) {
    if (!t.defined()) return;
    at::Tensor& copy = copies_[storageOf(t)];
    if (copy.defined()) return;
    const auto bytes = static_cast<std::int64_t>(t.storage().nbytes());
    copy = at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
    if (bytes > 0) std::memcpy(copy.mutable_data_ptr(), t.storage().data(), static_cast<std::size_t>(bytes));
  }
  void moveOver(at::Tensor& t) const {
    if (!t.defined()) return;
    const auto it = copies_.find(storageOf(t));
    if (it == copies_.end()) return;
    at::Tensor moved = at::empty({0}, t.options());
    moved.set_(it->second.storage(), t.storage_offset(), t.sizes(), t.strides());
    t = std::move(moved);
  }

 private:
  std::unordered_map<const void*, at::Tensor> copies_;
};

/// Gives the snapshot memory of its own wherever the program, going on from it, would write into a value.
void separate(VirtualSnapshot& s, const RankStates& states) {
  Copies copies;
  for (const StartedExchange& x : s.started)
    for (const auto& part : x.parts)
      for (const Transfer& t : part)
        if (!x.moved) copies.add(t.receive);
  for (std::size_t r = 0; r < states.size(); ++r)
    for (const Program::Impl::Exchange& x : states[r]->program().impl().exchanges)
      for (std::size_t p = 0; p < x.parts.size(); ++p)
        if (x.in_place[p] != 0) copies.add(s.values[r][static_cast<std::size_t>(x.inputs[p])]);
  for (auto& values : s.values)
    for (at::Tensor& t : values) copies.moveOver(t);
  for (StartedExchange& x : s.started)
    for (auto& part : x.parts)
      for (Transfer& t : part) copies.moveOver(t.send), copies.moveOver(t.receive);
}

}  // namespace

std::int64_t bytesOf(const VirtualSnapshot& snapshot) { return snapshot.bytes; }

std::shared_ptr<const VirtualSnapshot> takeSnapshot(const RankStates& states, const std::vector<std::size_t>& positions, const std::vector<at::Tensor>& generators,
                                                    const std::vector<StartedExchange>& started, std::int64_t sequence) {
  const auto out = std::make_shared<VirtualSnapshot>();
  for (const auto& state : states) out->values.push_back(state->values);
  out->positions = positions;
  for (const at::Tensor& g : generators) out->generators.push_back(g.defined() ? g.clone() : g);
  out->started = started;
  out->sequence = sequence;
  separate(*out, states);
  std::set<const void*> counted;
  for (std::size_t r = 0; r < states.size(); ++r) {
    for (const ir::Input& input : states[r]->program().graph().inputs)
      if (const at::Tensor& t = out->values[r][static_cast<std::size_t>(input.value)]; t.defined()) counted.insert(storageOf(t));
  }
  for (const auto& values : out->values)
    for (const at::Tensor& t : values)
      if (t.defined() && counted.insert(storageOf(t)).second) out->bytes += static_cast<std::int64_t>(t.storage().nbytes());
  return out;
}

void putBack(const VirtualSnapshot& snapshot, RankStates& states, std::vector<std::size_t>& positions, std::vector<at::Tensor>& generators,
             std::vector<StartedExchange>& started, std::int64_t& sequence) {
  VirtualSnapshot own = snapshot;
  separate(own, states);
  for (std::size_t r = 0; r < states.size(); ++r) states[r]->values = std::move(own.values[r]);
  positions = own.positions;
  for (std::size_t r = 0; r < generators.size(); ++r) generators[r] = own.generators[r].defined() ? own.generators[r].clone() : at::Tensor();
  started = std::move(own.started);
  sequence = own.sequence;
}

}  // namespace spscope::exec
