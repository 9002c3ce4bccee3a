// SPDX-License-Identifier: Apache-2.0
#include "core/dist/environment.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

Error envError(std::string message) { return makeError("launch-env", std::move(message), Outcome::kUsage); }

/// The variable as a number of at least `least`.
Result<int> number(const EnvLookup& env, const std::string& name, int least) {
  const auto text = env(name);
  if (!text) return envError(name + " is not set");
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least)
    return envError(strf("%s is '%s', not a number of at least %d", name.c_str(), text->c_str(), least));
  return value;
}

/// The names of one launcher's variables.
struct Names {
  const char* launcher;
  const char* rank;
  std::vector<std::string> size;  ///< the first that is set counts
  const char* local_rank;
};
const Names& torchrunNames() {
  static const Names n{"torchrun", "RANK", {"WORLD_SIZE"}, "LOCAL_RANK"};
  return n;
}
const Names& openMpiNames() {
  static const Names n{"open-mpi", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_LOCAL_RANK"};
  return n;
}
const Names& slurmNames() {
  static const Names n{"slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_LOCALID"};
  return n;
}

bool isSet(const EnvLookup& env, const std::string& name) { return env(name).has_value(); }

/// Rank, size and local rank; complete or an error that names what is missing.
Result<LaunchedRank> readRank(const EnvLookup& env, const Names& names) {
  std::string size = names.size.back();
  for (auto it = names.size.rbegin(); it != names.size.rend(); ++it)
    if (isSet(env, *it)) size = *it;
  std::vector<std::string> missing;
  for (const std::string& name : {std::string(names.rank), size, std::string(names.local_rank)})
    if (!isSet(env, name)) missing.push_back(name);
  if (!missing.empty())
    return envError(strf("%s's variables are set by half: %s missing", names.launcher, join(missing, ", ").c_str()));
  LaunchedRank at;
  at.launcher = names.launcher;
  SP_ASSIGN(at.rank, number(env, names.rank, 0));
  SP_ASSIGN(at.size, number(env, size, 1));
  SP_ASSIGN(at.local_rank, number(env, names.local_rank, 0));
  if (at.rank >= at.size)
    return envError(strf("%s is %d, but %s is only %d", names.rank, at.rank, size.c_str(), at.size));
  return at;
}

/// A port in 20000…39999 from the job's identity: the same on all ranks, different for two jobs.
int portFrom(const std::string& identity) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : identity) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return 20000 + static_cast<int>(hash % 20000);
}

/// MASTER_ADDR and MASTER_PORT where set; `fallback_host` and a port of `identity` otherwise.
Status readMaster(const EnvLookup& env, const std::string& fallback_host, const std::string& identity, LaunchedRank* at) {
  at->master_addr = env("MASTER_ADDR").value_or(fallback_host);
  if (at->master_addr.empty())
    return envError(strf("%s does not say where the ranks can meet: MASTER_ADDR is not set", at->launcher.c_str()));
  if (isSet(env, "MASTER_PORT")) {
    SP_ASSIGN(at->master_port, number(env, "MASTER_PORT", 1));
    if (at->master_port > 65535) return envError(strf("MASTER_PORT is %d; ports end at 65535", at->master_port));
  } else if (identity.empty()) {
    return envError("MASTER_ADDR is set, but MASTER_PORT is not");
  } else {
    at->master_port = portFrom(identity);
  }
  return {};
}

Result<LaunchedRank> torchrun(const EnvLookup& env) {
  SP_ASSIGN(LaunchedRank at, readRank(env, torchrunNames()));
  SP_TRY(readMaster(env, "", "", &at));
  at.store_exists = env("TORCHELASTIC_USE_AGENT_STORE") == "True";
  at.prefix = env("TORCHELASTIC_RUN_ID").value_or("") + "/" + env("TORCHELASTIC_RESTART_COUNT").value_or("0");
  // RANK may be a leftover of a shell, the same in all processes that mpirun or srun starts.
  for (const Names* outer : {&openMpiNames(), &slurmNames()}) {
    const auto other = readRank(env, *outer);
    if (other && other->size == at.size && other->rank != at.rank)
      return envError(strf("RANK says rank %d, but %s says rank %d of the same %d", at.rank, outer->rank, other->rank, at.size));
  }
  return at;
}

Result<LaunchedRank> openMpi(const EnvLookup& env) {
  SP_ASSIGN(LaunchedRank at, readRank(env, openMpiNames()));
  const bool one_host = env("OMPI_COMM_WORLD_LOCAL_SIZE") == env("OMPI_COMM_WORLD_SIZE");
  std::string identity = env("PMIX_NAMESPACE").value_or(env("OMPI_MCA_ess_base_jobid").value_or(""));
  if (identity.empty() && one_host) identity = "open-mpi";
  SP_TRY(readMaster(env, one_host ? "127.0.0.1" : "", identity, &at));
  at.prefix = identity;
  return at;
}

