// SPDX-License-Identifier: Apache-2.0
// What a compiled step is said to have row by row in memory lies so when it runs: copies were left out because of it.
#include <gtest/gtest.h>

#include "tests/support/layouts.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

class Layout : public testing::TestWithParam<std::string> {};

TEST_P(Layout, WhatIsCalledContiguousIs) {
  const Case what = caseOf(GetParam(), 2);
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::OpenRequest open;
  open.path = what.path;
  const auto model = session::open(open, request).value();
  session::CompileRequest compile;
  compile.settings.sp = what.sp;
  const auto compiled = session::compile(*model, compile, request).value();
  session::DataRequest data;
  data.inputs = what.inputs;
  const auto state = session::loadState(*model, data, request).value();
  const auto inputs = session::loadInputs(*model, data, 0, request).value();
  exec::testing::Programs programs;
  for (int rank = 0; rank < what.sp; ++rank) 
    programs.push_back(compiled.compiled.programs[static_cast<std::size_t>(compiled.compiled.class_of_rank[static_cast<std::size_t>(rank)])]);

  exec::testing::Layouts layouts;
  const auto result = exec::testing::runAndLook(programs, state, inputs, layouts);
  ASSERT_TRUE(result) << result.error().format();
  // It says so of enough values to be of use, and not of all.
  EXPECT_GT(layouts.sure, layouts.contiguous / 3);
  EXPECT_LT(layouts.contiguous, layouts.values);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Layout, testing::Values("llama_causal_gqa_pos", "llama_bf16_pos", "llama_gqa_pad", "gpt2_pos", "gpt2_eager",
                                                      "bert_mask", "gemma_pos", "nanogpt", "qwen2_pos", "mixtral_batched_pos",
                                                      "torch_mha_seqfirst", "vit"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace spscope::zoo
