// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <unordered_map>

namespace spscope::trace {

struct NvtxRanges::Impl {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("spscope");
  std::unordered_map<std::string, nvtxStringHandle_t> strings;

  Impl() {
    static constexpr const char* kNames[] = {"", "step", "phase", "module", "node", "collective"};
    for (std::uint32_t i = 1; i < std::size(kNames); ++i) nvtxDomainNameCategoryA(domain, i, kNames[i]);
  }
  nvtxEventAttributes_t attributes(const std::string& text) {
    const auto [it, fresh] = strings.try_emplace(text, nullptr);
    if (fresh) it->second = nvtxDomainRegisterStringA(domain, text.c_str());
    nvtxEventAttributes_t a{};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = it->second;
    return a;
  }
};

NvtxRanges::NvtxRanges() : impl_(std::make_unique<Impl>()) {}
NvtxRanges::~NvtxRanges() = default;  // the domain stays: tools read its name at the end of the process

void NvtxRanges::push(Kind kind, const std::string& name, std::int64_t payload) {
  nvtxEventAttributes_t a = impl_->attributes(name);
  a.category = static_cast<std::uint32_t>(kind);
  if (payload >= 0) {
    a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    a.payload.ullValue = static_cast<std::uint64_t>(payload);
  }
  nvtxDomainRangePushEx(impl_->domain, &a);
}

void NvtxRanges::pop() { nvtxDomainRangePop(impl_->domain); }

void NvtxRanges::mark(const std::string& text) {
  const nvtxEventAttributes_t a = impl_->attributes(text);
  nvtxDomainMarkEx(impl_->domain, &a);
}

bool NvtxRanges::toolPresent() {
  const char* injected = std::getenv("NVTX_INJECTION64_PATH");
  return injected != nullptr && *injected != '\0';
}

}  // namespace spscope::trace