Result<LaunchedRank> slurm(const EnvLookup& env) {
  SP_ASSIGN(LaunchedRank at, readRank(env, slurmNames()));
  std::string host;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const auto list = env(name); list && host.empty())
      if (const auto hosts = expandHostList(*list); !hosts.empty()) host = hosts.front();
  if (env("SLURM_STEP_NUM_NODES").value_or(env("SLURM_NNODES").value_or("")) == "1") host = "127.0.0.1";
  const std::string job = env("SLURM_JOB_ID").value_or(env("SLURM_JOBID").value_or("slurm"));
  const std::string identity = job + "." + env("SLURM_STEP_ID").value_or("0");
  SP_TRY(readMaster(env, host, identity, &at));
  at.prefix = identity;
  return at;
}

}  // namespace

std::optional<std::string> processEnv(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return {};
  return std::string(value);
}

Result<LaunchedRank> launchedRank(const EnvLookup& env) {
  if (isSet(env, "RANK") || isSet(env, "WORLD_SIZE")) return torchrun(env);
  if (isSet(env, "OMPI_COMM_WORLD_RANK") || isSet(env, "OMPI_COMM_WORLD_SIZE")) return openMpi(env);
  if (isSet(env, "SLURM_PROCID")) return slurm(env);
  return envError("no launcher's variables are set (torchrun: RANK; Open MPI: OMPI_COMM_WORLD_RANK; Slurm: SLURM_PROCID)");
}

Status checkWorld(int sp, int dp, int world) {
  if (sp >= 1 && dp >= 1 && sp * dp == world) return {};
  Error error = makeError("launch-world", strf("--sp %d times --dp %d is %d, but the launch has %d ranks", sp, dp, sp * dp, world),
                          Outcome::kUsage);
  std::vector<std::string> pairs;
  for (int s = 1; s <= world; ++s)
    if (world % s == 0) pairs.push_back(strf("--sp %d --dp %d", s, world / s));
  error.legal = join(pairs, "; ");
  return error;
}

std::vector<std::string> expandHostList(const std::string& list) {
  std::vector<std::string> hosts;
  std::size_t i = 0;
  while (i < list.size()) {
    const std::size_t end = list.find_first_of(",[", i);
    const std::string prefix = list.substr(i, end == std::string::npos ? end : end - i);
    if (end == std::string::npos || list[end] == ',') {
      if (prefix.empty()) return {};
      hosts.push_back(prefix);
      i = end == std::string::npos ? list.size() : end + 1;
      continue;
    }
    const std::size_t close = list.find(']', end);
    if (close == std::string::npos) return {};
    std::size_t next = list.find(',', close);
    if (next == std::string::npos) next = list.size();
    const std::string suffix = list.substr(close + 1, next - close - 1);
    if (suffix.find('[') != std::string::npos) return {};  // two ranges in one name: no cluster of ours names hosts so
    for (const std::string& range : split(list.substr(end + 1, close - end - 1), ',')) {
      const std::size_t dash = range.find('-');
      const std::string from = range.substr(0, dash);
      const std::string to = dash == std::string::npos ? from : range.substr(dash + 1);
      if (from.empty() || to.empty() || from.size() > 9 || to.size() > 9 ||
          (from + to).find_first_not_of("0123456789") != std::string::npos)
        return {};
      for (int n = std::stoi(from); n <= std::stoi(to) && hosts.size() < 100'000; ++n)
        hosts.push_back(prefix + strf("%0*d", static_cast<int>(from.size()), n) + suffix);
    }
    i = next + (next < list.size() ? 1 : 0);
  }
  return hosts;
}

Result<ChildEnvironment> childEnvironment(const EnvLookup& env) {
  ChildEnvironment child;
  SP_ASSIGN(child.rank, number(env, "SPSCOPE_RANK", 0));
  SP_ASSIGN(child.size, number(env, "SPSCOPE_WORLD", 1));
  SP_ASSIGN(child.fd, number(env, "SPSCOPE_FD", 3));
  const auto directory = env("SPSCOPE_RUN_DIR");
  if (!directory) return envError("SPSCOPE_RUN_DIR is not set");
  child.directory = *directory;
  if (child.rank >= child.size) return envError(strf("SPSCOPE_RANK is %d of %d", child.rank, child.size));
  return child;
}

}  // namespace spscope::dist
