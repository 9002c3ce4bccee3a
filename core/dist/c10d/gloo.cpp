// SPDX-License-Identifier: Apache-2.0
#include "core/dist/c10d/gloo.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Logging.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/version.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/dist/c10d/store.h"
#include "core/dist/c10d/sum.h"
#include "core/dist/interrupt.h"
#include "core/dist/membership.h"

namespace spscope::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

enum Op : std::int32_t { kAllReduce, kAllToAll, kAllGather, kReduceScatter, kBarrier, kGatherText };
constexpr const char* kOpNames[] = {"all_reduce", "all_to_all", "all_gather", "reduce_scatter", "barrier", "gather_text"};

/// One message with one peer.
struct Piece {
  int peer;
  void* data;
  std::int64_t bytes;
};

/// What a rank tells a peer with every collective. Fixed size, so that it arrives whatever the ranks disagree in.
struct Header {
  std::int64_t sequence;
  std::int32_t op;
  std::int32_t dtype;
  std::int64_t total;        ///< elements of the whole operation, where all ranks must have the same number; else -1
  std::int64_t to_peer;      ///< elements for the peer, -1: see total
  std::int64_t from_peer;    ///< elements expected from the peer
};

std::string firstLine(const char* text) {
  // libtorch's messages carry "[enforce fail at file:line] condition. message" and a stack trace; people need the end.
  std::string line = split(text, '\n').front();
  if (line.starts_with("[")) {
    if (const auto end = line.find("] "); end != std::string::npos) line = line.substr(end + 2);
  }
  return line;
}

