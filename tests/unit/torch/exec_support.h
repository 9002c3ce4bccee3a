// SPDX-License-Identifier: Apache-2.0
// What the executor's tests share: graphs by hand, bags by hand, and real collectives between threads.
#pragma once

#include <condition_variable>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/dist/collectives.h"
#include "core/ir/graph.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec::testing {

/// `Graph` with short-hands: input(), op(), output().
struct Builder {
  ir::Graph graph;

  ir::ValueId input(const std::string& name, ir::DType dtype, ir::Dims shape,
                    ir::InputKind kind = ir::InputKind::kUser) {
    const ir::ValueId v = graph.addValue(name, dtype, std::move(shape));
    ir::Input in;
    in.value = v;
    in.kind = kind;
    in.name = name;
    in.trainable = kind == ir::InputKind::kParameter;
    graph.inputs.push_back(std::move(in));
    return v;
  }
  struct Arg {
    const char* name;
    ir::Attribute value;
  };
  static Arg t(const char* name, ir::ValueId v) { return {name, ir::Use{v}}; }
  static Arg i(const char* name, std::int64_t v) { return {name, v}; }
  static Arg list(const char* name, ir::Dims v) { return {name, std::move(v)}; }

  /// One output of the given type and shape.
  ir::ValueId op(const char* op, ir::DType dtype, ir::Dims shape, std::initializer_list<Arg> args) {
    return ops(op, {{dtype, std::move(shape)}}, args).front();
  }
  std::vector<ir::ValueId> ops(const char* op, const std::vector<std::pair<ir::DType, ir::Dims>>& outputs,
                               std::initializer_list<Arg> args) {
    const ir::NodeId n = graph.addNode(op, "n");
    for (const Arg& a : args) graph.node(n).set(a.name, a.value);
    std::vector<ir::ValueId> values;
    for (const auto& [dtype, shape] : outputs) values.push_back(graph.addOutput(n, dtype, shape));
    graph.order.push_back(n);
    return values;
  }
  void output(ir::ValueId v, ir::OutputKind kind = ir::OutputKind::kUser, int input_index = ir::kNone) {
    graph.outputs.push_back({v, kind, input_index});
  }
  std::shared_ptr<const ir::Graph> share() const { return std::make_shared<ir::Graph>(graph); }
};

template <typename T>
void put(TensorBag& bag, const std::string& name, ir::DType dtype, const ir::Dims& shape, const std::vector<T>& values) {
  const Status status =
      bag.add(name, dtype, shape, std::as_bytes(std::span<const T>(values.data(), values.size())));
  if (!status) throw std::runtime_error(status.error().format());
}

/// Collectives between the threads of one process: every call is a meeting of all of them.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : size_(size), slots_(static_cast<std::size_t>(size)) {}
  class Member;
  std::unique_ptr<dist::Collectives> member(int rank);

 private:
  friend class Member;
  struct Slot {
    const char* data = nullptr;
    std::vector<std::int64_t> counts;
    std::string text;
  };
  void meet() {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return round_ != round; });
    }
  }
  int size_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable all_;
  int waiting_ = 0;
  std::int64_t round_ = 0;
};

