// SPDX-License-Identifier: Apache-2.0
// The layered layout: boxes never overlap, edges go down, cycles and very long edges are drawn, chains of any length.
#include <gtest/gtest.h>

#include <random>

#include "ui/model/graph/layered_layout.h"

namespace spscope::ui {
namespace {

bool overlap(const Layout& l, const std::vector<Size>& s, std::size_t a, std::size_t b) {
  return l.boxes[a].x < l.boxes[b].x + s[b].width && l.boxes[b].x < l.boxes[a].x + s[a].width && l.boxes[a].y < l.boxes[b].y + s[b].height &&
         l.boxes[b].y < l.boxes[a].y + s[a].height;
}

void expectSound(const Layout& l, const std::vector<Size>& sizes, const std::vector<LayoutEdge>& edges) {
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    EXPECT_GE(l.boxes[a].x, -0.01f);
    EXPECT_GE(l.boxes[a].y, -0.01f);
    EXPECT_LE(l.boxes[a].x + sizes[a].width, l.size.width + 0.01f);
    EXPECT_LE(l.boxes[a].y + sizes[a].height, l.size.height + 0.01f);
    for (std::size_t b = a + 1; b < sizes.size(); ++b) ASSERT_FALSE(overlap(l, sizes, a, b)) << a << " and " << b;
  }
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto from = static_cast<std::size_t>(edges[e].from), to = static_cast<std::size_t>(edges[e].to);
    if (from == to) continue;
    const auto low = l.routes[e].upwards ? to : from, high = l.routes[e].upwards ? from : to;
    EXPECT_LE(l.boxes[low].y + sizes[low].height, l.boxes[high].y) << "edge " << e;
    float y = l.boxes[low].y;
    std::vector<Point> points = l.routes[e].points;
    if (l.routes[e].upwards) std::reverse(points.begin(), points.end());
    for (const Point p : points) {
      EXPECT_GT(p.y, y);
      y = p.y;
    }
  }
}

TEST(LayeredLayout, ADiamondIsSymmetric) {
  const std::vector<Size> sizes(4, {100, 30});
  const std::vector<LayoutEdge> edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const Layout l = layered(sizes, edges);
  expectSound(l, sizes, edges);
  EXPECT_EQ(l.ranks, (std::vector<std::int32_t>{0, 1, 1, 2}));
  EXPECT_FLOAT_EQ(l.boxes[0].x, l.boxes[3].x);
  EXPECT_FLOAT_EQ(l.boxes[0].x, (l.boxes[1].x + l.boxes[2].x) / 2);
}

TEST(LayeredLayout, AChainIsStraight) {
  std::vector<Size> sizes;
  std::vector<LayoutEdge> edges;
  for (int i = 0; i < 20; ++i) sizes.push_back({80.0f + 10.0f * static_cast<float>(i % 3), 30});
  for (int i = 0; i < 19; ++i) edges.push_back({i, i + 1});
  const Layout l = layered(sizes, edges);
  expectSound(l, sizes, edges);
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_NEAR(l.boxes[i].x + sizes[i].width / 2, l.boxes[0].x + sizes[0].width / 2, 0.5f);
}

TEST(LayeredLayout, CyclesAreDrawnWithOneEdgeUpwards) {
  const std::vector<Size> sizes(3, {50, 20});
  const std::vector<LayoutEdge> edges{{0, 1}, {1, 2}, {2, 0}, {1, 1}};
  const Layout l = layered(sizes, edges);
  expectSound(l, sizes, edges);
  EXPECT_FALSE(l.routes[0].upwards);
  EXPECT_FALSE(l.routes[1].upwards);
  EXPECT_TRUE(l.routes[2].upwards);
}

