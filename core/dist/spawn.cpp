// SPDX-License-Identifier: Apache-2.0
#include "core/dist/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

constexpr int kChildFd = 3, kChildControl = 4;

Error startError(const std::string& program, const char* what, int error) {
  Error out = makeError("rank-start", strf("cannot start %s: %s: %s", program.c_str(), what, std::strerror(error)), Outcome::kRunFailed);
  if (error == EAGAIN) out.remedy = "The limit of processes is reached: ulimit -u, or pids.max of the control group.";
  if (error == EMFILE || error == ENFILE) out.remedy = "The limit of open files is reached: ulimit -n.";
  return out;
}

/// Closed when it goes.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

/// Everything posix_spawn wants, freed at the end.
struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

std::vector<std::string> childVariables(const std::map<std::string, std::string>& added) {
  std::vector<std::string> out;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string_view entry(*v);
    if (!added.contains(std::string(entry.substr(0, entry.find('='))))) out.emplace_back(entry);
  }
  for (const auto& [name, value] : added) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<Child> spawn(const SpawnSpec& spec) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return startError(spec.program, "socketpair", errno);
  // Out of the way of the child's 0…4, so that no dup2 below overwrites another's source.
  Descriptor control;
  if (spec.control >= 0 && (control.fd = fcntl(spec.control, F_DUPFD_CLOEXEC, 16)) < 0) {
    const int reason = errno == EINVAL ? EMFILE : errno;
    close(ends[0]);
    close(ends[1]);
    return startError(spec.program, "fcntl", reason);
  }
  const int child_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 16);
  close(ends[1]);
  if (child_end < 0) {
    close(ends[0]);
    return startError(spec.program, "fcntl", errno == EINVAL ? EMFILE : errno);  // 16 lies beyond the limit
  }

  SpawnPlan plan;
  posix_spawn_file_actions_addopen(&plan.files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.files, 1, spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&plan.files, 1, 2);
  posix_spawn_file_actions_adddup2(&plan.files, child_end, kChildFd);
  if (control.fd >= 0) posix_spawn_file_actions_adddup2(&plan.files, control.fd, kChildControl);
  posix_spawn_file_actions_addclosefrom_np(&plan.files, (control.fd >= 0 ? kChildControl : kChildFd) + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  // A group of its own: Ctrl-C on the terminal reaches the launcher only, and a kill reaches what the rank has started.
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::map<std::string, std::string> added = spec.environment;
  added["SPSCOPE_FD"] = std::to_string(kChildFd);
  if (control.fd >= 0) added["SPSCOPE_CONTROL"] = std::to_string(kChildControl);
  std::vector<std::string> variables = childVariables(added);
  std::vector<std::string> arguments{spec.program};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  Child child;
  child.fd = ends[0];
  const int rc = posix_spawn(&child.pid, spec.program.c_str(), &plan.files, &plan.attributes, pointers(arguments).data(),
                             pointers(variables).data());
  close(child_end);
  if (rc != 0) {
    close(child.fd);
    return startError(spec.program, "posix_spawn", rc);
  }
  return child;
}

}  // namespace spscope::dist
