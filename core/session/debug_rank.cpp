// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug_rank.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/dist/membership.h"
#include "core/ir/text.h"
#include "core/session/debug_wire.h"
#include "core/session/rank_loop.h"
#include "core/session/rank_observer.h"
#include "core/torch/block_cache.h"
#include "core/torch/executor.h"
#include "core/torch/threads.h"

namespace spscope::session {
namespace {

using std::chrono::milliseconds;

constexpr const char* kKind = "debug";
constexpr milliseconds kTick{200};
constexpr milliseconds kProgramWait{60'000};
/// A short deadline is for the collectives: ranks that are loaded on a busy machine come to the meeting one after the other.
constexpr milliseconds kMeeting{60'000};
/// A rank that stands makes no progress, for as long as a person looks at it: for a hundred years, which the launcher can still count.
constexpr double kStandsNs = 3e18;
/// Weights may come from a slow disk.
constexpr int kSlowPhase = 10;

using Names = std::unordered_map<std::string, ir::ValueId>;

Names namesOf(const ir::Graph& graph) {
  Names out;
  for (std::size_t v = 0; v < graph.valueCount(); ++v) out.emplace(graph.value(static_cast<ir::ValueId>(v)).name, static_cast<ir::ValueId>(v));
  return out;
}

/// Remembers values right after they were computed.
class Keeper final : public exec::ExecutionObserver {
 public:
  Keeper(const exec::Executor& executor) : executor_(executor) {}
  void ask(ir::NodeId maker, ir::ValueId value) { wanted_[maker].push_back(value); }
  void nodeEnd(int, const ir::Node& node, std::int64_t) override {
    const auto it = wanted_.find(node.id);
    if (it == wanted_.end()) return;
    for (const ir::ValueId v : it->second)
      if (const auto value = executor_.value(v)) kept_.insert_or_assign(v, value->clone());  // later nodes may write into its memory
  }
  const exec::TensorBag* find(ir::ValueId value) const {
    const auto it = kept_.find(value);
    return it == kept_.end() ? nullptr : &it->second;
  }

 private:
  const exec::Executor& executor_;
  std::unordered_map<ir::NodeId, std::vector<ir::ValueId>> wanted_;
  std::map<ir::ValueId, exec::TensorBag> kept_;
};

/// The control line in a thread of its own: what must be answered at once (hold, ping) is, the rest waits for the rank's thread.
class Listener {
 public:
  Listener(dist::ControlLine& line, CancelToken cancel) : line_(line), cancel_(std::move(cancel)), thread_([this] { listen(); }) {}
  ~Listener() {
    stop_ = true;
    thread_.join();
  }
  /// The next command. Errors: control-*; cancelled.
  Result<dist::Packet> next() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!queue_.empty()) {
        dist::Packet out = std::move(queue_.front());
        queue_.pop_front();
        return out;
      }
      if (lost_) return *lost_;
      SP_TRY(cancel_.check());
      changed_.wait_for(lock, kTick);
    }
  }

  std::atomic<std::size_t> limit{0}, at{0};  ///< see Executor::runTo

 private:
  void listen() {
    sigset_t all;  // signals belong to the program's own threads
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (!stop_) {
      auto packet = line_.receive(kTick);
      Status answered;
      if (packet && *packet) answered = take(std::move(**packet));
      if (packet && answered) continue;
      limit = 0;
      const std::lock_guard lock(mutex_);
      lost_ = packet ? answered.error() : packet.error();
      changed_.notify_all();
      return;
    }
  }
  Status take(dist::Packet packet) {
    const std::string& kind = packet.head.kind;
    if (kind == "hold") {
      const std::size_t before = limit.exchange(0);
      return line_.send({"held", {{"at", std::to_string(at.load())}, {"limit", std::to_string(before)}}});
    }
    if (kind == "ping") return line_.send({"pong", {{"at", std::to_string(at.load())}}});
    if (kind == "run") limit = sizeFrom(packet.head.at("to"));  // here, so that a hold that comes behind it holds it
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(packet));
    changed_.notify_all();
    return {};
  }

