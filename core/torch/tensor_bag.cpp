// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <cstring>
#include <set>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {
Error missing(std::string_view name, const std::vector<std::string>& names) {
  Error error = makeError("tensor-missing", "there is no tensor named " + std::string(name));
  const std::string near = nearest(name, names);
  if (!near.empty()) error.remedy = "did you mean " + near + "?";
  return error;
}
}  // namespace

int TensorBag::Impl::find(std::string_view name) const {
  if (index.size() != names.size()) {
    index.clear();
    for (std::size_t i = 0; i < names.size(); ++i) index[names[i]] = static_cast<int>(i);
  }
  const auto it = index.find(std::string(name));
  return it == index.end() ? -1 : it->second;
}

void TensorBag::Impl::put(std::string name, at::Tensor tensor) {
  if (const int at = find(name); at >= 0) {
    tensors[static_cast<std::size_t>(at)] = std::move(tensor);
  } else {
    index[name] = static_cast<int>(names.size());  // find() has just brought the index up to date
    append(std::move(name), std::move(tensor));
  }
}

void TensorBag::Impl::append(std::string name, at::Tensor tensor) {
  names.push_back(std::move(name));
  tensors.push_back(std::move(tensor));
}

TensorBag::TensorBag() : impl_(std::make_unique<Impl>()) {}
TensorBag::~TensorBag() = default;
TensorBag::TensorBag(const TensorBag& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
TensorBag& TensorBag::operator=(const TensorBag& other) {
  if (this != &other) *impl_ = *other.impl_;
  return *this;
}
// A moved-from bag is an empty bag, not a broken one.
TensorBag::TensorBag(TensorBag&& other) noexcept : impl_(std::make_unique<Impl>()) { impl_.swap(other.impl_); }
TensorBag& TensorBag::operator=(TensorBag&& other) noexcept {
  if (this != &other) {
    impl_.swap(other.impl_);
    other.clear();
  }
  return *this;
}

std::size_t TensorBag::size() const { return impl_->names.size(); }
bool TensorBag::contains(std::string_view name) const { return impl_->find(name) >= 0; }
std::vector<std::string> TensorBag::names() const { return impl_->names; }

TensorBag::Entry TensorBag::entry(std::size_t index) const {
  const at::Tensor& tensor = impl_->tensors[index];
  return {impl_->names[index], toDType(tensor.scalar_type()), tensor.sizes().vec()};
}

Result<TensorBag::Entry> TensorBag::entry(std::string_view name) const {
  const int at = impl_->find(name);
  if (at < 0) return missing(name, impl_->names);
  return entry(static_cast<std::size_t>(at));
}

std::int64_t TensorBag::bytes() const {
  std::set<const void*> seen;
  std::int64_t total = 0;
  for (const at::Tensor& tensor : impl_->tensors)
    if (seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      total += static_cast<std::int64_t>(tensor.storage().nbytes());
  return total;
}

Status TensorBag::add(std::string name, ir::DType dtype, const ir::Dims& shape, std::span<const std::byte> bytes) {
  const std::int64_t wanted = ir::numel(shape) * ir::sizeOf(dtype);
  if (dtype == ir::DType::kUnknown || wanted != static_cast<std::int64_t>(bytes.size()))
    return makeError("tensor-bytes", strf("tensor %s: %lld bytes given for a shape of %lld bytes", name.c_str(),
                                          static_cast<long long>(bytes.size()), static_cast<long long>(wanted)));
  // Bags are made outside of inference mode, so that their tensors may be updated in place anywhere.
  const c10::InferenceMode off(false);
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(toScalarType(dtype)));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  impl_->put(std::move(name), std::move(tensor));
  return {};
}

Status TensorBag::share(const TensorBag& from, std::string_view name, std::string as) {
  const int at = from.impl_->find(name);
  if (at < 0) return missing(name, from.impl_->names);
  impl_->put(as.empty() ? std::string(name) : std::move(as), from.impl_->tensors[static_cast<std::size_t>(at)]);
  return {};
}

bool TensorBag::erase(std::string_view name) {
  const int at = impl_->find(name);
  if (at < 0) return false;
  impl_->names.erase(impl_->names.begin() + at);
  impl_->tensors.erase(impl_->tensors.begin() + at);
  impl_->dropIndex();
  return true;
}

void TensorBag::clear() { *impl_ = Impl(); }

Result<std::vector<double>> TensorBag::values(std::string_view name) const {
  const int at = impl_->find(name);
  if (at < 0) return missing(name, impl_->names);
  const at::Tensor& tensor = impl_->tensors[static_cast<std::size_t>(at)];
  if (tensor.is_complex()) return makeError("tensor-dtype", "tensor " + std::string(name) + " is complex");
  const at::Tensor doubles = tensor.to(at::kDouble).contiguous();
  const double* data = doubles.const_data_ptr<double>();
  return std::vector<double>(data, data + doubles.numel());
}

Result<double> TensorBag::scalar(std::string_view name) const {
  SP_ASSIGN(const std::vector<double> all, values(name));
  if (all.size() != 1)
    return makeError("tensor-shape", strf("tensor %.*s has %zu elements, one is wanted", static_cast<int>(name.size()),
                                          name.data(), all.size()));
  return all.front();
}

Result<std::span<const std::byte>> TensorBag::bytesOf(std::string_view name) {
  const int at = impl_->find(name);
  if (at < 0) return missing(name, impl_->names);
  at::Tensor& tensor = impl_->tensors[static_cast<std::size_t>(at)];
  if (!tensor.is_contiguous()) tensor = tensor.contiguous();
  return std::span<const std::byte>(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                    static_cast<std::size_t>(tensor.numel()) * tensor.element_size());
}

TensorBag TensorBag::clone() const {
  const c10::InferenceMode off(false);
  TensorBag copy;
  std::unordered_map<const void*, std::vector<std::pair<at::Tensor, at::Tensor>>> done;
  for (std::size_t i = 0; i < impl_->names.size(); ++i) {
    const at::Tensor& tensor = impl_->tensors[i];
    auto& same_storage = done[tensor.storage().unsafeGetStorageImpl()];
    at::Tensor cloned;
    for (const auto& [original, twin] : same_storage)
      if (original.sizes() == tensor.sizes() && original.strides() == tensor.strides() &&
          original.storage_offset() == tensor.storage_offset() && original.scalar_type() == tensor.scalar_type())
        cloned = twin;
    if (!cloned.defined()) {
      cloned = at::empty(tensor.sizes(), tensor.options()).copy_(tensor);
      same_storage.emplace_back(tensor, cloned);
    }
    copy.impl_->append(impl_->names[i], std::move(cloned));
  }
  return copy;
}

}  // namespace spscope::exec
