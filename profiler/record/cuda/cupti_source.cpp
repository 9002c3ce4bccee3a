// SPDX-License-Identifier: Apache-2.0
// The collector: gives CUPTI buffers, reads what comes back on CUPTI's thread, writes it to the spool.
//
// CUPTI's callbacks carry no user data, so there is one collector in a process, behind a lock. Buffers that come back
// after stop() (CUPTI may still hold some) are freed and counted, not read: their spool is closed.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "profiler/record/cuda/cupti_parse.h"
#include "profiler/record/device_source.h"
#include "profiler/record/host_recorder.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kAlignment = 8;

class Collector;
std::mutex g_mutex;                      // guards g_active and its life
Collector* g_active = nullptr;
std::atomic<std::int64_t> g_late{0};
std::atomic<std::int64_t> g_buffers{0};  // handed out and not yet back

struct Kind {
  CUpti_ActivityKind kind;
  const char* name;
};
constexpr Kind kKinds[] = {
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external correlation"},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls"},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver calls"},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "peer copies"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memory sets"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisation"},
    {CUPTI_ACTIVITY_KIND_MEMORY2, "memory"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
};

std::uint64_t CUPTIAPI timestamp() { return static_cast<std::uint64_t>(monotonicNs()); }
void CUPTIAPI bufferRequested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
void CUPTIAPI bufferCompleted(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size, std::size_t valid);

class Collector final : public DeviceSource {
 public:
  Collector(CuptiApi api, SpoolWriter& spool, const DeviceOptions& options) : api_(std::move(api)), spool_(spool), options_(options) {}
  ~Collector() override { stop(); }

  Status start() {
    counts_.version = strf("%u.%u (%u)", api_.version / 10000, api_.version / 100 % 100, api_.version);
    if (api_.setThreadIdType != nullptr) api_.setThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    // Before any kind is enabled. Where it is refused, times are the wall clock's and are shifted.
    own_clock_ = api_.registerTimestamp != nullptr && api_.registerTimestamp(timestamp) == CUPTI_SUCCESS;
    if (!own_clock_) shift_ = monotonicNs() - wallNs();
    if (const CUptiResult rc = api_.registerCallbacks(bufferRequested, bufferCompleted); rc != CUPTI_SUCCESS)
      return makeError("cupti-unavailable", "CUPTI does not take our buffers: " + api_.reason(rc));
    for (const Kind& k : kKinds) {
      const CUptiResult rc = api_.enable(k.kind);
      if (rc == CUPTI_SUCCESS)
        enabled_.push_back(k.kind);
      else
        counts_.missing.push_back(std::string(k.name) + ": " + api_.reason(rc));
    }
    if (enabled_.empty()) return makeError("cupti-unavailable", "CUPTI records nothing here: " + join(counts_.missing, "; "));
    return {};
  }

  void push(std::int32_t node) override {
    api_.pushExternal(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, static_cast<std::uint64_t>(node) + 1);
  }
  void pop() override {
    std::uint64_t last = 0;
    api_.popExternal(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  }
  void flush() override { api_.flushAll(0); }

  DeviceCounts stop() override {
    if (stopped_) return counts_;
    stopped_ = true;
    for (const CUpti_ActivityKind kind : enabled_) api_.disable(kind);
    api_.flushAll(1);  // also buffers that are not full; their callbacks run before it returns
    const std::lock_guard lock(g_mutex);
    if (g_active == this) g_active = nullptr;
    counts_.late_buffers = g_late.load();
    return counts_;
  }

  /// On a thread of CUPTI's, under g_mutex.
  void completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid) {
    const ParsedBuffer parsed = parseBuffer(api_, buffer, valid, [this](std::string_view text) { return spool_.string(text); });
    counts_.without_time += parsed.without_time;
    counts_.unknown += parsed.unknown;
    counts_.damaged += parsed.damaged;
    std::vector<DeviceRecord> records = parsed.records;
    for (DeviceRecord& r : records) r.start += shift_, r.end += shift_;
    const auto count = static_cast<std::int64_t>(records.size());
    if (count == 0 || spool_.append(SpoolBlock::kDevice, records.data(), records.size() * sizeof(DeviceRecord)))
      counts_.records += count;
    else
      counts_.dropped += count;
    if (!parsed.externals.empty())
      spool_.append(SpoolBlock::kExternal, parsed.externals.data(), parsed.externals.size() * sizeof(ExternalRecord));
    std::size_t dropped = 0;
    if (api_.getNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) counts_.dropped += static_cast<std::int64_t>(dropped);
  }

  const DeviceOptions& options() const { return options_; }

 private:
  CuptiApi api_;
  SpoolWriter& spool_;
  DeviceOptions options_;
  DeviceCounts counts_;
  std::vector<CUpti_ActivityKind> enabled_;
  bool own_clock_ = false, stopped_ = false;
  std::int64_t shift_ = 0;  ///< added to CUPTI's times
};

void CUPTIAPI bufferRequested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = nullptr;
  *size = 0;
  *most_records = 0;  // as many as fit
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(g_mutex);
    // Without a buffer CUPTI drops records and counts them, which is better than memory without bound.
    if (g_active == nullptr || g_buffers.load() >= static_cast<std::int64_t>(g_active->options().buffers)) return;
    bytes = g_active->options().buffer_bytes;
  }
  void* memory = std::aligned_alloc(kAlignment, bytes / kAlignment * kAlignment);
  if (memory == nullptr) return;
  ++g_buffers;
  *buffer = static_cast<std::uint8_t*>(memory);
  *size = bytes / kAlignment * kAlignment;
}

void CUPTIAPI bufferCompleted(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  {
    const std::lock_guard lock(g_mutex);
    if (g_active != nullptr)
      g_active->completed(context, stream, buffer, valid);
    else
      ++g_late;
  }
  std::free(buffer);
  --g_buffers;
}

}  // namespace

Result<std::unique_ptr<DeviceSource>> startDeviceSource(SpoolWriter& spool, const DeviceOptions& options) {
  SP_TRY(checkDriver(options.driver));
  const std::string path = options.cupti.empty() ? findCupti() : options.cupti;
  if (path.empty()) return makeError("cupti-unavailable", "a CUDA driver answers, but no libcupti was found");
  SP_ASSIGN(CuptiApi api, loadCupti(path));
  auto collector = std::make_unique<Collector>(std::move(api), spool, options);
  {
    const std::lock_guard lock(g_mutex);
    if (g_active != nullptr) return makeError("cupti-unavailable", "this process records already");
    g_active = collector.get();
    g_late = 0;
  }
  if (Status started = collector->start(); !started) {
    collector->stop();
    return std::move(started).error();
  }
  return collector;
}

}  // namespace spscope::trace