  dist::ControlLine& line_;
  CancelToken cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<dist::Packet> queue_;
  std::optional<Error> lost_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The rank at work, command by command.
class Server {
 public:
  Server(dist::RankReporter& reporter, dist::ControlLine& line, Listener& listener, exec::Executor& executor, exec::TensorBag inputs, exec::ExecutionObserver* watcher, int patience)
      : patience_(patience), reporter_(reporter), line_(line), listener_(listener), executor_(executor), inputs_(std::move(inputs)), watcher_(watcher), names_(namesOf(executor.program().graph())) {}

  Status serve() {
    while (true) {
      reporter_.phase("stands", patience_);
      SP_ASSIGN(const dist::Packet packet, listener_.next());
      const dist::Message& m = packet.head;
      if (m.kind == "end") return {};
      const Result<dist::Packet> answer = obey(m);
      SP_TRY(answer ? line_.send(answer->head, answer->body) : line_.send(dist::toMessage(answer.error())));
    }
  }

 private:
  Result<dist::Packet> obey(const dist::Message& m) {
    if (m.kind == "begin") return begin(m);
    if (m.kind == "run") return run(m);
    if (m.kind == "value" || m.kind == "kept") return value(m);
    if (m.kind == "live") return live(m);
    if (m.kind == "scan") return scan(m);
    if (m.kind == "plain") return plain();
    return makeError("internal", "a rank does not know the command " + m.kind, Outcome::kRunFailed);
  }

  Result<dist::Packet> begin(const dist::Message& m) {
    keeper_.reset();
    if (!m.at("keep").empty()) {
      keeper_.emplace(executor_);
      for (const std::string& name : split(m.at("keep"), '\n')) {
        SP_ASSIGN(const ir::ValueId v, named(name));
        keeper_->ask(executor_.program().graph().value(v).producer, v);
      }
    }
    observer_.emplace(reporter_, std::initializer_list<exec::ExecutionObserver*>{watcher_, keeper_ ? &*keeper_ : nullptr});
    exec::StepOptions options;
    options.observer = &*observer_;
    options.step = intFrom(m.at("step"));
    options.seed = std::strtoull(m.at("seed").c_str(), nullptr, 10);
    SP_TRY(executor_.begin(inputs_, options));
    listener_.at = 0;
    return dist::Packet{{"begun", {}}, {}};
  }

  Result<dist::Packet> run(const dist::Message& m) {
    reporter_.phase("step");
    const std::int64_t begin = monotonicNs();
    const Status status = executor_.runTo(listener_.limit, listener_.at);
    const std::int64_t end = monotonicNs();
    if (!status) return dist::Packet{failedMessage(status.error(), executor_.position(), m.at("serial")), {}};
    return dist::Packet{{"stopped", {{"at", std::to_string(executor_.position())}, {"serial", m.at("serial")}, {"ns", std::to_string(end)}, {"took", std::to_string(end - begin)}}}, {}};
  }

  Result<dist::Packet> plain() {
    reporter_.phase("step");
    RankObserver observer(reporter_, {watcher_});
    exec::StepOptions options;
    options.observer = &observer;
    const std::int64_t begin = monotonicNs();
    SP_TRY(executor_.step(inputs_, options));
    const std::int64_t end = monotonicNs();
    return dist::Packet{{"stopped", {{"ns", std::to_string(end)}, {"took", std::to_string(end - begin)}}}, {}};
  }

