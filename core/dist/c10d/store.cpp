// SPDX-License-Identifier: Apache-2.0
#include "core/dist/c10d/store.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/base/log.h"
#include "core/base/strings.h"

namespace spscope::dist {
namespace {

using Clock = std::chrono::steady_clock;

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

Result<int> listenAt(const std::string& host, int port) {
  AddressList list;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list.first); rc != 0)
    return makeError("rendezvous-failed", strf("cannot resolve '%s': %s", host.c_str(), gai_strerror(rc)),
                     Outcome::kRunFailed);
  int error = 0;
  for (const addrinfo* a = list.first; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    error = errno;
    close(fd);
  }
  if (error == EADDRNOTAVAIL) return -1;  // a name that only others resolve to this machine (containers, address translation)
  std::string message = strf("cannot listen on %s:%d: %s", host.c_str(), port, std::strerror(error));
  if (error == EADDRINUSE)
    if (const std::string holder = holderOfPort(port); !holder.empty()) message += "; held by " + holder;
  return makeError("rendezvous-failed", message, Outcome::kRunFailed);
}

Result<c10::intrusive_ptr<c10d::Store>> openTcp(const Rendezvous& at) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(at.port);
  options.isServer = at.rank == 0 && !at.store_exists;
  options.waitWorkers = false;
  options.timeout = at.connect_timeout;
  if (options.isServer) {
    SP_ASSIGN(const int fd, listenAt(at.host, at.port));
    if (fd >= 0)
      options.masterListenFd = fd;
    else
      log::warning("ranks", strf("%s is not an address of this machine: the store listens on all interfaces",
                                 at.host.c_str()));
  }
  return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::TCPStore>(at.host, options));
}

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> openStore(const Rendezvous& at) {
  try {
    c10::intrusive_ptr<c10d::Store> store;
    if (at.host.empty()) {
      store = c10::make_intrusive<c10d::FileStore>(at.file, at.size);
    } else {
      SP_ASSIGN(store, openTcp(at));
    }
    store->setTimeout(at.connect_timeout);
    return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::PrefixStore>("spscope/" + at.prefix, store));
  } catch (const std::exception& e) {
    const std::string where = at.host.empty() ? at.file : at.host + ":" + std::to_string(at.port);
    return makeError("rendezvous-failed", strf("rank %d cannot reach the store at %s: %s", at.rank, where.c_str(),
                                               split(e.what(), '\n').front().c_str()), Outcome::kRunFailed);
  }
}

Status awaitAll(c10d::Store& store, const Rendezvous& at) {
  const auto deadline = Clock::now() + at.connect_timeout;
  const auto key = [](int rank) { return "here/" + std::to_string(rank); };
  std::vector<int> missing;
  try {
    store.set(key(at.rank), std::vector<std::uint8_t>{1});
    for (int r = 0; r < at.size; ++r) missing.push_back(r);
    for (auto pause = std::chrono::milliseconds(2);; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
      std::erase_if(missing, [&](int r) { return store.check({key(r)}); });
      if (missing.empty()) return {};
      if (Clock::now() >= deadline) break;
      std::this_thread::sleep_for(pause);
    }
  } catch (const std::exception& e) {
    return makeError("rendezvous-failed", strf("rank %d lost the store: %s", at.rank,
                                               split(e.what(), '\n').front().c_str()), Outcome::kRunFailed);
  }
  std::vector<std::string> names;
  for (const int r : missing) names.push_back(std::to_string(r));
  return makeError("rendezvous-timeout",
                   strf("rank %d of %d waited %.1f s for rank%s %s", at.rank, at.size,
                        static_cast<double>(at.connect_timeout.count()) / 1e3, names.size() > 1 ? "s" : "",
                        join(names, ", ").c_str()),
                   Outcome::kRunFailed);
}

std::string localAddressTowards(const std::string& host) {
  AddressList list;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), "9", &hints, &list.first) != 0) return {};
  for (const addrinfo* a = list.first; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    std::string text;
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
      char buffer[NI_MAXHOST];
      if (getnameinfo(reinterpret_cast<sockaddr*>(&local), length, buffer, sizeof buffer, nullptr, 0, NI_NUMERICHOST) == 0)
        text = buffer;
    }
    close(fd);
    if (!text.empty()) return text;
  }
  return {};
}

std::string holderOfPort(int port) {
  std::vector<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      char local[64] = {}, state[8] = {}, inode[32] = {};
      if (std::sscanf(line.c_str(), " %*s %63s %*s %7s %*s %*s %*s %*s %*s %31s", local, state, inode) != 3) continue;
      const char* colon = std::strrchr(local, ':');
      if (colon != nullptr && std::strtol(colon + 1, nullptr, 16) == port && std::string_view(state) == "0A")
        inodes.push_back(strf("socket:[%s]", inode));
    }
  }
  if (inodes.empty()) return {};
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return {};
  std::string found;
  while (const dirent* entry = readdir(proc)) {
    if (!found.empty()) break;
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    DIR* fds = opendir(("/proc/" + pid + "/fd").c_str());
    if (fds == nullptr) continue;  // another user's process
    while (const dirent* fd = readdir(fds)) {
      char target[128];
      const ssize_t n = readlink(("/proc/" + pid + "/fd/" + fd->d_name).c_str(), target, sizeof target - 1);
      if (n <= 0) continue;
      if (std::find(inodes.begin(), inodes.end(), std::string(target, static_cast<std::size_t>(n))) == inodes.end()) continue;
      std::string name;
      std::getline(std::ifstream("/proc/" + pid + "/comm") >> std::ws, name);
      found = "pid " + pid + " (" + name + ")";
      break;
    }
    closedir(fds);
  }
  closedir(proc);
  return found;
}

}  // namespace spscope::dist
