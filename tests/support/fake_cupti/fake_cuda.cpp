// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: a driver that starts, or does not (FAKE_CUDA_INIT is the code that cuInit gives).
#include <cstdlib>

extern "C" int cuInit(unsigned) {
  const char* code = std::getenv("FAKE_CUDA_INIT");
  return code != nullptr ? std::atoi(code) : 0;
}
