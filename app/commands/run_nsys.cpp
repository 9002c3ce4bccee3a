// SPDX-License-Identifier: Apache-2.0
#include "app/commands/run_nsys.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "profiler/import/import.h"

namespace spscope::app {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// The words of this process, without the program and without those that are ours: the run inside answers to a file of its own.
Words ownWords() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  Words words;
  std::istringstream rest(all);
  for (std::string word; std::getline(rest, word, '\0');) words.push_back(word);
  Words out;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--nsys" || words[i].starts_with("--json=")) continue;
    if (words[i] == "--json") ++i;
    else out.push_back(words[i]);
  }
  return out;
}

/// Runs it in a process group of its own: a Ctrl-C of the terminal must reach the run once, through us. Its output goes where
/// ours does (`quiet`: nowhere). Exit code, or minus the signal.
Result<int> runProgram(Words words, const CancelToken& cancel, bool quiet) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return makeError("nsys-failed", words[0] + ": " + std::strerror(failed), Outcome::kRunFailed);
  bool told = false;
  for (int status = 0;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return makeError("nsys-failed", std::string("waitpid: ") + std::strerror(errno), Outcome::kRunFailed);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (cancel.cancelled() && !told) told = true, ::kill(child, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// What there is of this program in Nsight's database.
Result<Json> readBack(const std::string& file, const session::Request& request) {
  SP_ASSIGN(const trace::Trace t, trace::importTrace(file, {.progress = request.progress, .cancel = request.cancel}));
  std::set<std::int32_t> ranks;
  std::int64_t nodes = 0, kernels = 0;
  for (std::size_t i = 0; i < t.events.size(); ++i) {
    kernels += t.events.category[i] == trace::Category::kKernel;
    if (t.events.node[i] == trace::kNoIndex) continue;
    ++nodes;
    ranks.insert(t.tracks[static_cast<std::size_t>(t.events.track[i])].rank);
  }
  const auto ranges = t.properties.find("nvtx.spscope.ranges");
  return Json{{"format", t.format}, {"ranges", ranges == t.properties.end() ? 0 : std::atoll(ranges->second.c_str())},
              {"node_ranges", nodes}, {"ranks", ranks.size()}, {"kernels", kernels}, {"events", t.events.size()}};
}

}  // namespace

std::string findNsys() {
  if (const char* given = std::getenv("SPSCOPE_NSYS"); given != nullptr && *given != '\0') return given;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ':'))
    if (const std::string file = folder + "/nsys"; !folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  return {};
}

Result<int> runUnderNsys(const NsysRun& what, Report& report, const session::Request& request) {
  const std::string nsys = findNsys();
  if (nsys.empty() || ::access(nsys.c_str(), X_OK) != 0)
    return makeError("nsys-missing", nsys.empty() ? "there is no nsys on the path" : nsys + " is not there, or no program");
  const std::string report_file = what.base + ".nsys-rep", database = what.base + ".sqlite", answer = what.base + ".run.json";
  std::error_code ignored;
  for (const std::string& old : {report_file, database, answer}) fs::remove(old, ignored);
  // The run inside writes the page, this one adds to it: what an earlier run left there is no page of this one.
  const std::string& page = report.pagePath();
  if (fs::is_regular_file(page, ignored)) fs::remove(page, ignored);

  // No sampling, no context switches: those need rights that containers do not have, and say nothing of the graph.
  Words words{nsys, "profile", "-t", what.cuda ? "nvtx,cuda" : "nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true", "-o", what.base,
              fs::read_symlink("/proc/self/exe", ignored).string()};
  for (std::string& word : ownWords()) words.push_back(std::move(word));
  words.insert(words.end(), {"--json", answer});
  request.report("run under nsys", 0, 0);
  SP_ASSIGN(const int code, runProgram(std::move(words), request.cancel, report.jsonToStdout()));
  const Json said = Json::parse(std::ifstream(answer), nullptr, false);
  fs::remove(answer, ignored);
  if (said.is_object()) report.json = said;
  if (fs::is_regular_file(page, ignored)) report.addToPage();
  if (code < 0 || !said.is_object())
    return makeError("nsys-failed", strf("nsys profile ended with %s, and the run inside gave no answer",
                                         code < 0 ? strf("signal %d", -code).c_str() : strf("exit code %d", code).c_str()), Outcome::kRunFailed);

  Json& found = report.json["nsys"];
  found = {{"report", report_file}, {"database", database}};
  const auto lost = [&](std::string why) -> Result<int> {
    Error error = makeError("nsys-failed", std::move(why), Outcome::kRunFailed);
    if (code == 0) return error;
    report.diagnostics.warn(error.code, error.message);  // what the run said comes first
    return code;
  };
  if (!fs::exists(report_file)) return lost("nsys profile wrote no " + report_file);
  request.report("nsys export", 0, 0);
  SP_ASSIGN(const int exported, runProgram({nsys, "export", "--quiet", "true", "--type", "sqlite", "--force-overwrite", "true", "-o", database, report_file}, {}, true));
  if (exported != 0 || !fs::exists(database)) return lost(strf("nsys export ended with exit code %d and wrote no %s", exported, database.c_str()));
  auto read = readBack(database, request);
  if (!read) return lost(database + ": " + read.error().message);
  found.update(*read);
  report.page.heading("Nsight Systems");
  report.page.line(strf("%lld NVTX ranges in domain spscope, %lld of them nodes of the graph, of %lld ranks; %lld kernels", found["ranges"].get<long long>(),
                        found["node_ranges"].get<long long>(), found["ranks"].get<long long>(), found["kernels"].get<long long>()));
  report.page.line("open " + report_file + " in nsys-ui; spscope trace report " + database);
  return code;
}

}  // namespace spscope::app
