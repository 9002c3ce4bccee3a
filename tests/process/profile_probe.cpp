// SPDX-License-Identifier: Apache-2.0
// A rank of a real run, of which rank 1 comes late to its exchanges: sleeps SPSCOPE_TEST_LATE_MS milliseconds before each
// all-to-all, and says in the file SPSCOPE_TEST_LATE_TO how long each sleep really was. The product has no such switch.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/session/run.h"

namespace {

class Late final : public spscope::exec::ExecutionObserver {
 public:
  bool nodeBegin(int rank, const spscope::ir::Node& node, std::int64_t) override {
    if (rank == 1 && delay_.count() > 0 && node.op.str().find("all_to_all") != std::string::npos && spscope::ir::isCollective(node.op))
      sleep();
    return true;
  }

 private:
  void sleep() const {
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(delay_);
    const std::chrono::duration<double, std::milli> slept = std::chrono::steady_clock::now() - begin;
    if (const char* to = std::getenv("SPSCOPE_TEST_LATE_TO"))
      if (std::FILE* file = std::fopen(to, "a")) {
        std::fprintf(file, "%.6f\n", slept.count());
        std::fclose(file);
      }
  }
  static int milliseconds() {
    const char* text = std::getenv("SPSCOPE_TEST_LATE_MS");
    return text != nullptr ? std::atoi(text) : 0;
  }
  std::chrono::milliseconds delay_{milliseconds()};
};

}  // namespace

int main() {
  Late late;
  return spscope::session::rankMain(&late);
}