class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(Rendezvous at, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : at_(std::move(at)), store_(std::move(store)), group_(std::move(group)) {}

  ~GlooCollectives() override {
    // After a failure the group is abandoned: taking it down can wait for peers that will never answer. The process is
    // about to end, and the kernel closes its connections.
    if (failed_) {
      endWithoutDestructors();
      (void)group_.release();
      (void)store_.release();
    }
  }

  int rank() const override { return at_.rank; }
  int size() const override { return at_.size; }
  std::int64_t sequence() const override { return sequence_; }

  Status allReduceSum(Buffer buffer) override {
    const CollectivePart part{{}, buffer, {}, {}};
    return allReduceOf({&part, 1});
  }

  Status runAll(CollectiveKind kind, std::span<const CollectivePart> parts) override {
    if (kind == CollectiveKind::kAllReduce && !parts.empty()) return allReduceOf(parts);
    if (kind == CollectiveKind::kAllToAll && parts.size() > 1) return allToAllOf(parts);
    return Collectives::runAll(kind, parts);
  }

  Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv,
                  std::span<const std::int64_t> recv_counts) override {
    SP_TRY(blocksFit(send.count, send_counts));
    SP_TRY(blocksFit(recv.count, recv_counts));
    SP_TRY(begin(kAllToAll, send.dtype, -1, send_counts, recv_counts));
    const std::int64_t element = ir::sizeOf(send.dtype);
    std::vector<Piece> out = pieces(send.data, send_counts, element);
    std::vector<Piece> in = pieces(recv.data, recv_counts, element);
    copyOwn(offset(recv.data, recv_counts, element), offset(send.data, send_counts, element),
            send_counts[static_cast<std::size_t>(rank())] * element);
    SP_TRY(exchange(out, in));
    return end();
  }

  Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    SP_TRY(blocksFit(recv.count, counts, send.count));
    SP_TRY(begin(kAllGather, recv.dtype, std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), {}, counts,
                 send.count));
    const std::int64_t element = ir::sizeOf(recv.dtype);
    std::vector<Piece> in = pieces(recv.data, counts, element);
    std::vector<Piece> out;
    for (const int peer : peers()) out.push_back({peer, send.data, send.count * element});
    copyOwn(offset(recv.data, counts, element), send.data, send.count * element);
    SP_TRY(exchange(out, in));
    return end();
  }

  Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    if (!canSum(send.dtype)) return noSum(send.dtype);
    SP_TRY(blocksFit(send.count, counts, recv.count));
    SP_TRY(begin(kReduceScatter, send.dtype, send.count, counts, {}, recv.count));
    const std::int64_t element = ir::sizeOf(send.dtype);
    std::vector<Piece> out = pieces(send.data, counts, element);
    const std::int64_t mine = recv.count * element;
    std::byte* room = scratch(mine * size());
    std::vector<Piece> in;
    for (const int peer : peers()) in.push_back({peer, room + peer * mine, mine});
    SP_TRY(exchange(out, in));
    sumInto(send.dtype, room, mine, offset(send.data, counts, element), recv.data, recv.count);
    return end();
  }

  Status barrier() override {
    SP_TRY(begin(kBarrier, ir::DType::kU8, 0));
    std::byte* room = scratch(size() + 1);
    std::vector<Piece> out, in;
    for (const int peer : peers()) {
      out.push_back({peer, room + size(), 1});
      in.push_back({peer, room + peer, 1});
    }
    SP_TRY(exchange(out, in));
    return end();
  }

  Result<std::vector<std::string>> allGatherText(const std::string& text) override {
    SP_TRY(begin(kGatherText, ir::DType::kU8, 0));
    std::vector<std::string> texts(static_cast<std::size_t>(size()));
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
    auto length = static_cast<std::int64_t>(text.size());
    std::vector<Piece> out, in;
    for (const int peer : peers()) {
      out.push_back({peer, &length, sizeof length});
      in.push_back({peer, &lengths[static_cast<std::size_t>(peer)], sizeof length});
    }
    SP_TRY(exchange(out, in));
    // Sending does not change the text; Gloo only has no const in its signature.
    for (Piece& piece : out) piece = {piece.peer, const_cast<char*>(text.data()), length};
    for (Piece& piece : in) {
      std::string& to = texts[static_cast<std::size_t>(piece.peer)];
      to.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(piece.peer)]));
      piece = {piece.peer, to.data(), static_cast<std::int64_t>(to.size())};
    }
    SP_TRY(exchange(out, in));
    texts[static_cast<std::size_t>(rank())] = text;
    SP_TRY(end());
    return texts;
  }

 private:
  static constexpr std::int64_t kSmallBytes = 16 * 1024;
  static constexpr std::int64_t kSegmentBytes = 4 << 20;
  static constexpr std::size_t kScratchToKeep = std::size_t{64} << 20;

  int named(int place) const { return at_.known_as.empty() ? place : at_.known_as[static_cast<std::size_t>(place)]; }

  /// The other ranks, beginning with the next one, so that not all send to rank 0 first.
  std::vector<int> peers() const {
    std::vector<int> out;
    for (int i = 1; i < size(); ++i) out.push_back((rank() + i) % size());
    return out;
  }

  /// One piece per peer of a buffer that holds counts[r] elements for each rank r, in rank order.
  std::vector<Piece> pieces(void* data, std::span<const std::int64_t> counts, std::int64_t element) const {
    std::vector<std::int64_t> begins(counts.size() + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
    std::vector<Piece> out;
    for (const int peer : peers()) {
      const auto r = static_cast<std::size_t>(peer);
      out.push_back({peer, static_cast<std::byte*>(data) + begins[r] * element, counts[r] * element});
    }
    return out;
  }
  /// Where this rank's own block of such a buffer begins.
  std::byte* offset(void* data, std::span<const std::int64_t> counts, std::int64_t element) const {
    return static_cast<std::byte*>(data) + std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0}) * element;
  }
  static void copyOwn(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0 && to != from) std::memmove(to, from, static_cast<std::size_t>(bytes));
  }

  /// One operation over several buffers of one type: small neighbours travel together, through a copy.
  Status allReduceOf(std::span<const CollectivePart> parts) {
    const ir::DType type = parts.front().recv.dtype;
    if (!canSum(type)) return noSum(type);
    std::int64_t total = 0;
    for (const CollectivePart& p : parts) total += p.recv.count;
    SP_TRY(begin(kAllReduce, type, total));
    if (total == 0) SP_TRY(exchange({}, {}));  // what the peers say is heard all the same
    const std::int64_t element = ir::sizeOf(type);
    // In segments, so that the scratch stays small and in the cache, whatever the size of a gradient.
    const std::int64_t segment = std::max<std::int64_t>(size(), kSegmentBytes / element);
    std::vector<std::pair<std::byte*, std::int64_t>> joined;  // memory, bytes
    std::int64_t elements = 0;
    const auto flush = [&]() -> Status {
      if (elements == 0) return {};
      if (joined.size() == 1) {
        SP_TRY(reduceRange(joined[0].first, elements, type));
      } else {
        joined_.resize(static_cast<std::size_t>(elements * element));
        std::byte* to = joined_.data();
        for (const auto& [data, bytes] : joined) std::memcpy(to, data, static_cast<std::size_t>(bytes)), to += bytes;
        SP_TRY(reduceRange(joined_.data(), elements, type));
        const std::byte* from = joined_.data();
        for (const auto& [data, bytes] : joined) std::memcpy(data, from, static_cast<std::size_t>(bytes)), from += bytes;
      }
      joined.clear();
      elements = 0;
      return {};
    };
    for (const CollectivePart& p : parts)
      for (std::int64_t at = 0; at < p.recv.count;) {
        const std::int64_t left = p.recv.count - at;
        if (left >= segment / 4 || elements == segment) SP_TRY(flush());  // large ones alone: no copy
        const std::int64_t count = std::min(left, segment - elements);
        joined.emplace_back(static_cast<std::byte*>(p.recv.data) + at * element, count * element);
        elements += count;
        at += count;
        if (left >= segment / 4) SP_TRY(flush());
      }
    SP_TRY(flush());
    return end();
  }

  /// Small: everything to everyone, one round. Large: each rank sums its block, then the blocks go round.
  Status reduceRange(std::byte* data, std::int64_t count, ir::DType type) {
    const std::int64_t bytes = count * ir::sizeOf(type);
    if (bytes > kSmallBytes && count >= size()) return reduceSegment(data, count, type);
    std::byte* room = scratch(bytes * size());
    std::vector<Piece> out, in;
    for (const int peer : peers()) {
      out.push_back({peer, data, bytes});
      in.push_back({peer, room + peer * bytes, bytes});
    }
    SP_TRY(exchange(out, in));
    sumInto(type, room, bytes, data, data, count);
    return {};
  }

  /// One operation over several pairs of buffers of one type: their messages leave together.
  Status allToAllOf(std::span<const CollectivePart> parts) {
    std::vector<std::int64_t> to(static_cast<std::size_t>(size()), 0), from = to;
    for (const CollectivePart& p : parts) {
      SP_TRY(blocksFit(p.send.count, p.send_counts));
      SP_TRY(blocksFit(p.recv.count, p.recv_counts));
      for (std::size_t r = 0; r < to.size(); ++r) to[r] += p.send_counts[r], from[r] += p.recv_counts[r];
    }
    SP_TRY(begin(kAllToAll, parts.front().send.dtype, -1, to, from));
    std::vector<Piece> out, in;
    for (const CollectivePart& p : parts) {
      const std::int64_t element = ir::sizeOf(p.send.dtype);
      for (const Piece& piece : pieces(p.send.data, p.send_counts, element)) out.push_back(piece);
      for (const Piece& piece : pieces(p.recv.data, p.recv_counts, element)) in.push_back(piece);
      copyOwn(offset(p.recv.data, p.recv_counts, element), offset(p.send.data, p.send_counts, element),
              p.send_counts[static_cast<std::size_t>(rank())] * element);
    }
    SP_TRY(exchange(out, in));
    return end();
  }

  /// Reduce-scatter, then all-gather, in place.
  Status reduceSegment(std::byte* data, std::int64_t count, ir::DType dtype) {
    const std::int64_t element = ir::sizeOf(dtype);
    const std::int64_t each = count / size();
    const auto countOf = [&](int r) { return r + 1 == size() ? count - r * each : each; };
    const std::int64_t mine = countOf(rank()) * element;
    std::byte* own = data + rank() * each * element;
    std::byte* room = scratch(mine * size());
    std::vector<Piece> out, in;
    for (const int peer : peers()) {
      out.push_back({peer, data + peer * each * element, countOf(peer) * element});
      in.push_back({peer, room + peer * mine, mine});
    }
    SP_TRY(exchange(out, in));
    sumInto(dtype, room, mine, own, own, countOf(rank()));
    for (Piece& piece : in) piece = {piece.peer, data + piece.peer * each * element, countOf(piece.peer) * element};
    for (Piece& piece : out) piece = {piece.peer, own, mine};
    return exchange(out, in);
  }

  std::byte* scratch(std::int64_t bytes) {
    if (scratch_.size() < static_cast<std::size_t>(bytes)) scratch_.resize(static_cast<std::size_t>(bytes));
    return scratch_.data();
  }

  /// The blocks received from the peers lie in `room`, `stride` bytes apart; this rank's own is at `own`.
  void sumInto(ir::DType type, std::byte* room, std::int64_t stride, const void* own, void* out, std::int64_t count) {
    std::vector<const void*> blocks;
    for (int r = 0; r < size(); ++r) blocks.push_back(r == rank() ? own : room + r * stride);
    sumBlocks(type, blocks, out, count);
  }

  /// The buffer must hold exactly the blocks; `own`, where given, is the size of this rank's.
  Status blocksFit(std::int64_t total, std::span<const std::int64_t> counts, std::int64_t own = -1) const {
    const auto r = static_cast<std::size_t>(rank());
    if (counts.size() == static_cast<std::size_t>(size()) &&
        std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == total && (own < 0 || own == counts[r]))
      return {};
    return makeError("internal", strf("a collective's blocks (%s) do not make up its buffer of %lld elements",
                                      join(std::vector<std::int64_t>(counts.begin(), counts.end()), ", ").c_str(),
                                      static_cast<long long>(total)), Outcome::kRunFailed);
  }

  Status noSum(ir::DType type) const {
    return makeError("collective-dtype", strf("elements of type %s cannot be summed over ranks",
                                              std::string(ir::longName(type)).c_str()), Outcome::kRunFailed);
  }

  /// Opens a collective: number, deadline, notice, and what the peers are told of it. `own` is this rank's block (all-gather:
  /// sent to all; reduce-scatter: expected from all), where one of the count lists is empty.
  Status begin(Op op, ir::DType dtype, std::int64_t total, std::span<const std::int64_t> to = {},
               std::span<const std::int64_t> from = {}, std::int64_t own = -1) {
    if (failed_) return *failed_;
    op_ = op;
    ++sequence_;
    deadline_ = Clock::now() + at_.timeout;
    if (at_.on_collective) at_.on_collective(kOpNames[op], sequence_, true);
    if (at_.on_call) tellCall(dtype, total, to, from, own);
    if (size() == 1) return {};
    // What this rank is about to do goes to every peer together with the data, not before it: no round trip more.
    const auto count = [&](std::span<const std::int64_t> counts, int peer) {
      return counts.empty() ? own : counts[static_cast<std::size_t>(peer)];
    };
    mine_.resize(static_cast<std::size_t>(size()));
    theirs_.resize(mine_.size());
    std::vector<Piece> out, in;
    for (const int peer : peers()) {
      const auto i = static_cast<std::size_t>(peer);
      mine_[i] = {sequence_, op, static_cast<std::int32_t>(dtype), total, count(to, peer), count(from, peer)};
      out.push_back({peer, &mine_[i], sizeof(Header)});
      in.push_back({peer, &theirs_[i], sizeof(Header)});
    }
    return post(out, in, true, headers_);
  }

  void tellCall(ir::DType dtype, std::int64_t total, std::span<const std::int64_t> to, std::span<const std::int64_t> from, std::int64_t own) {
    CallNotice call{.op = kOpNames[op_], .group = at_.group, .members = at_.known_as, .sequence = sequence_, .dtype = dtype};
    const auto sum = [](std::span<const std::int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); };
    const auto even = [](std::span<const std::int64_t> counts) { return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end(); };
    if (op_ == kAllReduce) call.sent = call.received = total;
    if (op_ == kAllToAll) call.sent = sum(to), call.received = sum(from);
    if (op_ == kAllGather) call.sent = own, call.received = total, call.even = even(from);
    if (op_ == kReduceScatter) call.sent = total, call.received = own, call.even = even(to);
    at_.on_call(call);
  }

  Status compare(int place, const Header& mine, const Header& theirs) {
    const int peer = named(place);
    std::string what;
    if (theirs.sequence != mine.sequence)
      what = strf("rank %d is at collective #%lld", peer, static_cast<long long>(theirs.sequence));
    else if (theirs.op != mine.op)
      what = strf("rank %d does %s", peer, kOpNames[theirs.op]);
    else if (theirs.dtype != mine.dtype)
      what = strf("rank %d has elements of type %s, this rank of type %s", peer,
                  std::string(ir::longName(static_cast<ir::DType>(theirs.dtype))).c_str(),
                  std::string(ir::longName(static_cast<ir::DType>(mine.dtype))).c_str());
    else if (theirs.total != mine.total)
      what = strf("rank %d has %lld elements, this rank %lld", peer, static_cast<long long>(theirs.total),
                  static_cast<long long>(mine.total));
    else if (theirs.to_peer != mine.from_peer)
      what = strf("rank %d sends %lld elements, this rank expects %lld", peer, static_cast<long long>(theirs.to_peer),
                  static_cast<long long>(mine.from_peer));
    else if (theirs.from_peer != mine.to_peer)
      what = strf("rank %d expects %lld elements, this rank sends %lld", peer, static_cast<long long>(theirs.from_peer),
                  static_cast<long long>(mine.to_peer));
    else
      return {};
    return fail("collective-mismatch", what);
  }

  Status end() {
    if (scratch_.size() > kScratchToKeep) std::vector<std::byte>().swap(scratch_);
    if (at_.on_collective) at_.on_collective(kOpNames[op_], sequence_, false);
    if (at_.on_call) at_.on_call({.op = kOpNames[op_], .group = at_.group, .members = {}, .sequence = sequence_, .inside = false});
    return {};
  }

  /// A message under way.
  struct Pending {
    int peer;
    bool receive;
    c10::intrusive_ptr<c10d::Work> work;
  };

  /// All messages of one round. Empty ones are left out on both sides: the ranks agree in the sizes.
  Status exchange(std::span<const Piece> out, std::span<const Piece> in) {
    std::vector<Pending> data;  // freed before this returns, so that Gloo's threads touch no caller's memory later
    SP_TRY(post(out, in, false, data));
    if (!headers_.empty()) {
      std::vector<Pending> headers = std::move(headers_);
      headers_.clear();
      SP_TRY(await(headers));
      for (int peer = 0; peer < size(); ++peer)
        if (peer != rank()) SP_TRY(compare(peer, mine_[static_cast<std::size_t>(peer)], theirs_[static_cast<std::size_t>(peer)]));
    }
    return await(data);
  }

  /// Starts the messages of one round. A message's tag holds its size: where two ranks disagree in it, the messages do not
  /// meet, and the headers name the difference. (Gloo ends the process that receives more than it expects.)
  Status post(std::span<const Piece> out, std::span<const Piece> in, bool header, std::vector<Pending>& pending) {
    int peer = -1;
    try {
      const auto start = [&](const Piece& piece, bool receive) {
        if (piece.bytes == 0) return;
        peer = piece.peer;
        const int tag = tagOf(sequence_, piece.bytes, header);
        std::vector<at::Tensor> tensor{at::from_blob(piece.data, {piece.bytes}, at::TensorOptions().dtype(at::kByte))};
        pending.push_back({peer, receive, receive ? group_->recv(tensor, peer, tag) : group_->send(tensor, peer, tag)});
      };
      for (const Piece& piece : in) start(piece, true);
      for (const Piece& piece : out) start(piece, false);
      return {};
    } catch (const std::exception& e) {
      return explain(e.what(), peer, pending);
    }
  }

  Status await(std::vector<Pending>& pending) {
    int peer = -1;
    try {
      for (Pending& p : pending) {
        peer = p.peer;
        p.work->wait(remaining());
        p.work.reset();
      }
      return {};
    } catch (const std::exception& e) {
      return explain(e.what(), peer, pending);
    }
  }

  /// The error of a message with `peer`, which may itself only wait for the one at fault: asks the others, too.
  Status explain(const char* what, int peer, std::vector<Pending>& pending) {
    const auto isTimeout = [](std::string_view text) {
      return text.find("imed out") != std::string_view::npos || text.find("timeout") != std::string_view::npos;
    };
    const std::string text = firstLine(what);
    const bool timeout = isTimeout(text);
    std::vector<std::string> silent{std::to_string(named(peer))};
    for (Pending& p : pending) {
      if (!p.work || p.peer == peer || !p.receive) continue;
      try {
        p.work->wait(milliseconds(1));
      } catch (const std::exception& other) {
        if (isTimeout(other.what()) == timeout) silent.push_back(std::to_string(named(p.peer)));
      }
    }
    const std::string who = (silent.size() > 1 ? "ranks " : "rank ") + join(silent, ", ");
    if (timeout)
      return fail("collective-timeout",
                  strf("no answer from %s within %.1f s", who.c_str(), static_cast<double>(at_.timeout.count()) / 1e3));
    return fail("peer-lost", strf("connection to %s lost: %s", who.c_str(), text.c_str()));
  }

  /// c10d takes 31 bits. Equal tags of two collectives do no harm: such messages meet in their order.
  static int tagOf(std::int64_t sequence, std::int64_t bytes, bool header) {
    auto x = static_cast<std::uint64_t>(sequence) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(2 * bytes + header);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<int>(x >> 33);
  }

  milliseconds remaining() const {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    return std::max(left, milliseconds(1));  // 0 would mean "the default" to c10d
  }

  Status fail(std::string_view code, const std::string& what) {
    failed_ = makeError(code, strf("rank %d, %s #%lld: %s", named(rank()), kOpNames[op_], static_cast<long long>(sequence_),
                                   what.c_str()), Outcome::kRunFailed);
    return *failed_;
  }

  Rendezvous at_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  Op op_ = kBarrier;
  std::int64_t sequence_ = 0;
  Clock::time_point deadline_;
  std::vector<std::byte> scratch_, joined_;
  std::vector<Header> mine_, theirs_;  ///< by peer, of the collective that was begun last
  std::vector<Pending> headers_;       ///< under way; compared by its first exchange
  std::optional<Error> failed_;
};

