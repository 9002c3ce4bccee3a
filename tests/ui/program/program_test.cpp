// SPDX-License-Identifier: Apache-2.0
// spscope-gui as it is started, where something is missing: no display, no fonts, no GL, a home that cannot be written. Each is
// a clear line with what to do, or works all the same; and nothing is left behind when it is closed or killed.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace spscope {
namespace {

using dist::Process;

const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";
using Environment = std::map<std::string, std::string>;

/// Nothing of the person who runs the tests: a home of its own, no display.
Environment bare(Environment more) {
  more.insert({{"OMP_NUM_THREADS", "1"}, {"GOMP_SPINCOUNT", "0"}, {"DISPLAY", ""}, {"WAYLAND_DISPLAY", ""}, {"QT_QPA_PLATFORM", ""}, {"XDG_CONFIG_HOME", ""}, {"XDG_CACHE_HOME", ""}});
  return more;
}

class Gui {
 public:
  const std::string& folder() const { return folder_.path(); }
  std::string file(const std::string& name, const std::string& text) const { return folder_.file(name, text); }
  std::vector<std::string> scripted(const std::string& actions) const { return {"--actions", file("actions", actions), "--screenshot", picture()}; }
  std::string picture() const { return folder_.path("shot.png"); }
  std::string home() const { return folder_.path("home"); }
  bool drawn() const {
    std::error_code missing;
    return std::filesystem::file_size(picture(), missing) > 10'000 && !missing;
  }

