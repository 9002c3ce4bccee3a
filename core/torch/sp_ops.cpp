// SPDX-License-Identifier: Apache-2.0
// See sp_ops.h and, for what each op means, core/ir/sp_ops.h.
//
// A gradient calls the dual op through the dispatcher again, below autograd, so that the capture records it like any
// other op. `vary` is an alias of its operand (it moves no bytes); all others make new contiguous memory.
#include "core/torch/sp_ops.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <numeric>

namespace spscope::exec {
namespace {

thread_local int t_rank = 0;
thread_local int t_size = 1;

using at::IntArrayRef;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Ints = std::vector<std::int64_t>;

std::int64_t total(IntArrayRef blocks) { return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}); }

std::int64_t mine(IntArrayRef blocks) {
  TORCH_CHECK(static_cast<int>(blocks.size()) == t_size, "sp: ", blocks.size(), " blocks for ", t_size, " ranks");
  return blocks[static_cast<std::size_t>(t_rank)];
}

/// The operand with the size of `dim` changed from `from` to `to`.
Tensor resized(const Tensor& self, std::int64_t dim, std::int64_t from, std::int64_t to) {
  TORCH_CHECK(dim >= 0 && dim < self.dim(), "sp: dim ", dim, " of a tensor with ", self.dim(), " dims");
  TORCH_CHECK(self.size(dim) == from, "sp: dim ", dim, " has size ", self.size(dim), ", its blocks say ", from);
  Ints sizes = self.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = to;
  return at::empty(sizes, self.options());
}

// --- shapes on the rank of this thread ------------------------------------------------------------------------------

Tensor varyMeta(const Tensor& self) { return at::alias(self); }
Tensor sliceMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks) {
  return resized(self, dim, total(blocks), mine(blocks));
}
Tensor allGatherMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks) {
  return resized(self, dim, mine(blocks), total(blocks));
}
Tensor allReduceMeta(const Tensor& self) { return at::empty(self.sizes(), self.options()); }
Tensor reduceScatterMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks) {
  return resized(self, dim, total(blocks), mine(blocks));
}
Tensor allToAllMeta(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks, std::int64_t scatter_dim,
                    IntArrayRef scatter_blocks) {
  TORCH_CHECK(gather_dim != scatter_dim, "sp: all_to_all gathers and scatters dim ", gather_dim);
  TORCH_CHECK(scatter_dim >= 0 && scatter_dim < self.dim() && self.size(scatter_dim) == total(scatter_blocks),
              "sp: the blocks of the scattered dim ", scatter_dim, " do not sum to its size");
  Tensor out = resized(self, gather_dim, mine(gather_blocks), total(gather_blocks));
  Ints sizes = out.sizes().vec();
  sizes[static_cast<std::size_t>(scatter_dim)] = mine(scatter_blocks);
  return at::empty(sizes, self.options());
}

// --- calls through the dispatcher, below autograd -------------------------------------------------------------------

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using Plain = Tensor(const Tensor&);
using Blocked = Tensor(const Tensor&, std::int64_t, IntArrayRef);
using Exchange = Tensor(const Tensor&, std::int64_t, IntArrayRef, std::int64_t, IntArrayRef);

Tensor callPlain(const char* name, const Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Plain>(name).call(self);
}
Tensor callBlocked(const char* name, const Tensor& self, std::int64_t dim, IntArrayRef blocks) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Blocked>(name).call(self, dim, blocks);
}
Tensor callExchange(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks, std::int64_t scatter_dim,
                    IntArrayRef scatter_blocks) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Exchange>("sp::all_to_all").call(self, gather_dim, gather_blocks, scatter_dim, scatter_blocks);
}

// --- gradients: R <-> R, S <-> S, P <-> R ---------------------------------------------------------------------------

struct Vary : torch::autograd::Function<Vary> {
  static Tensor forward(AutogradContext*, const Tensor& self) { return callPlain("sp::vary", self); }
  static variable_list backward(AutogradContext*, const variable_list& grads) {
    return {callPlain("sp::all_reduce", grads[0])};
  }
};

struct AllReduce : torch::autograd::Function<AllReduce> {
  static Tensor forward(AutogradContext*, const Tensor& self) { return callPlain("sp::all_reduce", self); }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return {grads[0]}; }
};

