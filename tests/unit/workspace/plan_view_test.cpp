// SPDX-License-Identifier: Apache-2.0
// The model of the panel What fits: what is asked, the table that comes back, from a row to the settings, the picture.
#include "ui/model/plan_view.h"

#include <gmock/gmock.h>

#include "tests/support/temp_folder.h"
#include "tests/support/workspace_fixture.h"
#include "ui/model/settings_model.h"

namespace spscope::ui {
namespace {

using ::testing::HasSubstr;

class PlanViewTest : public WorkspaceFixture {
 protected:
  /// Two ranks with so much each.
  void ask(PlanView& view, const std::string& capacity, const std::string& want = "max-seq") {
    const auto figure = [](const char* name, const std::string& value) { return "[" + std::string(name) + "]\nlow = \"" + value + "\"\nhigh = \"" + value + "\"\nsource = \"t\"\n"; };
    const std::string profile = tmp_.file("small.toml", "name = \"small\"\ndevice = \"cpu\"\n" + figure("memory.capacity", capacity) + figure("memory.outside", "0 B") + figure("communication.per_group", "0 B") +
                                                            figure("compute.matmul", "1 GFLOP/s") + figure("compute.memory", "1 GB/s") + figure("links.node", "1 GB/s"));
    ASSERT_TRUE(view.set("device", profile));
    ASSERT_TRUE(view.set("gpus", "2"));
    ASSERT_TRUE(view.set("want", want));
    ASSERT_TRUE(view.set("headroom", "0"));
    view.plan();
    EXPECT_TRUE(view.running());
    ASSERT_TRUE(idle());
  }
  void openSample() {
    workspace.open(SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2");
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.model());
  }
  TempFolder tmp_;
};

TEST_F(PlanViewTest, SaysWhatToDoAndWhatCannotBeAsked) {
  PlanView view(workspace);
  EXPECT_THAT(view.header(), HasSubstr("Open a model"));
  EXPECT_NE(view.whyNotPlan(), "");
  view.plan();
  EXPECT_FALSE(view.running());
  ASSERT_NO_FATAL_FAILURE(openSample());
  EXPECT_EQ(view.whyNotPlan(), "");
  EXPECT_THAT(view.header(), HasSubstr("choose a device"));
  EXPECT_THAT(view.fields()[0].choices, ::testing::Contains("H100-80"));
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{{"gpus", "0"}, {"gpus", "two"}, {"headroom", "91"}, {"headroom", ""}, {"want", "more"}, {"device", ""}, {"colour", "red"}})
    EXPECT_FALSE(view.set(name, value)) << name << " " << value;
  EXPECT_FALSE(view.take(0));
  EXPECT_NE(view.picture(500, 200).absent, "");
  ASSERT_TRUE(view.set("device", "A1"));
  view.plan();
  ASSERT_TRUE(idle());
  ASSERT_TRUE(view.error());
  EXPECT_EQ(view.error()->code, "profile-missing");
  EXPECT_THAT(view.header(), HasSubstr("A1"));
  EXPECT_TRUE(view.rows().empty());
}

TEST_F(PlanViewTest, ARowBecomesTheSettingsAndCompilesToItsPeak) {
  ASSERT_NO_FATAL_FAILURE(openSample());
  PlanView view(workspace);
  ASSERT_NO_FATAL_FAILURE(ask(view, "60 MB"));
  ASSERT_FALSE(view.error()) << view.error()->format();
  const auto rows = view.rows();
  ASSERT_EQ(rows.size(), view.outcome()->rows.size());
  for (const PlanTableRow& row : rows) EXPECT_EQ(row.cells.size(), view.columns().size());
  EXPECT_TRUE(rows[0].legal);
  EXPECT_TRUE(rows[0].focused);
  EXPECT_FALSE(rows.back().legal);
  EXPECT_THAT(rows.back().tooltip, HasSubstr("legal: "));
  EXPECT_THAT(rows[0].tooltip, HasSubstr("parameters "));
  EXPECT_THAT(view.header(), HasSubstr(std::to_string(view.outcome()->rows[0].max_seq) + " tokens"));
  // One that is not what the settings are anyway.
  int other = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const session::Configuration& c = view.outcome()->rows[i].configuration; rows[i].legal && c.save == "min-cut" && c.zero == 1 && c.tile_loss && c.sp == 2) other = static_cast<int>(i);
  ASSERT_GT(other, 0);
  const session::PlanRow row = view.outcome()->rows[static_cast<std::size_t>(other)];
  ASSERT_TRUE(view.take(other));
  ASSERT_TRUE(idle());
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"sp", "2"}, {"save", "min-cut"}, {"zero", "1"}, {"tile-loss", "on"}, {"seq", std::to_string(row.max_seq)}})
    EXPECT_EQ(settingText(workspace.settings(), name), value) << name;
  ASSERT_TRUE(workspace.compiled()) << workspace.compileError()->format();
  EXPECT_EQ(workspace.compiled()->figures.memory.peak, row.footprint.compiled_peak) << "what was planned is what is shown now";
  EXPECT_EQ(view.focused(), other);
  EXPECT_FALSE(view.take(static_cast<int>(rows.size()) - 1)) << "not legal";
  EXPECT_FALSE(view.take(-1));
}

TEST_F(PlanViewTest, TheCurvesStayInTheirFrameAndMeetTheDevicesLine) {
  ASSERT_NO_FATAL_FAILURE(openSample());
  PlanView view(workspace);
  ASSERT_NO_FATAL_FAILURE(ask(view, "60 MB"));
  const PlanPicture picture = view.picture(600, 220);
  ASSERT_EQ(picture.absent, "");
  ASSERT_EQ(picture.lines.size(), 4U) << "a policy each";
  ASSERT_EQ(picture.room.size(), 1U) << "no interval in this profile";
  for (const PlanPicture::Line& line : picture.lines) {
    for (const PlanPicture::Point& p : line.points) {
      EXPECT_GE(p.x, picture.left);
      EXPECT_LE(p.x, picture.right + 1e-6);
      EXPECT_GE(p.y, picture.top);
      EXPECT_LE(p.y, picture.bottom + 1e-6);
    }
    ASSERT_TRUE(line.longest);
    EXPECT_GE(line.longest->y, picture.room[0].at) << "where it fits, the peak lies below the line";
    EXPECT_LT(line.points.back().y, picture.room[0].at) << "and leaves it";
  }
  int changes = 0;
  view.on_changed = [&] { ++changes; };
  view.focus(2);
  EXPECT_EQ(changes, 1);
  EXPECT_TRUE(view.rows()[2].focused);
  view.focus(999);
  EXPECT_EQ(view.focused(), 2);
  ASSERT_NO_FATAL_FAILURE(ask(view, "60 MB", "table"));
  EXPECT_NE(view.picture(600, 220).absent, "") << "one length";
  EXPECT_THAT(view.columns(), ::testing::Contains("verdict"));
}

TEST_F(PlanViewTest, StoppingLeavesWhatThereWas) {
  ASSERT_NO_FATAL_FAILURE(openSample());
  PlanView view(workspace);
  ASSERT_NO_FATAL_FAILURE(ask(view, "60 MB", "table"));
  const auto* before = view.outcome();
  view.plan();
  view.stop();
  ASSERT_TRUE(idle());
  EXPECT_EQ(view.outcome(), before);
  EXPECT_FALSE(view.error());
}

}  // namespace
}  // namespace spscope::ui