TEST(LayeredLayout, WhatFeedsManyRanksBecomesAPortalAndStandsNearItsFirstReader) {
  std::vector<Size> sizes(41, {60, 20});
  std::vector<LayoutEdge> edges;
  for (int i = 0; i < 39; ++i) edges.push_back({i, i + 1});
  for (int i = 10; i < 40; ++i) edges.push_back({40, i});
  const Layout l = layered(sizes, edges, {.portal_ranks = 8});
  expectSound(l, sizes, edges);
  EXPECT_EQ(l.ranks[40], 9);
  EXPECT_FALSE(l.routes[39].portal);
  EXPECT_TRUE(l.routes.back().portal);
  EXPECT_TRUE(l.routes.back().points.empty());
}

TEST(LayeredLayout, GV_03_ChainsOfAHundredThousandBoxesNeedNoStack) {
  constexpr int kBoxes = 100'000;
  const std::vector<Size> sizes(kBoxes, {60, 20});
  std::vector<LayoutEdge> edges;
  for (int i = 0; i + 1 < kBoxes; ++i) edges.push_back({i, i + 1});
  const Layout l = layered(sizes, edges);
  EXPECT_EQ(l.ranks.back(), kBoxes - 1);
}

TEST(LayeredLayout, RandomGraphsAreSoundAndTheSameEachTime) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const int n = 2 + static_cast<int>(random() % 60);
    std::vector<Size> sizes;
    for (int i = 0; i < n; ++i) sizes.push_back({40.0f + static_cast<float>(random() % 200), 20.0f + static_cast<float>(random() % 50)});
    std::vector<LayoutEdge> edges;
    for (int i = 0; i < 2 * n; ++i) edges.push_back({static_cast<int>(random() % static_cast<unsigned>(n)), static_cast<int>(random() % static_cast<unsigned>(n))});
    const Layout l = layered(sizes, edges);
    expectSound(l, sizes, edges);
    EXPECT_EQ(layered(sizes, edges).boxes, l.boxes);
  }
}

TEST(LayeredLayout, LinesFromOutsideComeThroughTheBorder) {
  const std::vector<Size> sizes{{80, 30}, {120, 90}, {80, 30}, {60, 20}};
  const std::vector<LayoutEdge> edges{{0, 1}, {0, 3}, {1, 2}, {3, 2}};
  const std::vector<LayoutPort> ports{{0, false}, {3, false}, {2, true}, {0, true}};
  const Layout l = layered(sizes, edges, {}, ports);
  expectSound(l, sizes, edges);
  ASSERT_EQ(l.ports.size(), 4u);
  EXPECT_FLOAT_EQ(l.ports[0].points.front().y, 0) << "from the upper border";
  EXPECT_EQ(l.ports[0].points.size(), 1u) << "nothing stands between";
  ASSERT_EQ(l.ports[1].points.size(), 3u) << "the border, then past the first row";
  EXPECT_TRUE(l.ports[1].points[1].x < l.boxes[0].x || l.ports[1].points[1].x > l.boxes[0].x + 80);
  EXPECT_FLOAT_EQ(l.ports[1].points[1].x, l.ports[1].points[2].x);
  EXPECT_FLOAT_EQ(l.ports[2].points.back().y, l.size.height) << "to the lower one";
  EXPECT_FLOAT_EQ(l.ports[3].points.back().y, l.size.height);
  EXPECT_LE(l.rows[3].bottom - l.rows[3].top, 90);
  EXPECT_FLOAT_EQ(l.rows[1].top, l.rows[3].top) << "one row";
  EXPECT_TRUE(layered(sizes, edges, {.port_ranks = 1}, ports).ports[1].portal) << "too far from the border";
}

TEST(LayeredLayout, NothingAndOneBox) {
  EXPECT_TRUE(layered({}, {}).boxes.empty());
  const Layout one = layered({{70, 30}}, {});
  EXPECT_EQ(one.boxes[0], (Point{0, 0}));
  EXPECT_FLOAT_EQ(one.size.width, 70);
  EXPECT_FLOAT_EQ(one.size.height, 30);
}

}  // namespace
}  // namespace spscope::ui
