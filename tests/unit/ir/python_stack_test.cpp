// SPDX-License-Identifier: Apache-2.0
#include "core/ir/python_stack.h"

#include <gtest/gtest.h>

namespace spscope::ir {
namespace {

TEST(PythonStack, FramesAreReadOutermostFirst) {
  const auto frames = framesOf("File \"/srv/m.py\", line 35, in forward\n    return f(x)\n  File \"lib/a b.py\", line 7, in f\n    y = x\n  File \"z.py\", line 1");
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[0].file, "/srv/m.py");
  EXPECT_EQ(frames[0].line, 35);
  EXPECT_EQ(frames[0].function, "forward");
  EXPECT_EQ(frames[1].file, "lib/a b.py");
  EXPECT_EQ(frames[1].function, "f");
  EXPECT_EQ(frames[2].line, 1);
  EXPECT_EQ(frames[2].function, "");
}

TEST(PythonStack, WhatIsNoFrameIsPassedOver) {
  for (const char* text : {"", "File", "File \"", "File \"x.py", "File \"x.py\"", "File \"x.py\", line ", "File \"x.py\", line x", "File \"x.py\", line -3", "File \"x.py\", line 99999999999999999999"})
    EXPECT_TRUE(framesOf(text).empty()) << text;
  EXPECT_EQ(framesOf("File \"x.py\", line x File \"y.py\", line 2").size(), 1U);
}

TEST(PythonStack, FilesOfTorchAreNotTheUsers) {
  EXPECT_TRUE(isTorchFile("/usr/lib/python3/site-packages/torch/nn/functional.py"));
  EXPECT_TRUE(isTorchFile("torch/x.py"));
  EXPECT_TRUE(isTorchFile("<string>"));
  EXPECT_FALSE(isTorchFile("/srv/torchless/model.py"));
}

}  // namespace
}  // namespace spscope::ir
