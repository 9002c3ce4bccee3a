// SPDX-License-Identifier: Apache-2.0
// Which rank am I? Told by the environment of an existing launch (torchrun, Open MPI, Slurm), or by our own launcher.
//
// These variables are read only when asked for (--launched; the hidden `rank` command): a stray RANK in a shell changes
// nothing otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::dist {

/// Looks up a variable; nullopt where it is not set or empty.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;
/// This process's environment.
std::optional<std::string> processEnv(const std::string& name);

/// One process of an existing launch, and where its ranks meet.
struct LaunchedRank {
  std::string launcher;  ///< "torchrun", "open-mpi", "slurm"
  int rank = 0;
  int size = 1;
  int local_rank = 0;        ///< on this host: which GPU
  std::string master_addr;
  int master_port = 0;
  bool store_exists = false; ///< torchrun's agent already serves the store
  std::string prefix;        ///< of the store's keys: keeps restarts apart
};

/// The order, where several are set (each may have started the next): torchrun, Open MPI, Slurm.
///   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
///   Open MPI  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK; MASTER_ADDR, or loopback where all ranks are on this host
///   Slurm     SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID; MASTER_ADDR, or the step's first host
/// MASTER_PORT, where missing, is derived from the job's identity, so that two jobs on a host do not meet.
/// Error launch-env: none is set, or one is set by half, not a number, or out of range; it names the variables.
Result<LaunchedRank> launchedRank(const EnvLookup& env = processEnv);

/// Error launch-world unless sp × dp = world; says which pairs would be legal.
Status checkWorld(int sp, int dp, int world);

/// "node[01-03,7],login" -> node01 node02 node03 node7 login. Empty where the text is not a Slurm host list.
std::vector<std::string> expandHostList(const std::string& list);

/// What our launcher tells its ranks.
struct ChildEnvironment {
  int rank = 0;        ///< SPSCOPE_RANK
  int size = 1;        ///< SPSCOPE_WORLD
  std::string directory;  ///< SPSCOPE_RUN_DIR
  int fd = -1;         ///< SPSCOPE_FD: the line to the launcher
};
/// Error launch-env where not all of it is set.
Result<ChildEnvironment> childEnvironment(const EnvLookup& env = processEnv);

}  // namespace spscope::dist
