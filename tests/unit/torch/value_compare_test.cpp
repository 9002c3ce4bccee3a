// SPDX-License-Identifier: Apache-2.0
// Parts of a value against the whole: replicated, sharded (also inside a merged dimension), partial; which ways of putting parts
// together fit; and what a summary says of a tensor.
#include "core/torch/value_compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/torch/value_summary.h"

namespace spscope::exec {
namespace {

using ir::PlacementKind;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TensorBag bag(const ir::Dims& shape, const std::vector<double>& values) {
  TensorBag out;
  EXPECT_TRUE(out.add("x", ir::DType::kF64, shape, std::as_bytes(std::span(values))));
  return out;
}

TEST(ValueCompare, AShardIsComparedBlockByBlock) {
  const TensorBag whole = bag({2, 3}, {1, 2, 3, 4, 5, 6});
  const Assembly how{PlacementKind::kSharded, {1, 1, {2, 1}}};
  const auto right = compareValue({bag({2, 2}, {1, 2, 4, 5}), bag({2, 1}, {3, 6})}, whole, how);
  ASSERT_TRUE(right);
  EXPECT_EQ(right->error, 0.0);
  EXPECT_DOUBLE_EQ(right->norm, std::sqrt(91.0));
  const auto wrong = compareValue({bag({2, 2}, {1, 2, 4, 5}), bag({2, 1}, {3, 8})}, whole, how);
  ASSERT_TRUE(wrong);
  EXPECT_THAT(wrong->rank_error, ElementsAre(0.0, 2.0));
  EXPECT_THAT(wrong->worst, ElementsAre(1, 2));
  EXPECT_EQ(wrong->got, 8.0);
  EXPECT_EQ(wrong->wanted, 6.0);
  EXPECT_DOUBLE_EQ(wrong->max_rel, 2.0 / 6.0);
}

TEST(ValueCompare, AShardInsideAMergedDimensionGoesToItsPlaces) {
  // [B*S] with B = 2, S = 3 in blocks of 2 and 1.
  const TensorBag whole = bag({6}, {0, 1, 2, 10, 11, 12});
  const std::vector<TensorBag> parts{bag({4}, {0, 1, 10, 11}), bag({2}, {2, 13})};
  const auto d = compareValue(parts, whole, {PlacementKind::kSharded, {0, 2, {2, 1}}});
  ASSERT_TRUE(d);
  EXPECT_THAT(d->rank_error, ElementsAre(0.0, 1.0));
  EXPECT_THAT(d->worst, ElementsAre(5));
  EXPECT_GT(compareValue(parts, whole, {PlacementKind::kSharded, {0, 1, {4, 2}}})->error, 1.0);
}

TEST(ValueCompare, ARankWithoutElementsIsNeverOff) {
  const auto d = compareValue({bag({2}, {1, 2}), bag({0}, {})}, bag({2}, {1, 2}), {PlacementKind::kSharded, {0, 1, {2, 0}}});
  ASSERT_TRUE(d) << d.error().format();
  EXPECT_EQ(d->error, 0.0);
}

TEST(ValueCompare, PartialValuesAreSummedReplicatedOnesHeldOneByOne) {
  const TensorBag whole = bag({2}, {3, 5});
  const std::vector<TensorBag> parts{bag({2}, {1, 2}), bag({2}, {2, 3})};
  EXPECT_EQ(compareValue(parts, whole, {PlacementKind::kPartial})->error, 0.0);
  const auto each = compareValue(parts, whole, {PlacementKind::kReplicated});
  EXPECT_THAT(each->rank_error, SizeIs(2));
  EXPECT_DOUBLE_EQ(each->error, std::sqrt(13.0));  // of the worse rank
}

TEST(ValueCompare, WhatIsNoNumberOnOneSideIsInfinitelyOff) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Assembly how{PlacementKind::kReplicated};
  EXPECT_EQ(compareValue({bag({2}, {nan, 1})}, bag({2}, {nan, 1}), how)->error, 0.0);
  EXPECT_TRUE(std::isinf(compareValue({bag({2}, {nan, 1})}, bag({2}, {0, 1}), how)->error));
  // The most negative number, as masks hold it, does not drown the rest.
  const double lowest = std::numeric_limits<double>::lowest();
  const auto masked = compareValue({bag({3}, {lowest, 3, 4})}, bag({3}, {lowest, 3, 4}), how);
  EXPECT_DOUBLE_EQ(masked->norm, 5.0);
}

TEST(ValueCompare, FindsTheWaysInWhichPartsMayLie) {
  const auto same = assembliesFor({{4, 2}, {4, 2}}, {4, 2}, {1});
  ASSERT_THAT(same, SizeIs(2));
  EXPECT_EQ(same[0].kind, PlacementKind::kReplicated);
  EXPECT_EQ(same[1].kind, PlacementKind::kPartial);
  const auto merged = assembliesFor({{4, 2}, {2, 2}}, {6, 2}, {1, 2, 4});
  ASSERT_THAT(merged, SizeIs(2));  // four does not divide
  EXPECT_EQ(merged[1].shard.outer, 2);
  EXPECT_THAT(merged[1].shard.blocks, ElementsAre(2, 1));
  EXPECT_THAT(assembliesFor({{4, 2}, {1, 2}}, {6, 2}, {1}), IsEmpty());
  EXPECT_THAT(assembliesFor({{4}, {2}}, {6, 1}, {1}), IsEmpty());
  EXPECT_EQ(compareValue({bag({4}, {1, 2, 3, 4})}, bag({2}, {1, 2}), {PlacementKind::kReplicated}).error().code, "tensor-shape");
}

TEST(ValueSummary, CountsWhatIsNoNumberAndSpreadsTheRest) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto s = summarize(bag({2, 2, 3}, {0, 1, 2, 3, 4, nan, 6, 7, 8, inf, 10, 10}), 5);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->count, 12);
  EXPECT_EQ(s->nan, 1);
  EXPECT_EQ(s->inf, 1);
  EXPECT_EQ(s->min, 0);
  EXPECT_EQ(s->max, 10);
  EXPECT_DOUBLE_EQ(s->mean, 5.1);
  EXPECT_THAT(s->histogram, ElementsAre(2, 2, 1, 2, 3));  // the largest belongs to the last bin
  EXPECT_THAT(s->slice_shape, ElementsAre(2, 3));         // of the first matrix
  EXPECT_THAT(std::vector<double>(s->slice.begin(), s->slice.begin() + 5), ElementsAre(0, 1, 2, 3, 4));
}

TEST(ValueSummary, TakesScalarsEmptyTensorsAndHugeRanges) {
  const auto one = summarize(bag({}, {7}));
  ASSERT_TRUE(one);
  EXPECT_THAT(one->slice, ElementsAre(7));
  EXPECT_EQ(one->histogram[0], 1);
  const auto none = summarize(bag({0, 3}, {}));
  ASSERT_TRUE(none) << none.error().format();
  EXPECT_THAT(none->slice, IsEmpty());
  EXPECT_THAT(none->histogram, IsEmpty());
  const double most = std::numeric_limits<double>::max();
  const auto wide = summarize(bag({2}, {-most, most}), 4);
  ASSERT_TRUE(wide);
  EXPECT_THAT(wide->histogram, ElementsAre(1, 0, 0, 1));
}

}  // namespace
}  // namespace spscope::exec
