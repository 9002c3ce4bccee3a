// SPDX-License-Identifier: Apache-2.0
// How ranks find each other: a file in a private directory (local runs) or a TCP store at MASTER_ADDR (existing launches).
//
// c10d's TCPStore listens on all interfaces; here rank 0 binds the socket itself, to the given address only.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/result.h"
#include "core/dist/c10d/gloo.h"

namespace spscope::dist {

/// The store of this rendezvous, connected. Errors: rendezvous-failed (with the port's holder, where it is taken).
Result<c10::intrusive_ptr<c10d::Store>> openStore(const Rendezvous& at);

/// Waits until every rank has come. Error rendezvous-timeout names the ranks that have not.
Status awaitAll(c10d::Store& store, const Rendezvous& at);

/// The local address from which `host` is reached ("10.0.0.3", "127.0.0.1"); empty where there is no route.
std::string localAddressTowards(const std::string& host);

/// "pid 4711 (python3)" of the process that listens on this TCP port, as far as this user may see; empty otherwise.
std::string holderOfPort(int port);

}  // namespace spscope::dist
