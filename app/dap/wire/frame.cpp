// SPDX-License-Identifier: Apache-2.0
#include "app/dap/wire/frame.h"

#include <algorithm>
#include <charconv>

#include "core/base/strings.h"

namespace spscope::app::dap {
namespace {

constexpr std::string_view kLength = "content-length";
/// A length beyond it is no length but a damaged header: its bytes would never come.
constexpr std::uint64_t kBelievable = std::uint64_t{1} << 30;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool sameWord(std::string_view text, std::string_view word) {
  return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(), [](char a, char b) { return lower(a) == b; });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// What a person may be shown of bytes that were not understood.
std::string shown(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 40)) out += c >= ' ' && c < 127 ? c : '.';
  return out + (bytes.size() > 40 ? "..." : "");
}

}  // namespace

void FrameReader::fault(std::string message) {
  Frame out;
  out.fault = makeError("dap-frame", std::move(message), Outcome::kUsage);
  ready_.push_back(std::move(out));
  length_.reset();
  header_bytes_ = 0;
}

void FrameReader::feed(std::string_view bytes) {
  buffer_ += bytes;
  for (bool more = true; more;) {
    switch (state_) {
      case State::kHeader: more = readHeader(); break;
      case State::kBody: more = readBody(); break;
      case State::kSkip: more = skip(); break;
      case State::kLost: more = find(); break;
    }
  }
}

bool FrameReader::readHeader() {
  const std::size_t end = buffer_.find('\n');
  if (header_bytes_ + std::min(end, buffer_.size()) >= kMostHeader) {
    fault(strf("a header is longer than %zu bytes; it begins with: ", kMostHeader) + shown(buffer_));
    buffer_.erase(0, 1);  // so that it is not found again
    state_ = State::kLost;
    return true;
  }
  if (end == std::string::npos) return false;
  const std::string line(trimmed(std::string_view(buffer_).substr(0, end)));
  header_bytes_ += end + 1;
  const bool first = header_bytes_ == end + 1;
  buffer_.erase(0, end + 1);
  if (line.empty()) {
    if (first) {  // an empty line between two messages means nothing
      header_bytes_ = 0;
      return true;
    }
    if (!length_) {
      fault("a header has no Content-Length");
      state_ = State::kLost;
      return true;
    }
    left_ = *length_;
    length_.reset();
    header_bytes_ = 0;
    if (left_ <= kMostBytes) {
      state_ = State::kBody;
      return true;
    }
    fault(strf("a message of %llu bytes is refused: at most %llu are taken", static_cast<unsigned long long>(left_), static_cast<unsigned long long>(kMostBytes)));
    state_ = left_ <= kBelievable ? State::kSkip : State::kLost;
    return true;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) {
    fault("this is no header of a message: " + shown(line));
    state_ = State::kLost;
    return true;
  }
  if (!sameWord(trimmed(std::string_view(line).substr(0, colon)), kLength)) return true;  // Content-Type, and what may come
  const std::string_view number = trimmed(std::string_view(line).substr(colon + 1));
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || rest != number.data() + number.size() || (length_ && *length_ != value)) {
    fault("this is no length of a message: " + shown(line));
    state_ = State::kLost;
    return true;
  }
  length_ = value;
  return true;
}

bool FrameReader::readBody() {
  if (buffer_.size() < left_) return false;
  Frame out;
  out.body = buffer_.substr(0, left_);
  buffer_.erase(0, left_);
  ready_.push_back(std::move(out));
  state_ = State::kHeader;
  return !buffer_.empty();
}

bool FrameReader::skip() {
  const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(left_, buffer_.size()));
  buffer_.erase(0, now);
  left_ -= now;
  if (left_ > 0) return false;
  state_ = State::kHeader;
  return true;
}

bool FrameReader::find() {
  for (std::size_t at = 0; at < buffer_.size(); ++at) {
    const std::string_view here = std::string_view(buffer_).substr(at, kLength.size());
    if (here.size() < kLength.size()) {
      if (!sameWord(here, kLength.substr(0, here.size()))) continue;
      buffer_.erase(0, at);  // the beginning of the word, perhaps
      return false;
    }
    if (!sameWord(here, kLength)) continue;
    buffer_.erase(0, at);
    state_ = State::kHeader;
    return true;
  }
  buffer_.clear();
  return false;
}

std::optional<Frame> FrameReader::take() {
  if (ready_.empty()) return {};
  Frame out = std::move(ready_.front());
  ready_.pop_front();
  return out;
}

std::string framed(std::string_view body) { return "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body); }

}  // namespace spscope::app::dap
