// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/cuda/cupti_parse.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/base/strings.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {
namespace {

// What is read of a kernel lies at one place in the records of 12.x (9), 13.0 (10) and 13.2 (11): reading the prefix is
// safe for all of them, walking with our own sizeof would not be.
template <typename Newer>
constexpr bool samePrefix() {
  using Old = CUpti_ActivityKernel9;
  return offsetof(Old, start) == offsetof(Newer, start) && offsetof(Old, deviceId) == offsetof(Newer, deviceId) &&
         offsetof(Old, gridX) == offsetof(Newer, gridX) && offsetof(Old, correlationId) == offsetof(Newer, correlationId) &&
         offsetof(Old, name) == offsetof(Newer, name) && offsetof(Old, graphNodeId) == offsetof(Newer, graphNodeId);
}
#if CUPTI_API_VERSION >= 130000
static_assert(samePrefix<CUpti_ActivityKernel10>());
#endif
#if CUPTI_API_VERSION >= 130200
static_assert(samePrefix<CUpti_ActivityKernel11>());
#endif

/// CUPTI's memory kinds as Nsight numbers them.
std::uint8_t memoryKind(unsigned kind) { return kind == 0 || kind > 7 ? 7 : static_cast<std::uint8_t>(kind - 1); }

std::string_view overheadName(unsigned kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER: return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH: return "CUPTI buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION: return "CUPTI instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE: return "CUPTI resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING: return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING: return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: return "command buffer full";
    default: return "overhead";
  }
}

std::string_view synchronizationName(unsigned type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE: return "event synchronize";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT: return "stream wait event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE: return "stream synchronize";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE: return "context synchronize";
    default: return "synchronize";
  }
}

std::string demangled(const char* name) {
  if (name == nullptr) return "unnamed kernel";
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return out;
}

class Parser {
 public:
  Parser(const CuptiApi& api, const std::uint8_t* end, const std::function<std::uint32_t(std::string_view)>& name, ParsedBuffer& out)
      : api_(api), end_(end), name_(name), out_(out) {}