/// Meets the others. Most of what it calls knows its deadline.
Result<std::unique_ptr<Collectives>> meet(const Rendezvous& at) {
  SP_ASSIGN(auto store, openStore(at));
  SP_TRY(awaitAll(*store, at));
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(at.connect_timeout);
    options->threads = 1;  // serves Gloo's own collectives, which are not used
    if (!at.interface.empty())
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(at.interface));
    else if (at.host.empty())
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    else if (const std::string local = localAddressTowards(at.host); !local.empty())
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(local));
    else
      options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, at.rank, at.size, options);
    return std::unique_ptr<Collectives>(std::make_unique<GlooCollectives>(at, store, std::move(group)));
  } catch (const std::exception& e) {
    return makeError("rendezvous-failed", strf("rank %d of %d cannot connect: %s", at.rank, at.size,
                                               firstLine(e.what()).c_str()), Outcome::kRunFailed);
  }
}

/// A meeting that goes on by itself, for as long as it likes: a store whose host has gone away silently, a name server that
/// does not answer, a lock on the store's file are waited for without end by what is called in there.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<std::unique_ptr<Collectives>>> outcome;
};

}  // namespace

std::string libtorchVersion() { return TORCH_VERSION; }

Result<std::unique_ptr<Collectives>> connectGloo(const Rendezvous& at) {
  if (at.size < 1 || at.rank < 0 || at.rank >= at.size)
    return makeError("rendezvous-failed", strf("there is no rank %d among %d", at.rank, at.size), Outcome::kRunFailed);
  if (at.file.empty() == at.host.empty())
    return makeError("rendezvous-failed", "a rendezvous needs either a file or a host", Outcome::kRunFailed);
  // What goes wrong in there comes back as an error; c10d's own warnings add stack traces of a hundred lines to it.
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;
  ignoreBrokenPipes();  // a peer that has gone is an error like any other
  if (at.on_collective) at.on_collective("rendezvous", 0, true);
  const auto meeting = std::make_shared<Meeting>();
  std::thread([meeting, at] {
    auto outcome = meet(at);
    const std::lock_guard lock(meeting->mutex);
    meeting->outcome = std::move(outcome);
    meeting->changed.notify_all();
  }).detach();
  std::unique_lock lock(meeting->mutex);
  // One second more, for the error that names who is missing.
  if (!meeting->changed.wait_for(lock, at.connect_timeout + std::chrono::seconds(1), [&] { return meeting->outcome.has_value(); })) {
    endWithoutDestructors();  // that thread stays
    const std::string where = at.host.empty() ? at.file : at.host + ":" + std::to_string(at.port);
    return makeError("rendezvous-timeout", strf("rank %d of %d: no answer from the store at %s, or from another rank, within %.1f s", at.rank,
                                                at.size, where.c_str(), static_cast<double>(at.connect_timeout.count()) / 1e3),
                     Outcome::kRunFailed);
  }
  if (*meeting->outcome && at.on_collective) at.on_collective("rendezvous", 0, false);
  return std::move(*meeting->outcome);
}

}  // namespace spscope::dist
