// SPDX-License-Identifier: Apache-2.0
// Our all-to-all against a bare one of the same size: P processes over Gloo, in which c10d's own alltoall_base, our
// exchange of flat buffers, and our whole op of the graph (pack, exchange, unpack) take turns. Rank 0 prints a line of JSON
// for each size: the nanoseconds of every round, and the bytes sent.
//
//   all_to_all RANKS ROUNDS TOKENS...     q of [1, TOKENS / RANKS, 16, 64] float32 on each rank: sequence for heads
#include <ATen/ATen.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/dist/c10d/gloo.h"
#include "core/torch/block_cache.h"
#include "core/torch/memory.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/threads.h"

namespace spscope {
namespace {

constexpr std::int64_t kHeads = 16, kHeadDim = 64;

std::int64_t nanoseconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
}

struct Rank {
  int rank, ranks, rounds;
  std::unique_ptr<dist::Collectives> ours;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> bare;

  /// One round is what lies between two barriers of the bare group, on this rank.
  template <typename Call>
  Result<std::int64_t> round(Call&& call) {
    bare->barrier()->wait();
    const auto begin = std::chrono::steady_clock::now();
    SP_TRY(call());
    return nanoseconds(begin);
  }

  Status measure(std::int64_t tokens) {
    exec::Redistribution r;
    r.kind = exec::SpKind::kAllToAll;
    r.rank = rank;
    r.ranks = ranks;
    r.gather_dim = 1;
    r.scatter_dim = 2;
    r.gather_blocks.assign(static_cast<std::size_t>(ranks), tokens / ranks);
    r.scatter_blocks.assign(static_cast<std::size_t>(ranks), kHeads / ranks);
    r.input = {1, tokens / ranks, kHeads, kHeadDim};
    r.output = {1, tokens, kHeads / ranks, kHeadDim};
    const at::Tensor q = at::rand({1, tokens / ranks, kHeads, kHeadDim});
    const at::Tensor send = q.reshape({-1});
    at::Tensor recv = at::empty_like(send);
    const ir::Dims counts = r.sendCounts();
    std::vector<std::int64_t> bare_counts(counts.begin(), counts.end());

    std::vector<std::int64_t> bare_ns, exchange_ns, op_ns;
    const auto run_bare = [&]() -> Status {
      bare->alltoall_base(recv, const_cast<at::Tensor&>(send), bare_counts, bare_counts)->wait();
      return {};
    };
    const auto run_exchange = [&] {
      return ours->allToAll({send.data_ptr(), send.numel(), ir::DType::kF32}, counts, {recv.data_ptr(), recv.numel(), ir::DType::kF32}, counts);
    };
    at::Tensor result;
    const auto run_op = [&]() -> Status {
      at::Tensor packed = exec::packForSend(r, q), received = exec::makeReceiveBuffer(r, q);
      SP_TRY(ours->allToAll({packed.data_ptr(), packed.numel(), ir::DType::kF32}, counts, {received.data_ptr(), received.numel(), ir::DType::kF32}, counts));
      packed.reset();
      result = exec::unpackReceived(r, std::move(received));
      return {};
    };
    for (int i = -2; i < rounds; ++i) {  // two to warm up
      SP_ASSIGN(const std::int64_t a, round(run_bare));
      const double bare_sum = recv.sum().item<double>();
      SP_ASSIGN(const std::int64_t b, round(run_exchange));
      if (recv.sum().item<double>() != bare_sum) return makeError("internal", "our exchange brings other values than the bare one", Outcome::kRunFailed);
      SP_ASSIGN(const std::int64_t c, round(run_op));
      if (std::abs(result.sum().item<double>() - result.numel() * 0.5) > 0.05 * static_cast<double>(result.numel()))
        return makeError("internal", "our op brings no uniform numbers", Outcome::kRunFailed);
      if (i < 0) continue;
      bare_ns.push_back(a), exchange_ns.push_back(b), op_ns.push_back(c);
    }
    if (rank != 0) return {};
    const std::int64_t bare_bytes = send.numel() / ranks * (ranks - 1) * 4;
    std::printf("{\"tokens\":%lld,\"buffer_bytes\":%lld,\"bare_bytes\":%lld,\"our_bytes\":%lld,\"bare_ns\":[%s],\"exchange_ns\":[%s],\"op_ns\":[%s]}\n",
                static_cast<long long>(tokens), static_cast<long long>(send.numel() * 4), static_cast<long long>(bare_bytes),
                static_cast<long long>(r.bytesSent(4)), join(bare_ns, ",").c_str(), join(exchange_ns, ",").c_str(), join(op_ns, ",").c_str());
    std::fflush(stdout);
    return {};
  }
};

Status serve(const std::string& folder, int rank, int ranks, int rounds, const std::vector<std::int64_t>& sizes) {
  exec::setThreads(1);
  exec::installCountingAllocator();  // as every rank does
  exec::keepFreedBlocks();
  dist::Rendezvous at;
  at.rank = rank;
  at.size = ranks;
  at.file = folder + "/ours";
  Rank self{rank, ranks, rounds, nullptr, {}};
  SP_ASSIGN(self.ours, dist::connectGloo(at));
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  self.bare = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(folder + "/bare", ranks), rank, ranks, options);
  for (const std::int64_t tokens : sizes) SP_TRY(self.measure(tokens));
  return {};
}

}  // namespace
}  // namespace spscope

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: all_to_all RANKS ROUNDS TOKENS...\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]), rounds = std::atoi(argv[2]);
  std::vector<std::int64_t> sizes;
  for (int i = 3; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  std::string folder = (std::filesystem::temp_directory_path() / "spscope-bench-XXXXXX").string();
  if (!::mkdtemp(folder.data())) return 1;
  int failed = 0;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {  // before libtorch has any thread
    const pid_t pid = ::fork();
    if (pid == 0) {
      const spscope::Status status = spscope::serve(folder, rank, ranks, rounds, sizes);
      if (!status) std::fprintf(stderr, "all_to_all: rank %d: %s\n", rank, status.error().format().c_str());
      std::fflush(nullptr);
      std::_Exit(status ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failed += status != 0;
  }
  std::filesystem::remove_all(folder);
  return failed ? 1 : 0;
}
