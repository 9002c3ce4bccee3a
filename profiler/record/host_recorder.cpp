// SPDX-License-Identifier: Apache-2.0
#include "profiler/record/host_recorder.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace spscope::trace {
namespace {

/// What makes two ranks' CLOCK_MONOTONIC the same clock: the boot of one kernel.
std::string bootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// Names come from the user's program: bytes that are no UTF-8 must not make the head unreadable.
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<std::unique_ptr<HostRecorder>> HostRecorder::create(const std::string& path, const RecordedRank& rank,
                                                           const std::vector<RecordedNode>& nodes, std::int64_t cap_bytes) {
  SP_ASSIGN(auto spool, SpoolWriter::create(path, cap_bytes));
  utsname machine{};
  uname(&machine);
  const std::int64_t before = monotonicNs(), real = wallNs(), after = monotonicNs();
  spool->append(SpoolBlock::kHeader, dump({{"rank", rank.rank},
                                           {"world", rank.world},
                                           {"backend", rank.backend},
                                           {"host", machine.nodename},
                                           {"boot", bootId()},
                                           {"pid", getpid()},
                                           {"tid", gettid()},
                                           {"groups", rank.groups},
                                           {"epoch_ns", real - (before + (after - before) / 2)},
                                           {"properties", rank.properties}}));
  nlohmann::json table = nlohmann::json::array();
  for (const RecordedNode& n : nodes) {
    nlohmann::json row = {{"id", n.id}, {"name", n.name}, {"op", n.op}, {"phase", static_cast<int>(n.phase)}};
    if (!n.module.empty()) row["module"] = n.module;
    if (!n.source.empty()) row["source"] = n.source;
    if (!n.stage.empty()) row["stage"] = n.stage;
    if (!n.memory_class.empty()) row["memory"] = n.memory_class;
    if (n.flops != kUnknown) row["flops"] = n.flops;
    if (n.predicted_ns != kUnknown) row["predicted_ns"] = n.predicted_ns;
    table.push_back(std::move(row));
  }
  spool->append(SpoolBlock::kNodes, dump(table));
  SP_TRY(spool->status());
  return std::unique_ptr<HostRecorder>(new HostRecorder(std::move(spool)));
}

HostRecorder::~HostRecorder() {
  if (const Status written = finish(); !written) log::warning("profile", written.error().message);
}

void HostRecorder::flush() {
  if (buffer_.empty()) return;
  if (finished_ || !spool_->append(SpoolBlock::kHost, buffer_.data(), buffer_.size() * sizeof(HostRecord)))
    for (const HostRecord& r : buffer_) ++dropped_[static_cast<std::size_t>(r.kind)];
  buffer_.clear();
}

Status HostRecorder::finish() {
  if (!finished_) {
    flush();
    finished_ = true;
    spool_->append(SpoolBlock::kTrailer, dump({{"dropped", dropped()}, {"dropped_by_kind", dropped_}, {"device_dropped", device_dropped_}}));
  }
  return spool_->status();
}

std::int64_t HostRecorder::dropped() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : dropped_) sum += n;
  return sum;
}

}  // namespace spscope::trace
