// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity functions behind one table, loaded at run time. Several versions live on one machine (a toolkit's, a
// wheel's): the library that was loaded, not the header, decides the size of its records, so buffers are only ever walked
// with its own cuptiActivityGetNextRecord.
#pragma once

#include <cupti.h>

#include <string>

#include "core/base/result.h"

namespace spscope::trace {

struct CuptiApi {
  std::uint32_t version = 0;  ///< CUPTI_API_VERSION of the library, e.g. 130001
  std::string path;

  decltype(&cuptiGetVersion) getVersion = nullptr;
  decltype(&cuptiGetResultString) getResultString = nullptr;
  decltype(&cuptiGetCallbackName) getCallbackName = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) registerCallbacks = nullptr;
  decltype(&cuptiActivityGetNextRecord) getNextRecord = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) getNumDroppedRecords = nullptr;
  decltype(&cuptiActivityFlushAll) flushAll = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) pushExternal = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) popExternal = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) registerTimestamp = nullptr;  ///< may be null
  decltype(&cuptiSetThreadIdType) setThreadIdType = nullptr;                      ///< may be null

  std::string reason(CUptiResult result) const;
};

/// Error cupti-unavailable (kRefused) where the driver does not answer; libcupti is touched only afterwards.
Status checkDriver(const std::string& library);
/// Opens the library and resolves the table; calls nothing but cuptiGetVersion. Its functions need a driver, except those
/// that only read memory (getVersion, getNextRecord of versions up to 13.0). Error cupti-unavailable.
Result<CuptiApi> loadCupti(const std::string& path);

}  // namespace spscope::trace
