// SPDX-License-Identifier: Apache-2.0
// Collectives over NCCL's own C interface, on device memory. A blocking one runs on the current CUDA stream; a started one on
// a stream of its own, behind what the current stream had been given by then, and the current stream goes on behind it when
// it is waited for.
//
// c10d's NCCL process group is not used: its headers need parts of the CUDA tool kit that the lean set-up lacks, and the
// streams are to be ours. NOT YET RUN: written and linked on machines without a GPU; docs/launching.md says so, too.
//
// Every wait polls: the stream's event, NCCL's asynchronous error, the deadline. After a failure the communicator is
// aborted (ncclCommAbort), never destroyed: destroying waits for kernels that wait for a peer that has gone.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/dist/nccl_loader.h"
#include "core/dist/gpu_entry.h"

namespace spscope::dist {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<ncclDataType_t> sumType(ir::DType type) {
  switch (type) {
    case ir::DType::kF64: return ncclFloat64;
    case ir::DType::kF32: return ncclFloat32;
    case ir::DType::kF16: return ncclFloat16;
    case ir::DType::kBF16: return ncclBfloat16;
    case ir::DType::kI64: return ncclInt64;
    case ir::DType::kU64: return ncclUint64;
    case ir::DType::kI32: return ncclInt32;
    case ir::DType::kU32: return ncclUint32;
    case ir::DType::kI8: return ncclInt8;
    case ir::DType::kU8: return ncclUint8;
    default: return {};
  }
}

std::string toHex(const ncclUniqueId& id) {
  std::string out;
  for (const char c : id.internal) out += strf("%02x", static_cast<unsigned char>(c));
  return out;
}

bool fromHex(const std::string& text, ncclUniqueId* id) {
  if (text.size() != 2 * NCCL_UNIQUE_ID_BYTES) return false;
  for (std::size_t i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i)
    id->internal[i] = static_cast<char>(std::strtol(text.substr(2 * i, 2).c_str(), nullptr, 16));
  return true;
}

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(std::unique_ptr<Collectives> bootstrap, NcclOptions options)
      : bootstrap_(std::move(bootstrap)), options_(std::move(options)) {}

  ~NcclCollectives() override {
    for (auto& [ticket, pending] : pending_) cudaEventDestroy(pending.done);
    for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (comm_ == nullptr) return;
    if (failed_)
      ncclCommAbort(comm_);
    else
      ncclCommDestroy(comm_);
  }

  Status connect() {
    const c10::cuda::CUDAGuard guard(device());
    if (cudaEventCreateWithFlags(&done_, cudaEventDisableTiming) != cudaSuccess) return fail("no CUDA event");
    ncclUniqueId id{};
    std::string mine;
    if (rank() == 0) mine = ncclGetUniqueId(&id) == ncclSuccess ? toHex(id) : "failed";
    SP_ASSIGN(const auto texts, bootstrap_->allGatherText(mine));
    if (!fromHex(texts[0], &id)) return fail("rank 0 has no NCCL id");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that never comes is noticed by the deadline
    deadline_ = Clock::now() + options_.connect_timeout;
    op_ = "connect";
    const ncclResult_t rc = ncclCommInitRankConfig(&comm_, size(), id, rank(), &config);
    if (rc != ncclSuccess && rc != ncclInProgress) return fail(ncclGetErrorString(rc));
    return settle();
  }

  int rank() const override { return bootstrap_->rank(); }
  int size() const override { return bootstrap_->size(); }
  std::int64_t sequence() const override { return sequence_; }