 private:
  TempFolder folder_;
};

TEST(GuiProgram, WithoutADisplayItSaysWhatToDo) {
  const Gui gui;
  Process p(SPSCOPE_GUI, {}, bare({{"HOME", gui.home()}}));
  EXPECT_EQ(p.wait(), 3);
  EXPECT_NE(p.text().find("no display"), std::string::npos) << p.text();
  EXPECT_NE(p.text().find("xvfb-run"), std::string::npos) << p.text();
  EXPECT_NE(p.text().find("--screenshot"), std::string::npos) << p.text();
}

TEST(GuiProgram, WithADisplayThatIsNotThereItSaysWhatToDoAndDoesNotAbort) {
  const Gui gui;
  Process p(SPSCOPE_GUI, {}, bare({{"HOME", gui.home()}, {"DISPLAY", ":98765"}}));
  EXPECT_EQ(p.wait(), 3) << p.text();
  EXPECT_NE(p.text().find("cannot be shown"), std::string::npos) << p.text();
  EXPECT_NE(p.text().find("xvfb-run"), std::string::npos) << p.text();
}

TEST(GuiProgram, GV_08_AScriptNeedsNoDisplay) {
  const Gui gui;
  Process p(SPSCOPE_PROGRAM, [&] {
    auto arguments = gui.scripted("open \"" + kModel + "\"\ncompile\nstage insert-all-to-all\nexport " + gui.folder() + "/graph.svg\n");
    arguments.insert(arguments.begin(), "gui");
    return arguments;
  }(), bare({{"HOME", gui.home()}}));
  EXPECT_EQ(p.wait(), 0) << p.text();
  EXPECT_TRUE(gui.drawn());
  EXPECT_GT(std::filesystem::file_size(gui.folder() + "/graph.svg"), 1000u);
}

TEST(GuiProgram, AScriptDebugs) {
  const Gui gui;
  Process p(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\ndebug\nbreak collective\ncontinue\npanel console\npanel values\nwhere\nwrong\n"), bare({{"HOME", gui.home()}}));
  EXPECT_EQ(p.wait(), 0) << p.text();
  EXPECT_TRUE(gui.drawn());
  Process failed(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\ndebug\nprint %nothing\n"), bare({{"HOME", gui.home()}}));
  EXPECT_EQ(failed.wait(), 1);
  EXPECT_NE(failed.text().find("line 3: print %nothing"), std::string::npos) << failed.text();
}

TEST(GuiProgram, AScriptThatFailsSaysInWhichLine) {
  const Gui gui;
  Process p(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\n\nexpand nowhere\n"), bare({{"HOME", gui.home()}}));
  EXPECT_EQ(p.wait(), 1);
  EXPECT_NE(p.text().find("line 3: expand nowhere"), std::string::npos) << p.text();
}

TEST(GuiProgram, WithoutFontsItUsesOneThatLiesThereOrSaysWhatToInstall) {
  const Gui gui;
  const std::string none = gui.file("fonts.conf", "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig><dir>" + gui.folder() + "/nothing</dir><cachedir>" + gui.folder() + "/cache</cachedir></fontconfig>");
  const Environment unknown = bare({{"HOME", gui.home()}, {"FONTCONFIG_FILE", none}, {"FONTCONFIG_PATH", gui.folder()}});
  Environment nowhere = unknown;
  nowhere["SPSCOPE_FONTS"] = gui.folder() + "/nothing";
  Process p(SPSCOPE_GUI, gui.scripted("theme dark\n"), nowhere);
  EXPECT_EQ(p.wait(), 3) << p.text();
  EXPECT_NE(p.text().find("no fonts here"), std::string::npos) << p.text();
  EXPECT_NE(p.text().find("fonts-dejavu-core"), std::string::npos) << p.text();
  EXPECT_FALSE(gui.drawn());
  if (!std::filesystem::exists("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")) return;
  Process fallback(SPSCOPE_GUI, gui.scripted("theme dark\n"), unknown);
  EXPECT_EQ(fallback.wait(), 0) << fallback.text();
  EXPECT_NE(fallback.text().find("DejaVu Sans is used"), std::string::npos) << fallback.text();
  EXPECT_TRUE(gui.drawn());
}

/// The timeline is drawn by the processor then.
TEST(GuiProgram, WithBrokenGlItDrawsWithoutIt) {
  if (std::string(SPSCOPE_XVFB_RUN).empty()) GTEST_SKIP() << "xvfb-run is not installed";
  const Gui gui;
  for (const auto& [server, environment] : std::vector<std::pair<std::string, Environment>>{
           {"-screen 0 1600x1000x24 -extension GLX", {}},
           {"-screen 0 1600x1000x24 +extension GLX", {{"LIBGL_DRIVERS_PATH", "/nonexistent"}, {"__EGL_VENDOR_LIBRARY_FILENAMES", "/nonexistent"}}}}) {
    Environment all = bare({{"HOME", gui.home()}});
    all["QT_QPA_PLATFORM"] = "xcb";
    for (const auto& [name, value] : environment) all[name] = value;
    std::vector<std::string> arguments{"-a", "-s", server, SPSCOPE_GUI};
    for (std::string& a : gui.scripted("open \"" + kModel + "\"\nset ranks virtual\nset steps 2\nrun\nevent 0\npanel timeline\n")) arguments.push_back(std::move(a));
    Process p(SPSCOPE_XVFB_RUN, arguments, all);
    EXPECT_EQ(p.wait(), 0) << p.text();
    EXPECT_TRUE(gui.drawn());
    std::filesystem::remove(gui.picture());
  }
}

/// Nothing can be remembered there; all that the window does, it does.
TEST(GuiProgram, WithAHomeThatCannotBeWrittenNothingIsLostButTheSession) {
  const Gui gui;
  const Environment environment = bare({{"HOME", "/proc/1/no-home"}});  // not even root writes there
  Process scripted(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\nset ranks virtual\nset steps 2\nrun\nevent 0\n"), environment);
  EXPECT_EQ(scripted.wait(), 0) << "the run was recorded all the same: " << scripted.text();
  EXPECT_TRUE(gui.drawn());
  // As a person uses it: with a session that should be saved.
  Environment offscreen = environment;
  offscreen["QT_QPA_PLATFORM"] = "offscreen";
  Process window(SPSCOPE_GUI, {"--timings"}, offscreen);
  ASSERT_TRUE(window.awaitLine("first paint")) << window.text();
  kill(window.pid(), SIGTERM);
  EXPECT_EQ(window.wait(), 0) << window.text();
}

TEST(GuiProgram, ClosedOrKilledDuringARunItLeavesNoProcess) {
  const Gui gui;
  // Closed, by a script: the ranks end with it.
  Process closed(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\nset steps 1000000\nstart-run\nclose\n"), bare({{"HOME", gui.home()}}));
  EXPECT_EQ(closed.wait(), 0) << closed.text();
  // Killed: the ranks notice.
  Process killed(SPSCOPE_GUI, gui.scripted("open \"" + kModel + "\"\nset steps 1000000\nrun\n"), bare({{"HOME", gui.home()}}));
  const auto until = [](auto&& condition) {
    for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  };
  std::vector<int> ranks;
  ASSERT_TRUE(until([&] { return (ranks = killed.children()).size() >= 2 || !dist::isRunning(killed.pid()); })) << killed.text();
  ASSERT_GE(ranks.size(), 2u) << killed.text();
  kill(killed.pid(), SIGKILL);
  EXPECT_EQ(killed.wait(), -SIGKILL);
  for (const int rank : ranks) EXPECT_TRUE(until([&] { return !dist::isRunning(rank); })) << rank;
}

}  // namespace
}  // namespace spscope
