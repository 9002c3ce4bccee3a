// SPDX-License-Identifier: Apache-2.0
// Collectives over NCCL's own C interface, on device memory and the current CUDA stream.
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
#include <numeric>
#include <optional>
#include <thread>

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
    const auto type = sumType(buffer.dtype);
    if (!type) return noSum(buffer.dtype);
    return run("all_reduce", [&](cudaStream_t stream) {
      return ncclAllReduce(buffer.data, buffer.data, static_cast<std::size_t>(buffer.count), *type, ncclSum, comm_, stream);
    });
  }

  Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv,
                  std::span<const std::int64_t> recv_counts) override {
    const std::int64_t element = ir::sizeOf(send.dtype);
    return run("all_to_all", [&](cudaStream_t stream) {
      auto* from = static_cast<char*>(send.data);
      auto* to = static_cast<char*>(recv.data);
      for (int r = 0; r < size(); ++r) {
        const std::int64_t out = send_counts[static_cast<std::size_t>(r)] * element;
        const std::int64_t in = recv_counts[static_cast<std::size_t>(r)] * element;
        if (const auto rc = sendBytes(from, out, r, stream); bad(rc)) return rc;
        if (const auto rc = recvBytes(to, in, r, stream); bad(rc)) return rc;
        from += out;
        to += in;
      }
      return ncclSuccess;
    });
  }

  Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    const std::int64_t element = ir::sizeOf(recv.dtype);
    return run("all_gather", [&](cudaStream_t stream) {
      auto* to = static_cast<char*>(recv.data);
      for (int r = 0; r < size(); ++r) {
        const std::int64_t in = counts[static_cast<std::size_t>(r)] * element;
        if (const auto rc = sendBytes(send.data, send.count * element, r, stream); bad(rc)) return rc;
        if (const auto rc = recvBytes(to, in, r, stream); bad(rc)) return rc;
        to += in;
      }
      return ncclSuccess;
    });
  }

  Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    const auto type = sumType(send.dtype);
    if (!type) return noSum(send.dtype);
    const std::int64_t element = ir::sizeOf(send.dtype);
    return run("reduce_scatter", [&](cudaStream_t stream) {
      auto* from = static_cast<char*>(send.data);
      for (int r = 0; r < size(); ++r) {  // ncclReduceScatter wants equal blocks; one grouped reduction per block does not
        const std::int64_t count = counts[static_cast<std::size_t>(r)];
        if (count > 0)
          if (const auto rc = ncclReduce(from, recv.data, static_cast<std::size_t>(count), *type, ncclSum, r, comm_, stream); bad(rc))
            return rc;
        from += count * element;
      }
      return ncclSuccess;
    });
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

  /// One collective: issued as a group on the current stream, then waited for.
  template <typename Issue>
  Status run(const char* op, Issue issue) {
    if (failed_) return *failed_;
    op_ = op;
    ++sequence_;
    deadline_ = Clock::now() + options_.timeout;
    if (options_.on_collective) options_.on_collective(op, sequence_, true);
    const c10::cuda::CUDAGuard guard(device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device()).stream();
    ncclResult_t rc = ncclGroupStart();
    if (!bad(rc)) rc = issue(stream);
    const ncclResult_t end = ncclGroupEnd();
    if (bad(rc) || bad(end)) return fail(ncclGetErrorString(bad(rc) ? rc : end));
    SP_TRY(settle());
    if (cudaEventRecord(done_, stream) != cudaSuccess) return fail("cudaEventRecord failed");
    SP_TRY(awaitEvent());
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
      SP_TRY(pause());
    }
  }

  Status awaitEvent() {
    for (;;) {
      const cudaError_t rc = cudaEventQuery(done_);
      if (rc == cudaSuccess) return {};
      if (rc != cudaErrorNotReady) return fail(cudaGetErrorString(rc));
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && bad(state)) return fail(ncclGetErrorString(state));
      SP_TRY(pause());
    }
  }

  Status pause() {
    if (Clock::now() < deadline_) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      return {};
    }
    return fail(strf("not ended within %.1f s", static_cast<double>(options_.timeout.count()) / 1e3), "collective-timeout");
  }

  Status fail(const std::string& what, std::string_view code = "nccl-failed") {
    failed_ = makeError(code, strf("rank %d, %s #%lld: %s", rank(), op_, static_cast<long long>(sequence_), what.c_str()),
                        Outcome::kRunFailed);
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
