// SPDX-License-Identifier: Apache-2.0
// How fast a trace is read, and with how much memory.
//
//   trace_import generate EVENTS FILE   writes Kineto-shaped JSON: launches with their kernels and arrows, copies, Python
//                                       frames, allocations, in the proportions and with the names of real files; properly
//                                       nested, about 310 bytes an event, always the same for the same number
//   trace_import read FILE...           reads it and prints one JSON object: events, bytes, CPU seconds (user, system),
//                                       peak resident bytes of the whole process
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "profiler/import/import.h"

using namespace spscope;

namespace {

/// xorshift: the same numbers everywhere.
class Random {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

const char* const kOps[] = {"aten::linear", "aten::addmm", "aten::mul", "aten::native_layer_norm", "aten::scaled_dot_product_attention", "aten::copy_", "aten::add", "aten::gelu"};
const char* const kBackward[] = {"autograd::engine::evaluate_function: AddmmBackward0", "autograd::engine::evaluate_function: MulBackward0", "autograd::engine::evaluate_function: NativeLayerNormBackward0"};
const char* const kKernels[] = {
    "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>",
};

class Writer {
 public:
  Writer(std::FILE* file, std::int64_t events) : file_(file), left_(events) {}

  void run() {
    std::fputs("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \"numSms\": 132\n    }\n  ],\n"
               "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 2, \"pg_count\": 1},\n  \"displayTimeUnit\": \"ms\",\n"
               "  \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [\n", file_);
    while (left_ > 0) launch();
    std::fputs("\n  ],\n  \"traceName\": \"generated.json\"\n}\n", file_);
  }

