// SPDX-License-Identifier: Apache-2.0
// Threads of one rank. libtorch's default (all cores, spinning at barriers) makes small ops 100 times slower when ranks
// share a machine, so every rank gets cores / ranks threads and passive waiting. No libtorch in this header.
//
// libgomp reads its environment once, when it is loaded, that is before main() of a program that links libtorch.
// So passive waiting must be in the environment at exec: the launcher puts threadEnvironment() there for its ranks, and
// a program that runs kernels itself calls ensurePassiveWaiting() first thing, which starts it again with the variables
// set (once, only when more than one thread is wanted: with one thread there is no barrier to spin at).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace spscope::exec {

/// Cores this process may use (affinity mask, not the machine's count); at least 1.
int usableCores();
/// max(1, cores / ranks on this host); `wanted` > 0 overrides.
int threadsPerRank(int ranks_on_host, int wanted = 0);
/// What a rank's environment must hold before it is started.
std::vector<std::pair<std::string, std::string>> threadEnvironment(int threads);
/// Sets the intra-op thread count of libtorch (and one inter-op thread). Any time; the calling thread's setting rules.
void setThreads(int threads);
int threads();
/// Kernels that give the same bits every time, also with several threads: float index_put with accumulation adds by
/// atomics otherwise, in any order. Process-wide; the executors call it.
void useDeterministicKernels();
/// Re-executes this program (same arguments) with threadEnvironment(threads) when threads > 1 and the variables are not
/// set. Does not return in that case. Variables that the user has set are left alone.
void ensurePassiveWaiting(char** argv, int threads);

}  // namespace spscope::exec