  Result<ir::ValueId> named(const std::string& name) const {
    const auto it = names_.find(name);
    if (it == names_.end()) return makeError("internal", "a rank has no value %" + name, Outcome::kRunFailed);
    return it->second;
  }
  Result<dist::Packet> value(const dist::Message& m) {
    SP_ASSIGN(const ir::ValueId v, named(m.at("name")));
    if (m.kind == "kept") {
      const exec::TensorBag* kept = keeper_ ? keeper_->find(v) : nullptr;
      if (kept != nullptr) return packetOf(*kept);
    } else if (auto now = executor_.value(v)) {
      return packetOf(std::move(*now));
    }
    return dist::Packet{{"none", {}}, {}};
  }
  Result<dist::Packet> live(const dist::Message& m) {
    SP_ASSIGN(const ir::ValueId v, named(m.at("name")));
    return dist::Packet{{executor_.value(v) ? "live" : "none", {}}, {}};
  }
  Result<dist::Packet> scan(const dist::Message& m) {
    SP_ASSIGN(const ir::ValueId v, named(m.at("name")));
    const auto now = executor_.value(v);
    if (!now) return dist::Packet{{"none", {}}, {}};
    SP_ASSIGN(const exec::ValueScan scan, exec::scanValue(*now, sizeFrom(m.at("places"))));
    return dist::Packet{toMessage(scan), {}};
  }

  const int patience_;  ///< see RankReporter::phase
  dist::RankReporter& reporter_;
  dist::ControlLine& line_;
  Listener& listener_;
  exec::Executor& executor_;
  exec::TensorBag inputs_;
  exec::ExecutionObserver* watcher_;
  Names names_;
  std::optional<Keeper> keeper_;
  std::optional<RankObserver> observer_;
};

}  // namespace

std::string debugRequest(const RunRequest& what) { return dist::Message{kKind, {{"run", toMessage(what).encode()}}}.encode(); }

bool isDebugged(const std::string& request) {
  const auto message = dist::Message::decode(request);
  return message && message->kind == kKind;
}

std::chrono::milliseconds stallAfter(const RunRequest& what) { return std::max(milliseconds(static_cast<std::int64_t>(2e3 * what.timeout_seconds)), milliseconds(120'000)); }

std::string rankVersion() { return SPSCOPE_VERSION; }

Status debugAsRank(dist::RankReporter& reporter, const Request& request, exec::ExecutionObserver* watcher) {
  const auto message = dist::Message::decode(reporter.request());
  SP_ASSIGN(const RunRequest what, runRequestFrom(message ? message->at("run") : std::string()));
  SP_ASSIGN(dist::ControlLine line, dist::ControlLine::attach());
  exec::setThreads(what.settings.threads);
  exec::installCountingAllocator();
  exec::keepFreedBlocks();

  reporter.phase("compile");  // that has been done for it
  SP_ASSIGN(const auto packet, line.receive(kProgramWait));
  if (!packet || packet->head.kind != "program") return makeError("internal", "a rank got no program", Outcome::kRunFailed);
  SP_ASSIGN(ir::Graph graph, ir::parseGraph(packet->body, "program"));
  exec::ProgramOptions options;
  options.rank = reporter.rank();
  options.ranks = reporter.size();
  SP_ASSIGN(auto program, exec::Program::prepare(std::make_shared<const ir::Graph>(std::move(graph)), options));

  reporter.phase("open");
  SP_ASSIGN(const auto model, open(what.open, request));
  reporter.phase("meet");
  RankPlace place{reporter, {}, what.ranks, watcher, kMeeting};
  place.meet.rank = reporter.rank();
  place.meet.size = reporter.size();
  place.meet.file = reporter.storeFile();
  SP_ASSIGN(auto met, joinGroup(what, place));
  dist::Membership group(std::move(met));
  reporter.phase("load", kSlowPhase);
  exec::Executor executor(std::move(program), group.get());
  exec::countOtherThreads(&executor.meter());
  SP_ASSIGN(const exec::TensorBag state, loadState(*model, what.data, request));
  SP_ASSIGN(exec::TensorBag inputs, loadInputs(*model, what.data, 0, request));
  SP_TRY(executor.bind(state));

  Listener listener(line, request.cancel);
  Server server(reporter, line, listener, executor, std::move(inputs), watcher, static_cast<int>(std::min(1e6, kStandsNs / static_cast<double>(stallAfter(what).count()) / 1e6)));
  SP_TRY(line.send({"ready", {{"version", rankVersion()}}}));
  SP_TRY(server.serve());
  exec::countOtherThreads(nullptr);
  group.leave();
  return {};
}

}  // namespace spscope::session