class ThreadGroup::Member final : public dist::Collectives {
 public:
  Member(ThreadGroup* group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_->size_; }
  Status allReduceSum(dist::Buffer buffer) override {
    const std::vector<std::int64_t> whole(static_cast<std::size_t>(size()), buffer.count);
    std::vector<char> result(bytes(buffer));
    publish(buffer, whole);
    std::memset(result.data(), 0, result.size());
    for (int from = 0; from < size(); ++from) addUp(result.data(), slot(from).data, buffer.count, buffer.dtype);
    group_->meet();
    if (!result.empty()) std::memcpy(buffer.data, result.data(), result.size());
    return {};
  }
  Status allToAll(dist::Buffer send, std::span<const std::int64_t> send_counts, dist::Buffer recv,
                  std::span<const std::int64_t> recv_counts) override {
    publish(send, {send_counts.begin(), send_counts.end()});
    char* out = static_cast<char*>(recv.data);
    for (int from = 0; from < size(); ++from) {
      const auto& counts = slot(from).counts;
      std::int64_t begin = 0;
      for (int r = 0; r < rank_; ++r) begin += counts[static_cast<std::size_t>(r)];
      if (counts[static_cast<std::size_t>(rank_)] != recv_counts[static_cast<std::size_t>(from)])
        return makeError("collective-mismatch", "counts differ");
      out = copy(out, slot(from).data, begin, recv_counts[static_cast<std::size_t>(from)], recv.dtype);
    }
    group_->meet();
    return {};
  }
  Status allGather(dist::Buffer send, dist::Buffer recv, std::span<const std::int64_t> counts) override {
    publish(send, {send.count});
    char* out = static_cast<char*>(recv.data);
    for (int from = 0; from < size(); ++from)
      out = copy(out, slot(from).data, 0, counts[static_cast<std::size_t>(from)], recv.dtype);
    group_->meet();
    return {};
  }
  Status reduceScatterSum(dist::Buffer send, dist::Buffer recv, std::span<const std::int64_t> counts) override {
    publish(send, {counts.begin(), counts.end()});
    std::int64_t begin = 0;
    for (int r = 0; r < rank_; ++r) begin += counts[static_cast<std::size_t>(r)];
    if (recv.count > 0) std::memset(recv.data, 0, bytes(recv));
    for (int from = 0; from < size(); ++from)
      addUp(recv.data, slot(from).data + begin * ir::sizeOf(recv.dtype), recv.count, recv.dtype);
    group_->meet();
    return {};
  }
  Status barrier() override {
    group_->meet();
    return {};
  }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override {
    group_->slots_[static_cast<std::size_t>(rank_)].text = text;
    group_->meet();
    std::vector<std::string> all;
    for (int r = 0; r < size(); ++r) all.push_back(slot(r).text);
    group_->meet();
    return all;
  }

 private:
  static std::size_t bytes(const dist::Buffer& b) { return static_cast<std::size_t>(b.count * ir::sizeOf(b.dtype)); }
  const ThreadGroup::Slot& slot(int r) const { return group_->slots_[static_cast<std::size_t>(r)]; }
  void publish(const dist::Buffer& buffer, std::vector<std::int64_t> counts) {
    auto& mine = group_->slots_[static_cast<std::size_t>(rank_)];
    mine.data = static_cast<const char*>(buffer.data);
    mine.counts = std::move(counts);
    group_->meet();
  }
  static char* copy(char* out, const char* in, std::int64_t begin, std::int64_t count, ir::DType dtype) {
    const std::int64_t e = ir::sizeOf(dtype);
    if (count > 0) std::memcpy(out, in + begin * e, static_cast<std::size_t>(count * e));
    return out + count * e;
  }
  static void addUp(void* out, const char* in, std::int64_t count, ir::DType dtype) {
    if (dtype == ir::DType::kF64)
      for (std::int64_t i = 0; i < count; ++i) static_cast<double*>(out)[i] += reinterpret_cast<const double*>(in)[i];
    else if (dtype == ir::DType::kF32)
      for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(out)[i] += reinterpret_cast<const float*>(in)[i];
    else if (dtype == ir::DType::kI64)
      for (std::int64_t i = 0; i < count; ++i)
        static_cast<std::int64_t*>(out)[i] += reinterpret_cast<const std::int64_t*>(in)[i];
    else
      throw std::runtime_error("dtype");
  }
  ThreadGroup* group_;
  int rank_;
};

inline std::unique_ptr<dist::Collectives> ThreadGroup::member(int rank) { return std::make_unique<Member>(this, rank); }

}  // namespace spscope::exec::testing
