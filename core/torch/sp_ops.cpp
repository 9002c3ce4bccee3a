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
#include <string>

#include "core/ir/mesh_axis.h"

namespace spscope::exec {
namespace {

thread_local int t_rank = 0;
thread_local const ir::Mesh* t_mesh = nullptr;  // null: one rank

using Axis = c10::string_view;

/// The op's axis as a node says it.
ir::MeshAxis meshAxis(Axis axis) {
  TORCH_CHECK(axis == "sp" || axis == "dp" || axis == "all", "sp: no axis ", axis);
  return axis == "sp" ? ir::MeshAxis::kSequence : axis == "dp" ? ir::MeshAxis::kData : ir::MeshAxis::kAll;
}

using at::IntArrayRef;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Ints = std::vector<std::int64_t>;

std::int64_t total(IntArrayRef blocks) { return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}); }

std::int64_t mine(IntArrayRef blocks, Axis axis) {
  const ir::Mesh alone;
  const ir::Mesh& mesh = t_mesh != nullptr ? *t_mesh : alone;
  const int size = ir::axisSize(mesh, meshAxis(axis));
  TORCH_CHECK(static_cast<int>(blocks.size()) == size, "sp: ", blocks.size(), " blocks for ", size, " ranks");
  return blocks[static_cast<std::size_t>(ir::axisRank(mesh, t_rank, meshAxis(axis)))];
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

Tensor varyMeta(const Tensor& self, Axis) { return at::alias(self); }
Tensor sliceMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks, Axis axis) {
  return resized(self, dim, total(blocks), mine(blocks, axis));
}
Tensor allGatherMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks, Axis axis) {
  return resized(self, dim, mine(blocks, axis), total(blocks));
}
Tensor allReduceMeta(const Tensor& self, Axis) { return at::empty(self.sizes(), self.options()); }
Tensor reduceScatterMeta(const Tensor& self, std::int64_t dim, IntArrayRef blocks, Axis axis) {
  return resized(self, dim, total(blocks), mine(blocks, axis));
}
Tensor allToAllMeta(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks, std::int64_t scatter_dim,
                    IntArrayRef scatter_blocks, Axis axis) {
  TORCH_CHECK(gather_dim != scatter_dim, "sp: all_to_all gathers and scatters dim ", gather_dim);
  TORCH_CHECK(scatter_dim >= 0 && scatter_dim < self.dim() && self.size(scatter_dim) == total(scatter_blocks),
              "sp: the blocks of the scattered dim ", scatter_dim, " do not sum to its size");
  Tensor out = resized(self, gather_dim, mine(gather_blocks, axis), total(gather_blocks));
  Ints sizes = out.sizes().vec();
  sizes[static_cast<std::size_t>(scatter_dim)] = mine(scatter_blocks, axis);
  return at::empty(sizes, self.options());
}

// --- calls through the dispatcher, below autograd -------------------------------------------------------------------

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using Plain = Tensor(const Tensor&, Axis);
using Blocked = Tensor(const Tensor&, std::int64_t, IntArrayRef, Axis);
using Exchange = Tensor(const Tensor&, std::int64_t, IntArrayRef, std::int64_t, IntArrayRef, Axis);

Tensor callPlain(const char* name, const Tensor& self, Axis axis) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Plain>(name).call(self, axis);
}
Tensor callBlocked(const char* name, const Tensor& self, std::int64_t dim, IntArrayRef blocks, Axis axis) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Blocked>(name).call(self, dim, blocks, axis);
}
Tensor callExchange(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks, std::int64_t scatter_dim,
                    IntArrayRef scatter_blocks, Axis axis) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return find<Exchange>("sp::all_to_all").call(self, gather_dim, gather_blocks, scatter_dim, scatter_blocks, axis);
}

// --- gradients: R <-> R, S <-> S, P <-> R; on the same axis ----------------------------------------------------------

struct Vary : torch::autograd::Function<Vary> {
  static Tensor forward(AutogradContext* context, const Tensor& self, std::string axis) {
    Tensor out = callPlain("sp::vary", self, axis);
    context->saved_data["axis"] = std::move(axis);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {callPlain("sp::all_reduce", grads[0], context->saved_data["axis"].toStringRef()), {}};
  }
};

struct AllReduce : torch::autograd::Function<AllReduce> {
  static Tensor forward(AutogradContext*, const Tensor& self, std::string axis) { return callPlain("sp::all_reduce", self, axis); }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return {grads[0], {}}; }
};

