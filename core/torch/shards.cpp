// SPDX-License-Identifier: Apache-2.0
#include "core/torch/shards.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {

dist::Buffer bufferOf(const at::Tensor& t) { return {t.numel() == 0 ? nullptr : t.mutable_data_ptr(), t.numel(), toDType(t.scalar_type())}; }

at::Tensor blockOf(const at::Tensor& flat, const ir::Dims& blocks, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return flat.narrow(0, ir::offsetsOf(blocks)[r], blocks[r]);
}

template <typename F>
auto guarded(const char* what, F&& f) -> decltype(f()) {
  const c10::InferenceMode inference;
  try {
    return f();
  } catch (const std::exception& e) {
    return makeError("op-failed", std::string(what) + ": " + split(e.what(), '\n').front(), Outcome::kRunFailed);
  }
}

}  // namespace

Result<std::int64_t> gatherParameters(const TensorBag& parameters, const std::vector<std::string>& names, dist::Collectives& group,
                                      std::int64_t bucket_bytes) {
  return guarded("parameters", [&]() -> Result<std::int64_t> {
    std::int64_t sent = 0, held = 0;
    std::vector<dist::CollectivePart> parts;
    const auto flush = [&]() -> Status {
      if (!parts.empty()) SP_TRY(group.runAll(dist::CollectiveKind::kAllGather, parts));
      parts.clear();
      held = 0;
      return {};
    };
    for (const std::string& name : names) {
      const at::Tensor flat = parameters.impl().tensors[static_cast<std::size_t>(parameters.impl().find(name))].view({-1});
      const ir::Dims blocks = ir::shardBlocks(flat.numel(), group.size());
      const at::Tensor mine = blockOf(flat, blocks, group.rank());
      const auto bytes = static_cast<std::int64_t>(flat.nbytes());
      if (held > 0 && held + bytes > bucket_bytes) SP_TRY(flush());
      dist::CollectivePart part;
      part.send = bufferOf(mine);
      part.recv = bufferOf(flat);
      part.recv_counts = blocks;
      parts.push_back(std::move(part));
      held += bytes;
      sent += static_cast<std::int64_t>(mine.nbytes()) * (group.size() - 1);
    }
    SP_TRY(flush());
    return sent;
  });
}

Result<TensorBag> joinShards(const std::vector<TensorBag>& blocks, const TensorBag& like) {
  return guarded("shards", [&]() -> Result<TensorBag> {
    TensorBag out;
    for (const std::string& name : blocks.front().impl().names) {
      const int at = like.impl().find(name);
      if (at < 0) return makeError("tensor-missing", "there is no whole tensor " + name);
      const at::Tensor& shape = like.impl().tensors[static_cast<std::size_t>(at)];
      at::Tensor whole;
      std::int64_t begin = 0;
      for (const TensorBag& bag : blocks) {
        const int i = bag.impl().find(name);
        if (i < 0) return makeError("tensor-missing", "a rank has no block of " + name);
        const at::Tensor& block = bag.impl().tensors[static_cast<std::size_t>(i)];
        if (!whole.defined()) whole = at::empty({shape.numel()}, block.options());
        whole.narrow(0, begin, block.numel()).copy_(block.view({-1}));
        begin += block.numel();
      }
      if (begin != shape.numel()) return makeError("gradient-shape", "the blocks of " + name + " do not make it up", Outcome::kRunFailed);
      out.impl().append(name, whole.view(shape.sizes()));
    }
    return out;
  });
}

Result<TensorBag> gatherShards(const TensorBag& blocks, const TensorBag& like, dist::Collectives& group) {
  return guarded("shards", [&]() -> Result<TensorBag> {
    TensorBag out;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::string& name = blocks.impl().names[i];
      const int at = like.impl().find(name);
      if (at < 0) {  // no block of anything: the same on all ranks
        out.impl().append(name, blocks.impl().tensors[i]);
        continue;
      }
      const at::Tensor& shape = like.impl().tensors[static_cast<std::size_t>(at)];
      const at::Tensor block = blocks.impl().tensors[i].contiguous();
      const at::Tensor whole = at::empty({shape.numel()}, block.options());
      SP_TRY(group.allGather(bufferOf(block), bufferOf(whole), ir::shardBlocks(shape.numel(), group.size())));
      out.impl().append(name, whole.view(shape.sizes()));
    }
    return out;
  });
}

Result<double> sumOver(dist::Collectives& group, double value) {
  SP_TRY(group.allReduceSum({&value, 1, ir::DType::kF64}));
  return value;
}

Status WeightedMean::add(const TensorBag& bag, double weight) {
  return guarded("accumulation", [&]() -> Status {
    const bool first = sum_.empty();
    weight_ += weight;
    for (std::size_t i = 0; i < bag.size(); ++i) {
      const at::Tensor& t = bag.impl().tensors[i];
      if (first) {
        const bool half = t.element_size() < 4;
        at::Tensor mine = half ? t.to(at::kFloat) : t;
        // One memory may be the gradient of two parameters.
        for (const at::Tensor& other : sum_.impl().tensors)
          if (!half && other.storage().unsafeGetStorageImpl() == mine.storage().unsafeGetStorageImpl()) mine = mine.clone();
        sum_.impl().append(bag.impl().names[i], mine.mul_(weight));
        continue;
      }
      const int at = sum_.impl().find(bag.impl().names[i]);
      if (at < 0) return makeError("gradient-shape", "the gradients of two batches are not of the same parameters", Outcome::kRunFailed);
      sum_.impl().tensors[static_cast<std::size_t>(at)].add_(t, weight);
    }
    return {};
  });
}

Result<TensorBag> WeightedMean::take(bool divide) {
  return guarded("accumulation", [&]() -> Result<TensorBag> {
    for (at::Tensor& t : sum_.impl().tensors)
      if (divide && weight_ != 0.0) t.div_(weight_);
    weight_ = 0.0;
    return std::exchange(sum_, TensorBag());
  });
}

}  // namespace spscope::exec
