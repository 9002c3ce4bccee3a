// SPDX-License-Identifier: Apache-2.0
// The Python frames of a stack trace as torch.export records it in a node ("File "x.py", line 3, in forward").
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace spscope::ir {

struct PythonFrame {
  std::string_view file;      ///< as the exporting machine had it
  std::int64_t line = 0;
  std::string_view function;  ///< may be empty
};

/// Outermost first; views into `stack`. What is no frame is passed over.
std::vector<PythonFrame> framesOf(std::string_view stack);

/// Whether the file is one of PyTorch itself, or no file ("<string>").
bool isTorchFile(std::string_view file);

}  // namespace spscope::ir
