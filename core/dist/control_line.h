// SPDX-License-Identifier: Apache-2.0
// The line between a debugger and one of its ranks: messages of plain data, each with bytes behind it where there are any, over a
// socket pair that the launcher hands to the rank. Nobody listens anywhere; when one side has gone the other knows at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/dist/message.h"

namespace spscope::dist {

struct Packet {
  Message head;
  std::string body;
};

/// One end. One thread receives; any may send.
class ControlLine {
 public:
  /// Takes the socket over.
  explicit ControlLine(int fd) : fd_(fd) {}
  ControlLine(ControlLine&& other) noexcept;
  ControlLine& operator=(ControlLine&&) = delete;
  ~ControlLine();

  /// Both ends, close-on-exec. Error rank-start.
  static Result<std::pair<int, int>> pair();
  /// The rank's end, by SPSCOPE_CONTROL. Error launch-env.
  static Result<ControlLine> attach();

  /// Errors: control-lost (the other side has gone), control-timeout (it takes nothing for so long).
  Status send(const Message& head, std::string_view body = {}, std::chrono::milliseconds silence = kSilence);
  /// What comes within `wait`; nullopt: nothing has begun to come. What has begun may take longer, as long as it goes on. Errors:
  /// control-lost; control-timeout (it stopped in the middle); control-garbage (not such a message).
  Result<std::optional<Packet>> receive(std::chrono::milliseconds wait);
  int fd() const { return fd_; }

  static constexpr std::chrono::milliseconds kSilence{30'000};

 private:
  /// Fills the buffer up to `bytes`. False: nothing came within `wait`, and the buffer is empty.
  Result<bool> fill(std::size_t bytes, std::chrono::milliseconds wait);

  int fd_ = -1;
  std::string unread_;
  std::mutex send_mutex_;
};

}  // namespace spscope::dist