  Status allReduceSum(Buffer buffer) override {
    return one(CollectiveKind::kAllReduce, {{}, buffer, {}, {}});
  }
  Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv,
                  std::span<const std::int64_t> recv_counts) override {
    return one(CollectiveKind::kAllToAll, {send, recv, {send_counts.begin(), send_counts.end()}, {recv_counts.begin(), recv_counts.end()}});
  }
  Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return one(CollectiveKind::kAllGather, {send, recv, {}, {counts.begin(), counts.end()}});
  }
  Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return one(CollectiveKind::kReduceScatter, {send, recv, {counts.begin(), counts.end()}, {}});
  }

  Status runAll(CollectiveKind kind, std::span<const CollectivePart> parts) override {
    SP_TRY(canDo(kind, parts));
    return run(collectiveName(kind).data(), [&](cudaStream_t stream) { return issue(kind, parts, stream); });
  }

  Result<std::int64_t> start(CollectiveKind kind, std::vector<CollectivePart> parts, std::shared_ptr<const void> keep) override {
    if (failed_) return *failed_;
    SP_TRY(canDo(kind, parts));
    const c10::cuda::CUDAGuard guard(device());
    if (!side_) side_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device());
    const cudaStream_t current = c10::cuda::getCurrentCUDAStream(device()).stream();
    open(collectiveName(kind).data());
    Pending pending;
    pending.op = op_;
    pending.sequence = sequence_;
    pending.keep = std::move(keep);
    pending.times.begin_ns = monotonicNs();
    SP_ASSIGN(pending.done, event());
    if (cudaEventRecord(pending.done, current) != cudaSuccess || cudaStreamWaitEvent(side_->stream(), pending.done, 0) != cudaSuccess)
      return failure("the streams cannot be ordered");
    SP_TRY(group([&] { return issue(kind, parts, side_->stream()); }));
    if (cudaEventRecord(pending.done, side_->stream()) != cudaSuccess) return failure("cudaEventRecord failed");
    pending_[sequence_] = std::move(pending);
    return sequence_;
  }

  Result<CollectiveTimes> wait(std::int64_t ticket) override {
    if (failed_) return *failed_;
    const auto entry = pending_.find(ticket);
    if (entry == pending_.end())
      return makeError("internal", "a collective is waited for that was not started, or that was waited for", Outcome::kRunFailed);
    Pending& pending = entry->second;
    const c10::cuda::CUDAGuard guard(device());
    op_ = pending.op;
    deadline_ = Clock::now() + options_.timeout;
    SP_TRY(awaitEvent(pending.done, pending.sequence));
    pending.times.end_ns = monotonicNs();
    if (cudaStreamWaitEvent(c10::cuda::getCurrentCUDAStream(device()).stream(), pending.done, 0) != cudaSuccess)
      return failure("the streams cannot be ordered");
    if (options_.on_collective) options_.on_collective(pending.op, pending.sequence, false);
    const CollectiveTimes times = pending.times;
    spare_.push_back(pending.done);
    pending_.erase(entry);
    return times;
  }

  Status barrier() override {
    SP_TRY(run("barrier", [](cudaStream_t) { return ncclSuccess; }));  // what was issued before has ended on this device
    return bootstrap_->barrier();
  }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override { return bootstrap_->allGatherText(text); }

 private:
  c10::DeviceIndex device() const { return static_cast<c10::DeviceIndex>(options_.device); }
  static bool bad(ncclResult_t rc) { return rc != ncclSuccess && rc != ncclInProgress; }
  ncclResult_t sendBytes(const void* from, std::int64_t bytes, int peer, cudaStream_t stream) {
    return bytes == 0 ? ncclSuccess : ncclSend(from, static_cast<std::size_t>(bytes), ncclInt8, peer, comm_, stream);
  }
  ncclResult_t recvBytes(void* to, std::int64_t bytes, int peer, cudaStream_t stream) {
    return bytes == 0 ? ncclSuccess : ncclRecv(to, static_cast<std::size_t>(bytes), ncclInt8, peer, comm_, stream);
  }

  /// A started collective.
  struct Pending {
    const char* op = "";
    std::int64_t sequence = 0;
    cudaEvent_t done = nullptr;
    std::shared_ptr<const void> keep;
    CollectiveTimes times;
  };

  Result<cudaEvent_t> event() {
    cudaEvent_t event = nullptr;
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
      return failure("no CUDA event");
    }
    return event;
  }

  Status canDo(CollectiveKind kind, std::span<const CollectivePart> parts) const {
    for (const CollectivePart& p : parts)
      if ((kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) && !sumType(p.recv.dtype)) return noSum(p.recv.dtype);
    return {};
  }
  Status one(CollectiveKind kind, const CollectivePart& part) { return runAll(kind, {&part, 1}); }

  /// All operands, inside a group.
  ncclResult_t issue(CollectiveKind kind, std::span<const CollectivePart> parts, cudaStream_t stream) {
    for (const CollectivePart& p : parts)
      if (const auto rc = issuePart(kind, p, stream); bad(rc)) return rc;
    return ncclSuccess;
  }
  ncclResult_t issuePart(CollectiveKind kind, const CollectivePart& p, cudaStream_t stream) {
    const std::int64_t element = ir::sizeOf(p.recv.dtype);
    if (kind == CollectiveKind::kAllReduce)
      return ncclAllReduce(p.recv.data, p.recv.data, static_cast<std::size_t>(p.recv.count), *sumType(p.recv.dtype), ncclSum, comm_, stream);
    auto* from = static_cast<char*>(p.send.data);
    auto* to = static_cast<char*>(p.recv.data);
    for (int r = 0; r < size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (kind == CollectiveKind::kReduceScatter) {  // ncclReduceScatter wants equal blocks; one reduction per block does not
        const std::int64_t count = p.send_counts[i];
        if (count > 0)
          if (const auto rc = ncclReduce(from, p.recv.data, static_cast<std::size_t>(count), *sumType(p.send.dtype), ncclSum, r, comm_, stream); bad(rc))
            return rc;
        from += count * element;
        continue;
      }
      const bool all = kind == CollectiveKind::kAllGather;  // everything to everyone
      const std::int64_t out = (all ? p.send.count : p.send_counts[i]) * element;
      const std::int64_t in = p.recv_counts[i] * element;
      if (const auto rc = sendBytes(from, out, r, stream); bad(rc)) return rc;
      if (const auto rc = recvBytes(to, in, r, stream); bad(rc)) return rc;
      if (!all) from += out;
      to += in;
    }
    return ncclSuccess;
  }

  void open(const char* op) {
    op_ = op;
    ++sequence_;
    deadline_ = Clock::now() + options_.timeout;
    if (options_.on_collective) options_.on_collective(op, sequence_, true);
  }
  template <typename Issue>
  Status group(Issue issue) {
    ncclResult_t rc = ncclGroupStart();
    if (!bad(rc)) rc = issue();
    const ncclResult_t end = ncclGroupEnd();
    if (bad(rc) || bad(end)) return fail(ncclGetErrorString(bad(rc) ? rc : end));
    return settle();
  }

  /// One collective: issued as a group on the current stream, then waited for.
  template <typename Issue>
  Status run(const char* op, Issue issue) {
    if (failed_) return *failed_;
    open(op);
    const c10::cuda::CUDAGuard guard(device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device()).stream();
    SP_TRY(group([&] { return issue(stream); }));
    if (cudaEventRecord(done_, stream) != cudaSuccess) return fail("cudaEventRecord failed");
    SP_TRY(awaitEvent(done_, sequence_));
    if (options_.on_collective) options_.on_collective(op, sequence_, false);
    return {};
  }

  /// Waits until the non-blocking communicator has taken what it was given.
  Status settle() {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      if (const auto rc = ncclCommGetAsyncError(comm_, &state); bad(rc)) return fail(ncclGetErrorString(rc));
      if (state == ncclSuccess) return {};
      if (state != ncclInProgress) return fail(ncclGetErrorString(state));
      SP_TRY(pause(sequence_));
    }
  }

  Status awaitEvent(cudaEvent_t event, std::int64_t sequence) {
    for (;;) {
      const cudaError_t rc = cudaEventQuery(event);
      if (rc == cudaSuccess) return {};
      if (rc != cudaErrorNotReady) return fail(cudaGetErrorString(rc));
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && bad(state)) return fail(ncclGetErrorString(state));
      SP_TRY(pause(sequence));
    }
  }

  Status pause(std::int64_t sequence) {
    if (Clock::now() < deadline_) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      return {};
    }
    return fail(strf("not ended within %.1f s", static_cast<double>(options_.timeout.count()) / 1e3), "collective-timeout", sequence);
  }

  Status fail(const std::string& what, std::string_view code = "nccl-failed", std::int64_t sequence = 0) {
    return failure(what, code, sequence);
  }
  Error failure(const std::string& what, std::string_view code = "nccl-failed", std::int64_t sequence = 0) {
    failed_ = makeError(code, strf("rank %d, %s #%lld: %s", rank(), op_, static_cast<long long>(sequence > 0 ? sequence : sequence_),
                                   what.c_str()), Outcome::kRunFailed);
    return *failed_;
  }

  Status noSum(ir::DType type) const {
    return makeError("collective-dtype", strf("elements of type %s cannot be summed over ranks by NCCL",
                                              std::string(ir::longName(type)).c_str()), Outcome::kRunFailed);
  }

  std::unique_ptr<Collectives> bootstrap_;
  NcclOptions options_;
  ncclComm_t comm_ = nullptr;
  cudaEvent_t done_ = nullptr;
  std::optional<c10::cuda::CUDAStream> side_;   ///< of started collectives
  std::map<std::int64_t, Pending> pending_;     ///< by ticket: the sequence number
  std::vector<cudaEvent_t> spare_;
  const char* op_ = "";
  std::int64_t sequence_ = 0;
  Clock::time_point deadline_;
  std::optional<Error> failed_;
};

}  // namespace
}  // namespace spscope::dist

// Named without C++ decoration so that dlsym finds them. The types are C++'s own: see gpu_entry.h.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"
#endif
extern "C" {

[[gnu::visibility("default")]] int spscope_gpu_version() { return spscope::dist::kGpuInterfaceVersion; }

[[gnu::visibility("default")]] spscope::Result<std::unique_ptr<spscope::dist::Collectives>> spscope_nccl_connect(
    std::unique_ptr<spscope::dist::Collectives> bootstrap, const spscope::dist::NcclOptions& options) {
  try {
    auto group = std::make_unique<spscope::dist::NcclCollectives>(std::move(bootstrap), options);
    SP_TRY(group->connect());
    return std::unique_ptr<spscope::dist::Collectives>(std::move(group));
  } catch (const std::exception& e) {
    return spscope::makeError("nccl-failed", spscope::split(e.what(), '\n').front(), spscope::Outcome::kRunFailed);
  }
}
}
