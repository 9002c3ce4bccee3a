// SPDX-License-Identifier: Apache-2.0
// How a test steers the stand-in for libcupti: found with dlsym in the library that was loaded.
#pragma once

#include <cstdint>

extern "C" {
/// From the next start on: the API version that it claims, with that version's kernel records (208, 216 or 224 bytes).
void fakeCuptiReset(std::uint32_t version);
/// cuptiActivityEnable answers 999 for this kind.
void fakeCuptiRefuse(int kind);
void fakeCuptiRefuseTimestamps();
/// Launches on this thread: per kernel an API record, an external correlation record where an id is pushed, and a kernel
/// record, in that order, but device records in a buffer of their own. Start times from our clock.
void fakeCuptiLaunch(int kernels);
/// What the kernels that are launched from now on are called; static text. Reset gives back the first name.
void fakeCuptiNameKernels(const char* name);
/// One launch call with this many kernels of one correlation id (a CUDA graph).
void fakeCuptiLaunchGraph(int kernels);
/// A copy of these bytes from pageable host to device, a memset, an allocation and a release, a synchronisation, an overhead.
void fakeCuptiOthers(std::uint64_t bytes);
/// A kernel record without times.
void fakeCuptiTimeless();
/// The library's own count of dropped records, told once.
void fakeCuptiDrop(std::uint64_t records);
/// A buffer that was handed out and comes back only at fakeCuptiReturn(): after the flush, even after the end.
void fakeCuptiHold();
void fakeCuptiReturn();
/// Ends the next buffer in the middle of a record.
void fakeCuptiDamage();
/// Buffers asked for and given back so far.
std::uint64_t fakeCuptiRequested();
std::uint64_t fakeCuptiCompleted();
/// Kinds that are enabled now.
int fakeCuptiEnabled();
}