/// An op with one blocked dimension, and the op that undoes it.
template <int kWhich>
struct BlockedFunction : torch::autograd::Function<BlockedFunction<kWhich>> {
  static constexpr const char* kForward[] = {"sp::slice", "sp::all_gather", "sp::reduce_scatter"};
  static constexpr const char* kBackward[] = {"sp::all_gather", "sp::slice", "sp::all_gather"};
  static Tensor forward(AutogradContext* context, const Tensor& self, std::int64_t dim, Ints blocks) {
    Tensor out = callBlocked(kForward[kWhich], self, dim, blocks);
    context->saved_data["dim"] = dim;
    context->saved_data["blocks"] = std::move(blocks);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {callBlocked(kBackward[kWhich], grads[0], context->saved_data["dim"].toInt(),
                        context->saved_data["blocks"].toIntVector()),
            {},
            {}};
  }
};

struct AllToAll : torch::autograd::Function<AllToAll> {
  static Tensor forward(AutogradContext* context, const Tensor& self, std::int64_t gather_dim, Ints gather_blocks,
                        std::int64_t scatter_dim, Ints scatter_blocks) {
    Tensor out = callExchange(self, gather_dim, gather_blocks, scatter_dim, scatter_blocks);
    context->saved_data["gather_dim"] = gather_dim;
    context->saved_data["gather_blocks"] = std::move(gather_blocks);
    context->saved_data["scatter_dim"] = scatter_dim;
    context->saved_data["scatter_blocks"] = std::move(scatter_blocks);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    auto& saved = context->saved_data;
    return {callExchange(grads[0], saved["scatter_dim"].toInt(), saved["scatter_blocks"].toIntVector(),
                         saved["gather_dim"].toInt(), saved["gather_blocks"].toIntVector()),
            {},
            {},
            {},
            {}};
  }
};

Tensor varyAutograd(const Tensor& self) { return Vary::apply(self); }
Tensor allReduceAutograd(const Tensor& self) { return AllReduce::apply(self); }
template <int kWhich>
Tensor blockedAutograd(const Tensor& self, std::int64_t dim, IntArrayRef blocks) {
  return BlockedFunction<kWhich>::apply(self, dim, blocks.vec());
}
Tensor allToAllAutograd(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks,
                        std::int64_t scatter_dim, IntArrayRef scatter_blocks) {
  return AllToAll::apply(self, gather_dim, gather_blocks.vec(), scatter_dim, scatter_blocks.vec());
}

}  // namespace

void registerSpOps() {
  using torch::Library;
  static Library* const libraries = [] {
    auto* definition = new Library(Library::DEF, "sp", std::nullopt, __FILE__, __LINE__);
    // No annotation on vary's alias: for libtorch it is a function, so that no view relation has to be kept.
    definition->def("vary(Tensor self) -> Tensor");
    definition->def("slice(Tensor self, int dim, int[] blocks) -> Tensor");
    definition->def("all_gather(Tensor self, int dim, int[] blocks) -> Tensor");
    definition->def("all_reduce(Tensor self) -> Tensor");
    definition->def("reduce_scatter(Tensor self, int dim, int[] blocks) -> Tensor");
    definition->def(
        "all_to_all(Tensor self, int gather_dim, int[] gather_blocks, int scatter_dim, int[] scatter_blocks) -> "
        "Tensor");
    // Registrations live as long as the process: never destroyed, so that no order of destruction matters.
    auto* meta = new Library(Library::IMPL, "sp", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta->impl("vary", &varyMeta);
    meta->impl("slice", &sliceMeta);
    meta->impl("all_gather", &allGatherMeta);
    meta->impl("all_reduce", &allReduceMeta);
    meta->impl("reduce_scatter", &reduceScatterMeta);
    meta->impl("all_to_all", &allToAllMeta);
    auto* gradients = new Library(Library::IMPL, "sp", c10::DispatchKey::Autograd, __FILE__, __LINE__);
    gradients->impl("vary", &varyAutograd);
    gradients->impl("slice", &blockedAutograd<0>);
    gradients->impl("all_gather", &blockedAutograd<1>);
    gradients->impl("all_reduce", &allReduceAutograd);
    gradients->impl("reduce_scatter", &blockedAutograd<2>);
    gradients->impl("all_to_all", &allToAllAutograd);
    return definition;
  }();
  (void)libraries;
}

RankScope::RankScope(int rank, int size) : previous_rank_(t_rank), previous_size_(t_size) {
  t_rank = rank;
  t_size = size;
}

RankScope::~RankScope() {
  t_rank = previous_rank_;
  t_size = previous_size_;
}

}  // namespace spscope::exec
