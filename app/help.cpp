// SPDX-License-Identifier: Apache-2.0
#include "app/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "app/commands/command.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

constexpr std::size_t kMargin = 4, kNames = 30;  // columns before the text, and for the names of options

/// `text` broken at spaces; every line begins with `indent` spaces, but for the first, which begins where it stands.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width, bool first_too = true) {
  const std::string pad(indent, ' ');
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += (out.empty() && !first_too ? "" : pad) + line + "\n";
    line.clear();
  };
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) flush();
    line += (line.empty() ? "" : " ") + word;
  }
  flush();
  return out;
}

/// Lines that stand as they are.
std::string kept(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += std::string(kMargin - 2, ' ') + line + "\n";
  return out;
}

std::string row(const std::string& name, const std::string& text, std::size_t width) {
  std::string out = std::string(kMargin, ' ') + name;
  const std::size_t column = kMargin + kNames;
  if (out.size() + 2 > column) out += "\n" + std::string(column, ' ');
  else out.resize(column, ' ');
  return out + wrapped(text, column, width, false);
}

std::string optionName(const CLI::Option& option) {
  if (option.get_positional() && option.get_lnames().empty()) return option.get_name(true);
  std::vector<std::string> names;
  for (const std::string& n : option.get_snames()) names.push_back("-" + n);
  for (const std::string& n : option.get_lnames()) names.push_back("--" + n);
  return join(names, ", ") + (valueName(option).empty() ? "" : " " + valueName(option));
}

std::string optionRow(const CLI::Option& option, std::size_t width) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += " (default: " + option.get_default_str() + ")";
  return row(optionName(option), text, width);
}

std::string synopsis(const CLI::App& app) {
  std::string out = "spscope " + app.get_name();
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string name = option->get_name(true);
    out += option->get_required() ? " " + name : " [" + name + "]";
  }
  return out + " [OPTIONS]";
}

std::string options(const CLI::App& app, std::size_t width) {
  std::string out;
  std::vector<std::string> groups = app.get_groups();
  std::stable_partition(groups.begin(), groups.end(), [](const std::string& g) { return g != "Output"; });  // alike everywhere: last
  for (const std::string& group : groups) {
    const auto members = app.get_options([&](const CLI::Option* o) { return o->get_group() == group && !o->get_positional(); });
    if (group.empty() || members.empty()) continue;
    std::string title = group;
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out += "\n" + (title == "OPTIONS" ? title : title + " OPTIONS") + "\n";
    for (const CLI::Option* option : members) out += optionRow(*option, width);
  }
  return out;
}

std::string exitCodes(const std::string& no, std::size_t width) {
  return "\nEXIT CODES\n" + row("0", "fine", width) + row("1", no, width) + row("2", "the command line is not understood", width) +
         row("3", "refused, with reasons: nothing was started", width) + row("4", "a run was started and failed", width);
}

std::string environment(std::size_t width) {
  return "\nENVIRONMENT\n" + row("TMPDIR", "where runs keep their ranks' output and failing passes leave their reproducers (default: /tmp)", width) +
         row("OMP_NUM_THREADS", "threads of libtorch where --threads is not given", width) +
         row("RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun), SLURM_*, OMPI_COMM_WORLD_*", "read with --launched only: which rank of an existing launch this process is", width) +
         row("NCCL_DEBUG", "INFO makes NCCL say more", width);
}

std::string rootPage(const CLI::App& app, std::size_t width) {
  std::string out = "NAME\n" + wrapped("spscope - compiles a saved PyTorch training graph for sequence parallelism, proves it, runs it", kMargin, width) +
                    "\nSYNOPSIS\n    spscope COMMAND [ARGUMENTS] [OPTIONS]\n    spscope help COMMAND\n\nDESCRIPTION\n" +
                    wrapped("Opens a training graph saved by torch.export.save, rewrites it so that P ranks share one long sequence, shows every stage "
                            "of that, proves that loss and gradients are those of the graph, and trains on real ranks.", kMargin, width) +
                    "\nCOMMANDS\n";
  for (const auto& command : allCommands()) out += row(command->name(), command->summary(), width);
  return out + options(app, width) +
         "\nEXAMPLES\n    spscope inspect resources/samples/llama_gqa.pt2\n    spscope compile resources/samples/llama_gqa.pt2 --sp 4\n"
         "    spscope verify resources/samples/llama_gqa.pt2 --sp 2 --dtype float64\n" +
         exitCodes("the answer is no: different, over a limit, an output that could not be written, cancelled", width) + environment(width) +
         "\nSEE ALSO\n    spscope COMMAND --help; spscope explain CODE for what stands between error[ and ]\n";
}

class ManualFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return manualPage(*app, known ? std::clamp<std::size_t>(size.ws_col, 60, 120) : 100);
  }
};

}  // namespace

std::string manualPage(const CLI::App& app, std::size_t width) {
  const auto commands = allCommands();
  const auto command = std::find_if(commands.begin(), commands.end(), [&](const auto& c) { return c->name() == app.get_name(); });
  if (command == commands.end()) return rootPage(app, width);
  const Command& c = **command;
  std::string out = "NAME\n" + wrapped("spscope " + c.name() + " - " + c.summary(), kMargin, width) + "\nSYNOPSIS\n" +
                    wrapped(synopsis(app), kMargin, width) + "\nDESCRIPTION\n";
  const std::vector<std::string> paragraphs = split(c.description(), '\n');
  for (std::size_t i = 0; i < paragraphs.size(); ++i) out += (i > 0 ? "\n" : "") + wrapped(paragraphs[i], kMargin, width);
  const auto positionals = app.get_options([](const CLI::Option* o) { return o->get_positional(); });
  if (!positionals.empty()) out += "\nARGUMENTS\n";
  for (const CLI::Option* option : positionals) out += optionRow(*option, width);
  return out + options(app, width) + "\nEXAMPLES\n" + kept(c.examples()) + exitCodes(c.meaningOfNo(), width) + environment(width);
}

std::string valueName(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string all = option.get_type_name();  // "N:INT in [1 - 4096]"
  return all.substr(0, std::min({all.find(":INT"), all.find(":FLOAT"), all.find(":{")}));
}

void useManualPages(CLI::App& app) { app.formatter(std::make_shared<ManualFormatter>()); }

}  // namespace spscope::app
