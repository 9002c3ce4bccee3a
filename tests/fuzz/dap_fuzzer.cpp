// SPDX-License-Identifier: Apache-2.0
// The stream of a Debug Adapter Protocol client, at once and in pieces: the same messages and faults come out.
#include <algorithm>
#include <vector>

#include "app/dap/wire/frame.h"
#include "app/dap/wire/message.h"
#include "tests/fuzz/fuzz_input.h"

using namespace spscope;
using namespace spscope::app::dap;

namespace {

std::vector<Frame> framesOf(std::string_view bytes, std::size_t piece) {
  FrameReader reader;
  std::vector<Frame> out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    while (auto frame = reader.take()) out.push_back(std::move(*frame));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::textOf(data, size);
  const std::vector<Frame> whole = framesOf(bytes, std::max<std::size_t>(size, 1)), pieces = framesOf(bytes, 3);
  fuzz::require(whole.size() == pieces.size(), "pieces make up the same messages");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    fuzz::require(whole[i].body == pieces[i].body && whole[i].fault.has_value() == pieces[i].fault.has_value(), "pieces make up the same messages");
    if (whole[i].fault) {
      fuzz::requireClear(*whole[i].fault);
      continue;
    }
    const Request request = readRequest(whole[i].body);
    if (request.fault) {
      fuzz::requireClear(*request.fault);
      continue;
    }
    fuzz::require(request.seq > 0 && !request.command.empty() && request.arguments.is_object(), "a request is whole");
    const Fields fields(request.command, request.arguments);
    for (const auto& [name, value] : request.arguments.items()) {
      (void)fields.text(name.c_str());
      (void)fields.number(name.c_str());
      (void)fields.flag(name.c_str(), false);
      (void)fields.objects(name.c_str());
      (void)fields.texts(name.c_str());
    }
  }
  return 0;
}
