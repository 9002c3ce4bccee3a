// SPDX-License-Identifier: Apache-2.0
// The framing of the Debug Adapter Protocol: a header "Content-Length: N", an empty line, N bytes. Bytes come in as they arrive,
// whole messages go out. What is no frame is reported once, and reading goes on at the next header.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace spscope::app::dap {

/// A message's bytes, or what was wrong where one was expected (code dap-frame).
struct Frame {
  std::string body;
  std::optional<Error> fault;
};

class FrameReader {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  ///< of a message
  static constexpr std::size_t kMostHeader = 4096;

  void feed(std::string_view bytes);
  /// In the order of the stream; nullopt: more bytes are needed.
  std::optional<Frame> take();
  /// Whether the stream, if it ends here, ends in the middle of a message.
  bool partial() const { return state_ != State::kHeader || !buffer_.empty(); }

 private:
  enum class State : std::uint8_t {
    kHeader,
    kBody,
    kSkip,  ///< a body that is too large: its bytes are dropped as they come
    kLost,  ///< behind something that is no header: the next "Content-Length:" is looked for
  };
  bool readHeader();
  bool readBody();
  bool skip();
  bool find();
  void fault(std::string message);

  State state_ = State::kHeader;
  std::string buffer_;
  std::optional<std::uint64_t> length_;  ///< as the header that is being read has it
  std::size_t header_bytes_ = 0;
  std::uint64_t left_ = 0;  ///< of the body
  std::deque<Frame> ready_;
};

/// The body with its header.
std::string framed(std::string_view body);

}  // namespace spscope::app::dap