/// An op with one blocked dimension, and the op that undoes it.
template <int kWhich>
struct BlockedFunction : torch::autograd::Function<BlockedFunction<kWhich>> {
  static constexpr const char* kForward[] = {"sp::slice", "sp::all_gather", "sp::reduce_scatter"};
  static constexpr const char* kBackward[] = {"sp::all_gather", "sp::slice", "sp::all_gather"};
  static Tensor forward(AutogradContext* context, const Tensor& self, std::int64_t dim, Ints blocks, std::string axis) {
    Tensor out = callBlocked(kForward[kWhich], self, dim, blocks, axis);
    context->saved_data["dim"] = dim;
    context->saved_data["blocks"] = std::move(blocks);
    context->saved_data["axis"] = std::move(axis);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    auto& saved = context->saved_data;
    return {callBlocked(kBackward[kWhich], grads[0], saved["dim"].toInt(), saved["blocks"].toIntVector(), saved["axis"].toStringRef()),
            {},
            {},
            {}};
  }
};

struct AllToAll : torch::autograd::Function<AllToAll> {
  static Tensor forward(AutogradContext* context, const Tensor& self, std::int64_t gather_dim, Ints gather_blocks,
                        std::int64_t scatter_dim, Ints scatter_blocks, std::string axis) {
    Tensor out = callExchange(self, gather_dim, gather_blocks, scatter_dim, scatter_blocks, axis);
    auto& saved = context->saved_data;
    saved["gather_dim"] = gather_dim;
    saved["gather_blocks"] = std::move(gather_blocks);
    saved["scatter_dim"] = scatter_dim;
    saved["scatter_blocks"] = std::move(scatter_blocks);
    saved["axis"] = std::move(axis);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    auto& saved = context->saved_data;
    return {callExchange(grads[0], saved["scatter_dim"].toInt(), saved["scatter_blocks"].toIntVector(),
                         saved["gather_dim"].toInt(), saved["gather_blocks"].toIntVector(), saved["axis"].toStringRef()),
            {},
            {},
            {},
            {},
            {}};
  }
};

std::string text(Axis axis) { return std::string(axis.data(), axis.size()); }

Tensor varyAutograd(const Tensor& self, Axis axis) { return Vary::apply(self, text(axis)); }
Tensor allReduceAutograd(const Tensor& self, Axis axis) { return AllReduce::apply(self, text(axis)); }
template <int kWhich>
Tensor blockedAutograd(const Tensor& self, std::int64_t dim, IntArrayRef blocks, Axis axis) {
  return BlockedFunction<kWhich>::apply(self, dim, blocks.vec(), text(axis));
}
Tensor allToAllAutograd(const Tensor& self, std::int64_t gather_dim, IntArrayRef gather_blocks,
                        std::int64_t scatter_dim, IntArrayRef scatter_blocks, Axis axis) {
  return AllToAll::apply(self, gather_dim, gather_blocks.vec(), scatter_dim, scatter_blocks.vec(), text(axis));
}

}  // namespace

void registerSpOps() {
  using torch::Library;
  static Library* const libraries = [] {
    auto* definition = new Library(Library::DEF, "sp", std::nullopt, __FILE__, __LINE__);
    // No annotation on vary's alias: for libtorch it is a function, so that no view relation has to be kept.
    definition->def("vary(Tensor self, str axis=\"sp\") -> Tensor");
    definition->def("slice(Tensor self, int dim, int[] blocks, str axis=\"sp\") -> Tensor");
    definition->def("all_gather(Tensor self, int dim, int[] blocks, str axis=\"sp\") -> Tensor");
    definition->def("all_reduce(Tensor self, str axis=\"sp\") -> Tensor");
    definition->def("reduce_scatter(Tensor self, int dim, int[] blocks, str axis=\"sp\") -> Tensor");
    definition->def(
        "all_to_all(Tensor self, int gather_dim, int[] gather_blocks, int scatter_dim, int[] scatter_blocks, "
        "str axis=\"sp\") -> "
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

RankScope::RankScope(int rank, const ir::Mesh& mesh) : previous_rank_(t_rank), previous_mesh_(t_mesh) {
  t_rank = rank;
  t_mesh = &mesh;
}

RankScope::~RankScope() {
  t_rank = previous_rank_;
  t_mesh = previous_mesh_;
}

}  // namespace spscope::exec
