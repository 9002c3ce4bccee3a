// SPDX-License-Identifier: Apache-2.0
#include "core/dist/call_log.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/strings.h"

namespace spscope::dist {
namespace {

template <std::size_t N>
void put(char (&to)[N], std::string_view text) noexcept {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

template <std::size_t N>
std::string get(const char (&from)[N]) {
  return std::string(from, strnlen(from, N));
}

}  // namespace

int CallLog::groupOf(std::string_view name, std::span<const int> members) noexcept {
  for (std::size_t i = 0; i < kGroups; ++i) {
    Group& g = groups_[i];
    if (std::string_view(g.name) == name.substr(0, sizeof g.name - 1) && (i == 0 || g.name[0] != '\0')) return static_cast<int>(i);
    if (i == 0 || g.name[0] != '\0') continue;  // the first is that of all ranks
    std::size_t at = 0;
    for (const int rank : members) {
      char digits[12];
      const auto [end, error] = std::to_chars(digits, digits + sizeof digits, rank);
      const auto n = static_cast<std::size_t>(end - digits);
      if (error != std::errc() || at + n + 2 > sizeof g.members) break;
      if (at > 0) g.members[at++] = ',';
      std::memcpy(g.members + at, digits, n);
      at += n;
    }
    put(g.name, name);
    return static_cast<int>(i);
  }
  return 0;
}

void CallLog::begin(const CallNotice& call, std::string_view node, std::int64_t step) noexcept {
  const std::int64_t number = count_.load(std::memory_order_relaxed) + 1;
  Slot& s = slots_[static_cast<std::size_t>(number - 1) % kCalls];
  s.record.store(0, std::memory_order_release);
  put(s.op, call.op);
  put(s.node, node);
  s.group = groupOf(call.group, call.members);
  s.even = call.even;
  s.sequence = call.sequence;
  s.step = step;
  s.dtype = static_cast<std::int64_t>(call.dtype);
  s.sent = call.sent;
  s.received = call.received;
  s.begin_ns = wallNs();
  s.end_ns.store(0, std::memory_order_relaxed);
  s.record.store(number, std::memory_order_release);
  count_.store(number, std::memory_order_release);
}

void CallLog::end(std::string_view group, std::int64_t sequence) noexcept {
  const int g = groupOf(group, {});
  const std::int64_t last = count_.load(std::memory_order_relaxed);
  for (std::int64_t number = last; number > 0 && number > last - static_cast<std::int64_t>(kCalls); --number) {
    Slot& s = slots_[static_cast<std::size_t>(number - 1) % kCalls];
    if (s.group != g || s.sequence != sequence) continue;
    s.end_ns.store(wallNs(), std::memory_order_release);
    return;
  }
}

std::vector<RecordedCall> CallLog::read() const {
  std::vector<RecordedCall> out;
  for (const Slot& s : slots_) {
    RecordedCall call;
    call.record = s.record.load(std::memory_order_acquire);
    if (call.record <= 0) continue;
    call.op = get(s.op);
    call.node = get(s.node);
    call.sequence = s.sequence;
    call.step = s.step;
    call.dtype = static_cast<ir::DType>(s.dtype);
    call.sent = s.sent;
    call.received = s.received;
    call.even = s.even != 0;
    call.begin_ns = s.begin_ns;
    call.end_ns = s.end_ns.load(std::memory_order_acquire);
    const std::size_t group = std::min<std::size_t>(static_cast<std::size_t>(std::max(s.group, 0)), kGroups - 1);
    call.group = get(groups_[group].name);
    for (const std::string& rank : split(get(groups_[group].members), ','))
      if (!rank.empty()) call.members.push_back(std::atoi(rank.c_str()));
    if (s.record.load(std::memory_order_acquire) == call.record) out.push_back(std::move(call));
  }
  std::sort(out.begin(), out.end(), [](const RecordedCall& a, const RecordedCall& b) { return a.record < b.record; });
  return out;
}

}  // namespace spscope::dist
