// SPDX-License-Identifier: Apache-2.0
// A tool that NVTX loads (NVTX_INJECTION64_PATH): writes what it is told, a line each, to the file FAKE_NVTX_LOG.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

namespace {

std::FILE* output() {
  static std::FILE* file = std::fopen(std::getenv("FAKE_NVTX_LOG"), "w");
  return file;
}
template <typename... Args>
void say(const char* format, Args... args) {
  std::fprintf(output(), format, args...);
  std::fflush(output());
}

nvtxDomainHandle_t NVTX_API domainCreate(const char* name) {
  say("domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(1);
}
nvtxStringHandle_t NVTX_API registerString(nvtxDomainHandle_t, const char* text) {
  say("register %s\n", text);
  static std::deque<std::string> kept;  // a handle is good as long as the process
  return reinterpret_cast<nvtxStringHandle_t>(kept.emplace_back(text).data());
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
  const char* text = reinterpret_cast<const char*>(a->message.registered);
  const long long payload = a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ? static_cast<long long>(a->payload.ullValue) : -1;
  say("push %u %s %lld\n", a->category, text, payload);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  say("pop\n");
  return 0;
}
void NVTX_API mark(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
  say("mark %s\n", reinterpret_cast<const char*>(a->message.registered));
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable) {
  auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(getTable(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&domainCreate);
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = reinterpret_cast<NvtxFunctionPointer>(&registerString);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  *table[NVTX_CBID_CORE2_DomainMarkEx] = reinterpret_cast<NvtxFunctionPointer>(&mark);
  return 1;
}