 private:
  [[gnu::format(printf, 2, 3)]] void event(const char* format, ...) {
    if (left_-- <= 0) return;
    std::fputs(first_ ? "  {\n" : ",\n  {\n", file_);
    first_ = false;
    va_list args;
    va_start(args, format);
    std::vfprintf(file_, format, args);
    va_end(args);
    std::fputs("\n  }", file_);
  }
  static std::string us(std::int64_t ns) { return strf("%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000)); }

  /// One op that launches one kernel: two ops, a Python frame, the call, the work, the arrow, now and then an allocation.
  void launch() {
    const std::int64_t start = now_, call = start + 9000 + random_.below(4000), end = call + 9000 + random_.below(6000);
    gpu_ = std::max(gpu_, call + 5000);
    const std::int64_t duration = 1200 + random_.below(90000);
    const int kind = random_.below(20), correlation = ++id_;
    if (kind % 5 == 0)
      event("    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch/nn/modules/module.py(1773): _call_impl\", \"pid\": 3011, \"tid\": 3011,\n    \"ts\": %s, \"dur\": %s,\n"
            "    \"args\": {\n      \"Python id\": %d, \"Python parent id\": %d, \"Python module id\": %d, \"Ev Idx\": %d\n    }",
            us(start - 400).c_str(), us(end - start + 900).c_str(), id_, id_ - 1, random_.below(400), id_);
    const char* op = kind % 3 == 0 ? kBackward[random_.below(3)] : kOps[random_.below(8)];
    for (int inner = 0; inner < 2; ++inner)
      event("    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 3011, \"tid\": %d,\n    \"ts\": %s, \"dur\": %s,\n"
            "    \"args\": {\n      \"External id\": %d,\"Record function id\": 0, \"Sequence number\": %d, \"Fwd thread id\": %d, \"Concrete Inputs\": [\"\", \"\", \"\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", \"\"], "
            "\"Input Dims\": [[1, %d, 4096], [4096, 4096], []], \"Ev Idx\": %d\n    }",
            op, kind % 3 == 0 ? 3322 : 3011, us(start + inner * 2000).c_str(), us(end - start - inner * 4000).c_str(), 2 * id_ + inner, id_, kind % 3 == 0 ? 1 : 0, 1024 << random_.below(5), 2 * id_ + inner);
    event("    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 3011, \"tid\": %d,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"External id\": %d, \"cbid\": 211, \"correlation\": %d\n    }",
          kind % 3 == 0 ? 3322 : 3011, us(call).c_str(), us(4000 + random_.below(3000)).c_str(), 2 * id_ + 1, correlation);
    event("    \"ph\": \"s\", \"id\": %d, \"pid\": 3011, \"tid\": %d, \"ts\": %s,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"", correlation, kind % 3 == 0 ? 3322 : 3011, us(call).c_str());
    if (kind == 7) {
      event("    \"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy DtoD (Device -> Device)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"External id\": %d, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": %d, \"bytes\": %d, \"memory bandwidth (GB/s)\": %d.25\n    }",
            us(gpu_).c_str(), us(duration).c_str(), 2 * id_ + 1, correlation, 4096 * (1 + random_.below(4096)), random_.below(2000));
    } else {
      event("    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"External id\": %d, \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %d,\n"
            "      \"registers per thread\": %d,\n      \"shared memory\": %d,\n      \"blocks per SM\": %d.%03d,\n      \"warps per SM\": %d.%03d,\n      \"grid\": [%d, 1, 1],\n      \"block\": [%d, 1, 1],\n      \"est. achieved occupancy %%\": %d\n    }",
            kKernels[random_.below(5)], us(gpu_).c_str(), us(duration).c_str(), 2 * id_ + 1, correlation, 32 + random_.below(200), 1024 * random_.below(160), random_.below(64), random_.below(1000), random_.below(64), random_.below(1000), 1 + random_.below(65535), 32 << random_.below(5), random_.below(100));
    }
    event("    \"ph\": \"f\", \"id\": %d, \"pid\": 0, \"tid\": 7, \"ts\": %s,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"", correlation, us(gpu_).c_str());
    if (kind < 4)
      event("    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": 3011, \"tid\": 3011,\n    \"ts\": %s,\n    \"args\": {\n      \"Total Reserved\": 12782141440, \"Total Allocated\": %lld, \"Bytes\": %d, \"Addr\": %lld, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": %d\n    }",
            us(start + 500).c_str(), 5000000000LL + random_.below(1 << 30), 512 * (1 + random_.below(10000)) * (kind % 2 ? 1 : -1), 139926520725504LL + 512LL * random_.below(1 << 20), id_);
    gpu_ += duration + 300;
    now_ = end + 700;
  }

  std::FILE* file_;
  std::int64_t left_;
  bool first_ = true;
  Random random_;
  int id_ = 0;
  std::int64_t now_ = 5103325114000000, gpu_ = 0;
};

int generate(std::int64_t events, const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return std::perror(path), 1;
  std::vector<char> buffer(1 << 20);
  std::setvbuf(file, buffer.data(), _IOFBF, buffer.size());
  Writer(file, events).run();
  if (std::fclose(file) != 0) return std::perror(path), 1;
  return 0;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

int read(const std::vector<std::string>& paths) {
  std::int64_t bytes = 0;
  for (const std::string& path : paths)
    if (struct stat info {}; ::stat(path.c_str(), &info) == 0) bytes += info.st_size;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto trace = trace::importTraces(paths);
  getrusage(RUSAGE_SELF, &after);
  if (!trace) return std::fprintf(stderr, "%s\n", trace.error().format().c_str()), 1;
  const double user = seconds(after.ru_utime) - seconds(before.ru_utime), system = seconds(after.ru_stime) - seconds(before.ru_stime);
  std::printf("{\"events\": %zu, \"memory_events\": %zu, \"bytes\": %lld, \"cpu_seconds\": %.3f, \"user_seconds\": %.3f, \"system_seconds\": %.3f, \"peak_bytes\": %lld}\n",
              trace->events.size(), trace->memory.size(), static_cast<long long>(bytes), user + system, user, system, static_cast<long long>(after.ru_maxrss) * 1024);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "generate") == 0) return generate(std::atoll(argv[2]), argv[3]);
  if (argc >= 3 && std::strcmp(argv[1], "read") == 0) return read({argv + 2, argv + argc});
  std::fprintf(stderr, "trace_import generate EVENTS FILE | read FILE...\n");
  return 2;
}
