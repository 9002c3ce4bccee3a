// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcudart.so: one device whose memory is numbers, so that libtorch's caching allocator of CUDA memory runs
// where there is no GPU. Loaded before the real one, its functions take the place of those that the allocator calls.
#include "tests/support/fake_cudart/fake_cudart.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <set>
#include <string>

namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

struct Device {
  std::size_t capacity = std::size_t{1} << 40, given = 0;
  std::size_t next = std::size_t{1} << 40;    // address
  std::map<std::size_t, std::size_t> blocks;  // address -> bytes
  std::map<CUmemGenericAllocationHandle, std::size_t> handles;
  CUmemGenericAllocationHandle next_handle = 1;
  std::set<std::size_t> busy;                 // events that have not happened
  std::map<std::size_t, std::size_t> stream_of;
  std::size_t next_event = 1, next_stream = 1;
};

Device& device() {
  static Device it;
  return it;
}

std::size_t number(const void* p) { return reinterpret_cast<std::size_t>(p); }
template <typename T>
T pointer(std::size_t n) {
  return reinterpret_cast<T>(n);  // NOLINT: addresses are numbers here
}

// The driver's part: expandable segments.
CUresult reserve(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  *out = device().next;
  device().next += bytes + kPage;
  return CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult create(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp*, unsigned long long) {
  Device& d = device();
  if (d.given + bytes > d.capacity) return CUDA_ERROR_OUT_OF_MEMORY;
  d.given += bytes;
  d.handles[*out = d.next_handle++] = bytes;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  device().given -= device().handles[handle];
  device().handles.erase(handle);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long) { return CUDA_SUCCESS; }
CUresult unmap(CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult access(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return CUDA_SUCCESS; }
CUresult attribute(int* out, CUdevice_attribute, CUdevice) {
  *out = 0;
  return CUDA_SUCCESS;
}
CUresult deviceOf(CUdevice* out, int ordinal) {
  *out = ordinal;
  return CUDA_SUCCESS;
}
CUresult errorText(CUresult, const char** out) {
  *out = "an error of the stand-in";
  return CUDA_SUCCESS;
}
CUresult granularity(std::size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *out = kPage;
  return CUDA_SUCCESS;
}
CUresult missing() { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace

void fakeCudaCapacity(std::size_t bytes) { device().capacity = bytes; }
std::size_t fakeCudaGiven() { return device().given; }
void fakeCudaReached(void* stream) {
  Device& d = device();
  for (auto it = d.busy.begin(); it != d.busy.end();) it = d.stream_of[*it] == number(stream) ? d.busy.erase(it) : std::next(it);
}

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  Device& d = device();
  if (d.given + bytes > d.capacity) return cudaErrorMemoryAllocation;
  d.given += bytes;
  *out = pointer<void*>(d.next);
  d.blocks[d.next] = bytes;
  d.next += bytes + kPage;  // never neighbours
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  Device& d = device();
  const auto it = d.blocks.find(number(p));
  if (it == d.blocks.end()) return cudaErrorInvalidValue;
  d.given -= it->second;
  d.blocks.erase(it);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = device().capacity - device().given;
  *total = device().capacity;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* out) {
  *out = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  std::memset(static_cast<void*>(out), 0, sizeof *out);
  out->totalGlobalMem = device().capacity;
  out->major = 8;  // newer ones are asked through NVML whether they are part of a fabric
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* out) {
  *out = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  device().busy.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned, int) {
  *out = pointer<cudaStream_t>(device().next_stream++ << 4);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fakeCudaReached(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* out) {
  *out = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  *out = pointer<cudaEvent_t>(device().next_event++ << 4);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  device().busy.erase(number(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  device().busy.insert(number(event));
  device().stream_of[number(event)] = number(stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return device().busy.count(number(event)) > 0 ? cudaErrorNotReady : cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  device().busy.erase(number(event));
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
const char* cudaGetErrorName(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* status) {
  static const std::map<std::string, void*> kKnown{
      {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)}, {"cuMemAddressFree", reinterpret_cast<void*>(&unreserve)},
      {"cuMemCreate", reinterpret_cast<void*>(&create)},          {"cuMemRelease", reinterpret_cast<void*>(&release)},
      {"cuMemMap", reinterpret_cast<void*>(&map)},                {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&access)},       {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
      {"cuDeviceGet", reinterpret_cast<void*>(&deviceOf)},        {"cuGetErrorString", reinterpret_cast<void*>(&errorText)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)}};
  const auto it = kKnown.find(name);
  *out = it == kKnown.end() ? reinterpret_cast<void*>(&missing) : it->second;
  if (status != nullptr) *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
