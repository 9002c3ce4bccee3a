// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/cuda/cupti_api.h"

#include <dlfcn.h>

#include "core/base/strings.h"

namespace spscope::trace {
namespace {

Error unavailable(std::string why) { return makeError("cupti-unavailable", std::move(why)); }

std::string dlReason() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown";
}

template <typename F>
bool resolve(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string CuptiApi::reason(CUptiResult result) const {
  const char* text = nullptr;
  if (getResultString != nullptr && getResultString(result, &text) == CUPTI_SUCCESS && text != nullptr)
    return strf("%s (%d)", text, static_cast<int>(result));
  return strf("error %d", static_cast<int>(result));
}

Status checkDriver(const std::string& library) {
  void* driver = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return unavailable("no CUDA driver: " + dlReason());
  int (*init)(unsigned) = nullptr;
  if (!resolve(driver, "cuInit", init)) return unavailable(library + " is not a CUDA driver");
  if (const int rc = init(0); rc != 0) return unavailable(strf("the CUDA driver does not start: cuInit says %d", rc));
  return {};
}

Result<CuptiApi> loadCupti(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable("libcupti does not load: " + dlReason());
  CuptiApi api;
  api.path = path;
  const bool whole = resolve(library, "cuptiGetVersion", api.getVersion) && resolve(library, "cuptiActivityEnable", api.enable) &&
                     resolve(library, "cuptiActivityDisable", api.disable) &&
                     resolve(library, "cuptiActivityRegisterCallbacks", api.registerCallbacks) &&
                     resolve(library, "cuptiActivityGetNextRecord", api.getNextRecord) &&
                     resolve(library, "cuptiActivityGetNumDroppedRecords", api.getNumDroppedRecords) &&
                     resolve(library, "cuptiActivityFlushAll", api.flushAll) &&
                     resolve(library, "cuptiActivityPushExternalCorrelationId", api.pushExternal) &&
                     resolve(library, "cuptiActivityPopExternalCorrelationId", api.popExternal);
  if (!whole) return unavailable(path + " lacks functions of CUPTI's activity interface");
  resolve(library, "cuptiGetResultString", api.getResultString);
  resolve(library, "cuptiGetCallbackName", api.getCallbackName);
  resolve(library, "cuptiActivityRegisterTimestampCallback", api.registerTimestamp);
  resolve(library, "cuptiSetThreadIdType", api.setThreadIdType);
  if (const CUptiResult rc = api.getVersion(&api.version); rc != CUPTI_SUCCESS)
    return unavailable(path + " does not tell its version: " + api.reason(rc));
  return api;
}

}  // namespace spscope::trace
