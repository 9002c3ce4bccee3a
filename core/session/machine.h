// SPDX-License-Identifier: Apache-2.0
// What this machine can do: torch, threads, ranks, GPUs, profiling, the window. Every check is made, none is assumed; what
// is only needed for something that was not asked for (a GPU) is no fault of the machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/session/model.h"

namespace spscope::session {

struct MachineCheck {
  std::string name;        ///< "torch", "ranks", "cuda-driver" ...
  bool ok = false;
  std::string detail;      ///< what was found, or why it is not there
  std::string remedy;      ///< what to do; empty where ok
  std::string needed_for;  ///< "everything", "GPUs", "profiles of GPUs", "the window"
};

struct ExamineRequest {
  std::chrono::milliseconds rank_deadline{10'000};
};

/// Never fails: what goes wrong is a check that is not ok. Takes about a second, most of it for the two rank processes.
std::vector<MachineCheck> examineMachine(const ExamineRequest& what, const Request& request);

/// "2.15.0".
std::string libtorchVersion();
/// Starts this program again with waiting threads that sleep, where several threads may compute in this process and the
/// environment does not say how they wait (libgomp reads that once, before main). Call it first thing in main().
void restartWithSleepingThreads(char** argv);

/// First file of the folders, in their order, whose name begins with `stem` ("libcupti.so"); "" where there is none.
std::string findLibrary(const std::string& stem, const std::vector<std::string>& folders);
/// Where shared libraries of CUDA and of the system are looked for: LD_LIBRARY_PATH, the wheels beside libtorch, CUDA
/// toolkits, the system's folders.
std::vector<std::string> libraryFolders();

}  // namespace spscope::session
