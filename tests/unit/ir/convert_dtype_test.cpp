// SPDX-License-Identifier: Apache-2.0
#include "core/ir/convert_dtype.h"

#include <gtest/gtest.h>

namespace spscope::ir {
namespace {

/// w: f32 parameter; y = linear(x_bf16, w_bf16) under autocast; z = to(y, f32); loss = sum(z).
struct Autocast {
  Graph g;
  ValueId x, w, x_low, w_low, y, z, loss;
  Autocast() {
    const auto add = [&](Symbol op, ValueId self, DType type, Dims shape, bool autocast, bool names_dtype) {
      const NodeId n = g.addNode(op, "");
      g.node(n).args.push_back({"self", Use{self}});
      if (names_dtype) g.node(n).args.push_back({"dtype", type});
      if (autocast) g.node(n).provenance.pass = "autocast";
      const ValueId v = g.addOutput(n, type, std::move(shape));
      g.order.push_back(n);
      return v;
    };
    x = g.addValue("x", DType::kF32, {2, 4});
    w = g.addValue("w", DType::kF32, {3, 4});
    Input weight;
    weight.value = w;
    weight.kind = InputKind::kParameter;
    weight.storage = StorageRef{"data/weights/weight_0", 0, {4, 1}, DType::kF32};
    Input user;
    user.value = x;
    g.inputs = {weight, user};
    x_low = add("aten.to.dtype", x, DType::kBF16, {2, 4}, true, true);
    w_low = add("aten.to.dtype", w, DType::kBF16, {3, 4}, true, true);
    y = add("aten.linear.default", x_low, DType::kBF16, {2, 3}, false, false);
    g.node(g.order.back()).args.push_back({"weight", Use{w_low}});
    z = add("aten.to.dtype", y, DType::kF32, {2, 3}, false, true);
    loss = add("aten.sum.default", z, DType::kF32, {}, false, false);
    g.outputs.push_back({loss, OutputKind::kLoss, kNone});
  }
};

TEST(ConvertDtype, Float64DropsTheCastsOfAutocastAndKeepsTheModelsOwn) {
  Autocast a;
  ASSERT_TRUE(convertFloat32To64(a.g));
  std::vector<std::string> ops;
  for (const NodeId id : a.g.order) {
    ops.push_back(a.g.node(id).op.str());
    for (const ValueId v : a.g.node(id).outputs) EXPECT_EQ(a.g.value(v).dtype, DType::kF64);
    for (const Argument& arg : a.g.node(id).args)
      if (const auto* d = std::get_if<DType>(&arg.value)) {
        EXPECT_EQ(*d, DType::kF64);
      }
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"aten.linear.default", "aten.to.dtype", "aten.sum.default"}));
  const Node& linear = a.g.node(a.g.order[0]);
  EXPECT_EQ(useArg(linear, "self"), a.x);
  EXPECT_EQ(useArg(linear, "weight"), a.w);
  EXPECT_EQ(a.g.inputs[0].storage->dtype, DType::kF32) << "the file does not change";
  EXPECT_EQ(a.g.value(a.w).dtype, DType::kF64);
}

TEST(ConvertDtype, LowPrecisionOfTheModelItselfStaysUnlessAsked) {
  for (const bool asked : {false, true}) {
    Graph g;
    const ValueId half = g.addValue("h", DType::kBF16, {2}), ids = g.addValue("i", DType::kI64, {2}),
                  wide = g.addValue("d", DType::kF64, {2}), complex = g.addValue("c", DType::kC64, {2});
    ASSERT_TRUE(convertFloats(g, DType::kF64, {asked}));
    EXPECT_EQ(g.value(half).dtype, asked ? DType::kF64 : DType::kBF16);
    EXPECT_EQ(g.value(ids).dtype, DType::kI64);
    EXPECT_EQ(g.value(wide).dtype, DType::kF64);
    EXPECT_EQ(g.value(complex).dtype, DType::kC128);
  }
}

TEST(ConvertDtype, RefusesWhatHasNoTwin) {
  Graph g;
  g.addValue("c", DType::kC64, {2});
  EXPECT_EQ(convertFloats(g, DType::kBF16).error().code, "dtype-unsupported");
  EXPECT_EQ(convertFloats(g, DType::kI64).error().code, "dtype-unsupported");
}

}  // namespace
}  // namespace spscope::ir
