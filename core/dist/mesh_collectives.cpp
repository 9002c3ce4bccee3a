// SPDX-License-Identifier: Apache-2.0
#include "core/dist/mesh_collectives.h"

namespace spscope::dist {
namespace {

class MeshCollectives final : public Collectives {
 public:
  explicit MeshCollectives(MeshGroups groups) : g_(std::move(groups)) {}

  int rank() const override { return g_.all->rank(); }
  int size() const override { return g_.all->size(); }
  std::int64_t sequence() const override { return sequence_; }

  Status allReduceSum(Buffer buffer) override {
    return tell("all_reduce", [&] { return g_.all->allReduceSum(buffer); });
  }
  Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv, std::span<const std::int64_t> recv_counts) override {
    return tell("all_to_all", [&] { return g_.all->allToAll(send, send_counts, recv, recv_counts); });
  }
  Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return tell("all_gather", [&] { return g_.all->allGather(send, recv, counts); });
  }
  Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) override {
    return tell("reduce_scatter", [&] { return g_.all->reduceScatterSum(send, recv, counts); });
  }
  Status runAll(CollectiveKind kind, std::span<const CollectivePart> parts) override {
    if (parts.empty()) return {};
    return tell(collectiveName(kind), [&] { return groupOf(parts.front().axis).runAll(kind, parts); });
  }
  Status barrier() override {
    return tell("barrier", [&] { return g_.all->barrier(); });
  }
  Result<std::vector<std::string>> allGatherText(const std::string& text) override {
    std::vector<std::string> texts;
    SP_TRY(tell("gather_text", [&]() -> Status {
      SP_ASSIGN(texts, g_.all->allGatherText(text));
      return {};
    }));
    return texts;
  }

 private:
  Collectives& groupOf(ir::MeshAxis axis) {
    if (axis == ir::MeshAxis::kSequence && g_.sequence) return *g_.sequence;
    if (axis == ir::MeshAxis::kData && g_.data) return *g_.data;
    return *g_.all;
  }
  template <typename Call>
  Status tell(std::string_view op, Call call) {
    ++sequence_;
    if (g_.on_collective) g_.on_collective(op, sequence_, true);
    SP_TRY(call());
    if (g_.on_collective) g_.on_collective(op, sequence_, false);
    return {};
  }

  MeshGroups g_;
  std::int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> makeMesh(MeshGroups groups) { return std::make_unique<MeshCollectives>(std::move(groups)); }

}  // namespace spscope::dist
