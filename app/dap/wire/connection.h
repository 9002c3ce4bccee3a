// SPDX-License-Identifier: Apache-2.0
// A client at the other end of two file descriptors: requests come in on a thread of their own, answers and events go out. Whoever
// does not read what is sent to him for a minute is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "app/dap/wire/message.h"

namespace spscope::app::dap {

class Connection {
 public:
  /// The descriptors stay the caller's, who keeps them open as long as this lives. `arrives` is called on the reading thread for
  /// each request, before it can be taken, and with a request without command where the input has ended.
  Connection(int in, int out, std::function<void(const Request&)> arrives = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The next request; nullopt where none came within `wait`, or none will (see ended()).
  std::optional<Request> next(std::chrono::milliseconds wait);
  /// A request that waits, by its seq: it is taken out of the line. False where there is none.
  std::optional<Request> withdraw(std::int64_t seq);
  /// The input is over and all requests have been taken, or the client reads no more.
  bool ended() const;

  // Any thread; each message is sent whole.
  void respond(const Request& request, Json body);
  /// `short_message` is what a program reads ("cancelled", "notStopped"); "": the error's code.
  void refuse(const Request& request, const Error& error, std::string_view short_message = {});
  void event(const char* name, Json body = {});

 private:
  void read();
  void take(Request request);
  void send(Json message);
  void write(const std::string& bytes);

  const int in_, out_;
  const std::function<void(const Request&)> arrives_;
  mutable std::mutex mutex_;  ///< of the line of requests
  std::condition_variable changed_;
  std::deque<Request> line_;
  bool over_ = false;  ///< the input
  std::mutex sending_;
  std::int64_t last_seq_ = 0;
  std::atomic<bool> stop_{false}, gone_{false};
  std::thread reader_;
};

}  // namespace spscope::app::dap
