// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcupti with the functions that our collector uses: it asks for buffers, fills them with records of the
// version it plays, and gives them back on a thread of its own. It shows that our side is right, not that CUPTI behaves so.
#include "tests/support/fake_cupti/fake_cupti.h"

#include <cupti.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Buffer {
  std::uint8_t* data = nullptr;
  std::size_t size = 0, used = 0;
};

struct State {
  std::mutex mutex;
  std::uint32_t version = 130001;
  std::size_t kernel_bytes = 216;
  const char* kernel_name = "_Z4gemmPf";
  std::set<int> refused, enabled;
  bool refuse_timestamps = false, hold = false, damage = false;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  Buffer host, device;
  std::vector<Buffer> held;
  std::uint64_t dropped = 0, requested = 0, completed = 0;
  std::uint32_t correlation = 0;
};
State& state() {
  static State s;
  return s;
}
thread_local std::vector<std::uint64_t> pushed;

std::uint64_t now() {
  State& s = state();
  if (s.timestamp != nullptr) return s.timestamp();
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

void give(Buffer& buffer) {
  State& s = state();
  if (buffer.data == nullptr) return;
  if (s.hold) {
    s.held.push_back(buffer);
  } else {
    if (s.damage && buffer.used > 4) buffer.used -= 4, s.damage = false;
    ++s.completed;
    const Buffer b = buffer;
    const auto complete = s.complete;
    std::thread([=] { complete(nullptr, 0, b.data, b.size, b.used); }).join();
  }
  buffer = {};
}

void put(Buffer& buffer, const void* record, std::size_t bytes) {
  State& s = state();
  if (buffer.data != nullptr && buffer.used + bytes > buffer.size) give(buffer);
  if (buffer.data == nullptr) {
    std::size_t most = 0;
    ++s.requested;
    if (s.request != nullptr) s.request(&buffer.data, &buffer.size, &most);
    if (buffer.data == nullptr || buffer.size < bytes) {
      ++s.dropped;
      buffer = {};
      return;
    }
    buffer.used = 0;
  }
  std::memcpy(buffer.data + buffer.used, record, bytes);
  buffer.used += bytes;
}

bool on(int kind) { return state().enabled.count(kind) != 0; }

void putKernel(std::uint32_t correlation, bool timed, std::uint64_t graph_node) {
  State& s = state();
  alignas(8) std::uint8_t raw[256] = {};
  CUpti_ActivityKernel10 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.start = timed ? now() : 0;
  k.end = timed ? now() + 1 : 0;
  k.deviceId = 0, k.contextId = 1, k.streamId = 7;
  k.gridX = 4, k.gridY = 2, k.gridZ = 1, k.blockX = 128, k.blockY = k.blockZ = 1;
  k.registersPerThread = 40;
  k.correlationId = correlation;
  k.name = s.kernel_name;
  k.graphNodeId = graph_node;
  std::memcpy(raw, &k, sizeof k);
  if (on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) put(s.device, raw, s.kernel_bytes);
}

void putCall(std::uint32_t correlation) {
  State& s = state();
  CUpti_ActivityAPI a{};
  a.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  a.cbid = 211;
  a.start = now(), a.end = now();
  a.threadId = 77;
  a.correlationId = correlation;
  if (on(CUPTI_ACTIVITY_KIND_RUNTIME)) put(s.host, &a, sizeof a);
  if (!pushed.empty() && on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    CUpti_ActivityExternalCorrelation e{};
    e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    e.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    e.externalId = pushed.back();
    e.correlationId = correlation;
    put(s.host, &e, sizeof e);
  }
}

std::size_t sizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return state().kernel_bytes;
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_MEMORY2: return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead3);
    default: return 0;
  }
}

}  // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) { return *version = state().version, CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char** text) { return *text = "CUPTI_ERROR_UNKNOWN", CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t, const char** name) {
  return *name = "cudaLaunchKernel_v7000", CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (state().refused.count(kind) != 0) return CUPTI_ERROR_UNKNOWN;
  state().enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) { return state().enabled.erase(kind), CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  return state().request = r, state().complete = c, CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f) {
  if (state().refuse_timestamps) return CUPTI_ERROR_UNKNOWN;
  return state().timestamp = f, CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  return *dropped = std::exchange(state().dropped, 0), CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) {
  const std::lock_guard lock(state().mutex);
  give(state().host);
  give(state().device);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  return pushed.push_back(id), CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* last) {
  if (pushed.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = pushed.back();
  return pushed.pop_back(), CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + sizeOf((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_INVALID;
  std::memcpy(&kind, next, sizeof kind);
  if (sizeOf(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

void fakeCuptiReset(std::uint32_t version) {
  State& s = state();
  s.version = version;
  s.kernel_bytes = version >= 130200 ? 224 : version >= 130000 ? 216 : sizeof(CUpti_ActivityKernel9);
  s.kernel_name = "_Z4gemmPf";
  s.refused.clear(), s.enabled.clear(), s.held.clear();
  s.refuse_timestamps = s.hold = s.damage = false;
  s.timestamp = nullptr;
  s.dropped = s.requested = s.completed = 0;
  s.host = s.device = {};
}
void fakeCuptiRefuse(int kind) { state().refused.insert(kind); }
void fakeCuptiNameKernels(const char* name) { state().kernel_name = name; }
void fakeCuptiRefuseTimestamps() { state().refuse_timestamps = true; }
void fakeCuptiLaunch(int kernels) {
  const std::lock_guard lock(state().mutex);
  for (int i = 0; i < kernels; ++i) {
    const std::uint32_t correlation = ++state().correlation;
    putCall(correlation);
    putKernel(correlation, true, 0);
  }
}
void fakeCuptiLaunchGraph(int kernels) {
  const std::lock_guard lock(state().mutex);
  const std::uint32_t correlation = ++state().correlation;
  for (int i = 0; i < kernels; ++i) putKernel(correlation, true, static_cast<std::uint64_t>(i + 1));
  putCall(correlation);
}
void fakeCuptiOthers(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const std::uint32_t correlation = ++s.correlation;
  putCall(correlation);
  CUpti_ActivityMemcpy6 c{};
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  c.bytes = bytes, c.start = now(), c.end = now() + 5, c.contextId = 1, c.streamId = 7, c.correlationId = correlation;
  if (on(CUPTI_ACTIVITY_KIND_MEMCPY)) put(s.device, &c, sizeof c);
  CUpti_ActivityMemset4 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  m.bytes = bytes, m.value = 3, m.start = now(), m.end = now() + 5, m.contextId = 1, m.streamId = 7, m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  if (on(CUPTI_ACTIVITY_KIND_MEMSET)) put(s.device, &m, sizeof m);
  for (const auto operation : {CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE}) {
    CUpti_ActivityMemory4 a{};
    a.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    a.memoryOperationType = operation, a.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    a.address = 0x7000, a.bytes = bytes, a.timestamp = now(), a.correlationId = correlation;
    if (on(CUPTI_ACTIVITY_KIND_MEMORY2)) put(s.host, &a, sizeof a);
  }
  CUpti_ActivitySynchronization2 y{};
  y.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  y.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  y.start = now(), y.end = now() + 9, y.streamId = 7;
  if (on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) put(s.host, &y, sizeof y);
  CUpti_ActivityOverhead3 o{};
  o.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  o.start = now(), o.end = now() + 2;
  if (on(CUPTI_ACTIVITY_KIND_OVERHEAD)) put(s.host, &o, sizeof o);
}
void fakeCuptiTimeless() {
  const std::lock_guard lock(state().mutex);
  putKernel(++state().correlation, false, 0);
}
void fakeCuptiDrop(std::uint64_t records) { state().dropped += records; }
void fakeCuptiHold() { state().hold = true; }
void fakeCuptiReturn() {
  State& s = state();
  s.hold = false;
  for (Buffer& b : s.held) give(b);
  s.held.clear();
}
void fakeCuptiDamage() { state().damage = true; }
std::uint64_t fakeCuptiRequested() { return state().requested; }
std::uint64_t fakeCuptiCompleted() { return state().completed; }
int fakeCuptiEnabled() { return static_cast<int>(state().enabled.size()); }

}  // extern "C"
