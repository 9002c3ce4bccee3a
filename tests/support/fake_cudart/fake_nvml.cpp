// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so.1, whose name it bears: libc10_cuda asks it for the device before it maps pages, to learn
// whether it is part of a fabric, and for the processes on it when it is out of memory. It knows no device.
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** out) {
  *out = nullptr;
  return 0;
}
// Looked up, not called; NVML_ERROR_NOT_SUPPORTED.
int nvmlDeviceGetNvLinkRemoteDeviceType() { return 3; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2() { return 3; }
int nvmlDeviceGetComputeRunningProcesses() { return 3; }
int nvmlDeviceGetGpuFabricInfoV() { return 3; }
int nvmlSystemGetCudaDriverVersion_v2() { return 3; }
}