  /// False: the record does not fit into the buffer.
  bool take(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return kernel(record);
      case CUPTI_ACTIVITY_KIND_MEMCPY: return copy(record);
      case CUPTI_ACTIVITY_KIND_MEMCPY2: return peerCopy(record);
      case CUPTI_ACTIVITY_KIND_MEMSET: return set(record);
      case CUPTI_ACTIVITY_KIND_DRIVER: return call(record, CUPTI_CB_DOMAIN_DRIVER_API);
      case CUPTI_ACTIVITY_KIND_RUNTIME: return call(record, CUPTI_CB_DOMAIN_RUNTIME_API);
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return synchronization(record);
      case CUPTI_ACTIVITY_KIND_MEMORY2: return memory(record);
      case CUPTI_ACTIVITY_KIND_OVERHEAD: return overhead(record);
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return graph(record);
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return external(record);
      default: ++out_.unknown; return true;
    }
  }

 private:
  /// Copies the first `bytes` of a record; packed records may lie at any address.
  template <typename T>
  bool prefix(const CUpti_Activity* record, T& into, std::size_t bytes = sizeof(T)) const {
    const auto* at = reinterpret_cast<const std::uint8_t*>(record);
    if (at > end_ || static_cast<std::size_t>(end_ - at) < bytes) return false;
    std::memcpy(&into, at, bytes);
    return true;
  }

  template <typename T>
  DeviceRecord work(const T& r, Category category) const {
    DeviceRecord d;
    d.start = static_cast<std::int64_t>(r.start);
    d.end = static_cast<std::int64_t>(r.end);
    d.category = static_cast<std::uint8_t>(category);
    return d;
  }
  template <typename T>
  DeviceRecord onStream(const T& r, Category category) const {
    DeviceRecord d = work(r, category);
    d.correlation = r.correlationId;
    d.device = static_cast<std::int32_t>(r.deviceId);
    d.context = static_cast<std::int32_t>(r.contextId);
    d.stream = static_cast<std::int32_t>(r.streamId);
    return d;
  }
  /// start = end = 0: CUPTI collected no time.
  bool keep(const DeviceRecord& d) {
    if (d.start == 0 && d.end == 0)
      ++out_.without_time;
    else
      out_.records.push_back(d);
    return true;
  }

  bool kernel(const CUpti_Activity* record) {
    CUpti_ActivityKernel9 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityKernel9, graphNodeId) + sizeof r.graphNodeId)) return false;
    DeviceRecord d = onStream(r, Category::kKernel);
    d.name = kernelName(r.name);
    const std::int32_t grid[] = {r.gridX, r.gridY, r.gridZ}, block[] = {r.blockX, r.blockY, r.blockZ};
    std::copy(grid, grid + 3, d.grid);
    std::copy(block, block + 3, d.block);
    d.registers = r.registersPerThread;
    d.static_shared = r.staticSharedMemory;
    d.dynamic_shared = r.dynamicSharedMemory;
    d.graph_node = static_cast<std::int32_t>(r.graphNodeId);
    return keep(d);
  }

  /// The same few kernels run again and again: one demangling each.
  std::uint32_t kernelName(const char* name) {
    const auto [it, fresh] = kernel_names_.try_emplace(name, 0);
    if (fresh) it->second = name_(demangled(name));
    return it->second;
  }

  bool copy(const CUpti_Activity* record) {
    CUpti_ActivityMemcpy6 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityMemcpy6, runtimeCorrelationId))) return false;
    DeviceRecord d = onStream(r, Category::kMemcpy);
    static constexpr std::string_view kNames[] = {"Memcpy", "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
                                                  "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
    d.name = name_(kNames[r.copyKind < std::size(kNames) ? r.copyKind : 0]);
    d.bytes = static_cast<std::int64_t>(r.bytes);
    d.copy_kind = r.copyKind;
    d.source_kind = memoryKind(r.srcKind);
    d.target_kind = memoryKind(r.dstKind);
    return keep(d);
  }

  bool peerCopy(const CUpti_Activity* record) {
    CUpti_ActivityMemcpyPtoP4 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityMemcpyPtoP4, reserved0))) return false;
    DeviceRecord d = onStream(r, Category::kMemcpy);
    d.name = name_("Memcpy PtoP");
    d.bytes = static_cast<std::int64_t>(r.bytes);
    d.copy_kind = r.copyKind;
    d.source_kind = memoryKind(r.srcKind);
    d.target_kind = memoryKind(r.dstKind);
    return keep(d);
  }

  bool set(const CUpti_Activity* record) {
    CUpti_ActivityMemset4 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityMemset4, reserved0))) return false;
    DeviceRecord d = onStream(r, Category::kMemset);
    d.name = name_("Memset");
    d.bytes = static_cast<std::int64_t>(r.bytes);
    d.value = r.value;
    d.target_kind = memoryKind(r.memoryKind);
    return keep(d);
  }

  bool call(const CUpti_Activity* record, CUpti_CallbackDomain domain) {
    CUpti_ActivityAPI r{};
    if (!prefix(record, r)) return false;
    DeviceRecord d = work(r, Category::kRuntime);
    d.correlation = r.correlationId;
    d.thread = static_cast<std::int32_t>(r.threadId);
    d.value = static_cast<std::int64_t>(r.returnValue);
    const CUpti_CallbackId id = r.cbid;  // a copy: the record is packed
    const auto [it, fresh] = call_names_.try_emplace({domain, id}, 0);
    if (fresh) {
      const char* text = nullptr;
      if (api_.getCallbackName == nullptr || api_.getCallbackName(domain, id, &text) != CUPTI_SUCCESS) text = nullptr;
      it->second = name_(text != nullptr ? std::string(text) : strf("call %u", id));
    }
    d.name = it->second;
    return keep(d);
  }

  bool synchronization(const CUpti_Activity* record) {
    CUpti_ActivitySynchronization2 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivitySynchronization2, cudaEventSyncId))) return false;
    DeviceRecord d = work(r, Category::kSynchronize);
    d.correlation = r.correlationId;
    d.context = static_cast<std::int32_t>(r.contextId);
    // The other kinds are waits of the host; a stream that waits shows on its stream.
    if (r.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT && r.streamId != CUPTI_SYNCHRONIZATION_INVALID_VALUE)
      d.stream = static_cast<std::int32_t>(r.streamId), d.device = 0;
    d.name = name_(synchronizationName(r.type));
    return keep(d);
  }

  bool memory(const CUpti_Activity* record) {
    CUpti_ActivityMemory4 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityMemory4, name))) return false;
    DeviceRecord d;
    d.category = static_cast<std::uint8_t>(Category::kOther);
    d.start = d.end = static_cast<std::int64_t>(r.timestamp);
    d.correlation = r.correlationId;
    d.device = static_cast<std::int32_t>(r.deviceId);
    d.context = static_cast<std::int32_t>(r.contextId);
    d.address = static_cast<std::int64_t>(r.address);
    d.bytes = static_cast<std::int64_t>(r.bytes);
    if (r.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE) d.bytes = -d.bytes;
    d.target_kind = memoryKind(r.memoryKind);
    return keep(d);
  }

  bool overhead(const CUpti_Activity* record) {
    CUpti_ActivityOverhead3 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityOverhead3, correlationId))) return false;
    DeviceRecord d = work(r, Category::kOverhead);
    d.name = name_(overheadName(r.overheadKind));
    if (r.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) d.thread = static_cast<std::int32_t>(r.objectId.pt.threadId);
    return keep(d);
  }

  bool graph(const CUpti_Activity* record) {
    CUpti_ActivityGraphTrace2 r{};
    if (!prefix(record, r, offsetof(CUpti_ActivityGraphTrace2, reserved))) return false;
    DeviceRecord d = onStream(r, Category::kDeviceRange);
    d.name = name_("CUDA graph");
    return keep(d);
  }

  bool external(const CUpti_Activity* record) {
    CUpti_ActivityExternalCorrelation r{};
    if (!prefix(record, r)) return false;
    if (r.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
      out_.externals.push_back({r.correlationId, static_cast<std::int64_t>(r.externalId)});
    return true;
  }

  const CuptiApi& api_;
  const std::uint8_t* end_;
  const std::function<std::uint32_t(std::string_view)>& name_;
  ParsedBuffer& out_;
  std::map<const char*, std::uint32_t> kernel_names_;
  std::map<std::pair<int, CUpti_CallbackId>, std::uint32_t> call_names_;
};

}  // namespace

ParsedBuffer parseBuffer(const CuptiApi& api, std::uint8_t* buffer, std::size_t valid_bytes,
                         const std::function<std::uint32_t(std::string_view)>& name) {
  ParsedBuffer out;
  Parser parser(api, buffer + valid_bytes, name, out);
  CUpti_Activity* record = nullptr;
  while (valid_bytes > 0) {
    const CUptiResult rc = api.getNextRecord(buffer, valid_bytes, &record);
    if (rc == CUPTI_ERROR_MAX_LIMIT_REACHED) break;
    if (rc != CUPTI_SUCCESS || !parser.take(record)) {
      out.damaged = true;
      break;
    }
  }
  return out;
}

}  // namespace spscope::trace
