// SPDX-License-Identifier: Apache-2.0
// What an editor can show of a step: the text of each program, and the Python files that the model was exported from; which node
// stands in which line of them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/dap/wire/message.h"
#include "core/session/debug/debugger.h"

namespace spscope::app::dap {

class Sources {
 public:
  /// `debugger` must outlive it. `folders`: where Python files are looked for by the ends of their paths.
  Sources(const session::debug::Debugger& debugger, const std::string& model, std::vector<std::string> folders);

  struct Program {
    int reference = 0;       ///< "sourceReference", from 1 on
    std::string name, text;
    std::vector<int> ranks;  ///< that run it
    const ir::Graph* graph = nullptr;
    int first = 0;           ///< line of the first node, from 1 on
    int lineOf(std::size_t place) const { return first + static_cast<int>(place); }
    /// The place of the node in that line or in the next line that has one.
    std::optional<std::size_t> placeAt(std::int64_t line) const;
  };
  const std::vector<Program>& programs() const { return programs_; }
  const Program& programOf(int rank) const { return programs_[program_of_[static_cast<std::size_t>(rank)]]; }
  /// Meant by a client's Source: by its reference, or where it has lost that by its name. nullptr: none of them.
  const Program* program(std::int64_t reference, const std::string& name) const;

  struct PythonFile {
    std::string recorded;          ///< path on the exporting machine
    std::string local;             ///< here; "" where it was not found
    std::set<std::int64_t> lines;  ///< with nodes under them
    const std::string& shown() const { return local.empty() ? recorded : local; }
  };
  const std::vector<PythonFile>& files() const { return files_; }
  /// The file that a path of this machine means: one that is shown under it, else the one whose path ends most alike.
  const PythonFile* file(const std::string& path) const;
  const PythonFile* recordedFile(std::string_view recorded) const;

  static Json sourceOf(const Program& program);
  static Json sourceOf(const PythonFile& file);

 private:
  std::vector<Program> programs_;
  std::vector<std::size_t> program_of_;  ///< by rank
  std::vector<PythonFile> files_;
};

}  // namespace spscope::app::dap
