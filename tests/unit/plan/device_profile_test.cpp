// SPDX-License-Identifier: Apache-2.0
// Device profiles: those that come with the program, and every way in which one can be wrong.
#include "core/session/plan/device_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spscope::session {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"(name = "X"
summary = "a device"
device = "cuda"
[memory]
capacity = { low = "10 GiB", high = "11 GiB", source = "s" }
outside = { low = "1 GB", high = "2 GB", source = "s" }
[communication.per_group]
low = "100 MiB"
high = "200 MiB"
source = "s"
[compute]
matmul = { low = "100 TFLOP/s", high = "200 TFLOP/s", source = "s" }
memory = { low = "1 TB/s", high = "2 TB/s", source = "s" }
[links]
node = { low = "100 GB/s", high = "200 GB/s", source = "s" }
[attention.flash-2]
low = "50 TFLOP/s"
high = "60 TFLOP/s"
source = "s"
)";

TEST(DeviceProfile, UnitsBecomeBytesAndNanoseconds) {
  const Result<DeviceProfile> p = parseDeviceProfile("x.toml", kGood);
  ASSERT_TRUE(p) << p.error().format();
  EXPECT_EQ(p->capacity.low, 10.0 * (1 << 30));
  EXPECT_EQ(p->outside.high, 2e9);
  EXPECT_EQ(p->per_group.low, 100.0 * (1 << 20));
  EXPECT_EQ(p->matmul.middle(), 150e3);
  EXPECT_EQ(p->memory.low, 1000);
  EXPECT_EQ(p->node_link.high, 200);
  EXPECT_EQ(p->all_to_all.high, 0) << "not said: none";
  EXPECT_FALSE(p->shared);
  ASSERT_EQ(p->attention.size(), 1U);
  EXPECT_EQ(p->attention[0].first, "flash-2");
}

TEST(DeviceProfile, TimesAndOptionalFigures) {
  const Result<DeviceProfile> p = parseDeviceProfile("x.toml", std::string(kGood) + "[compute.launch]\nlow = \"500 ns\"\nhigh = \"2 us\"\nsource = \"s\"\n[links.host]\nlow = \"20 GB/s\"\nhigh = \"25 GB/s\"\nsource = \"s\"\n");
  ASSERT_TRUE(p) << p.error().format();
  EXPECT_EQ(p->launch.low, 500);
  EXPECT_EQ(p->launch.high, 2000);
  EXPECT_EQ(p->host_link.middle(), 22.5);
  EXPECT_EQ(p->matmul_float32.high, 0) << "not said";
}

TEST(DeviceProfile, WrittenAndReadItIsTheSame) {
  for (const auto& [name, path] : deviceProfiles()) {
    const Result<DeviceProfile> a = readDeviceProfile(path);
    ASSERT_TRUE(a) << a.error().format();
    const Result<DeviceProfile> b = parseDeviceProfile("b.toml", deviceProfileText(*a, "a comment"));
    ASSERT_TRUE(b) << b.error().format();
    EXPECT_EQ(b->name, a->name);
    EXPECT_EQ(b->device, a->device);
    EXPECT_EQ(b->shared, a->shared);
    for (const auto figure : {&DeviceProfile::capacity, &DeviceProfile::outside, &DeviceProfile::per_group, &DeviceProfile::matmul, &DeviceProfile::matmul_float32, &DeviceProfile::memory,
                              &DeviceProfile::launch, &DeviceProfile::node_link, &DeviceProfile::network_link, &DeviceProfile::host_link, &DeviceProfile::node_latency}) {
      EXPECT_NEAR(((*b).*figure).low, ((*a).*figure).low, 1e-3 * ((*a).*figure).low) << name;
      EXPECT_NEAR(((*b).*figure).high, ((*a).*figure).high, 1e-3 * ((*a).*figure).high) << name;
      EXPECT_EQ(((*b).*figure).source, ((*a).*figure).source);
    }
    EXPECT_EQ(b->attention.size(), a->attention.size());
  }
  DeviceProfile odd;
  odd.name = "a \"quoted\" name\nof two lines";
  odd.summary = "s";
  odd.device = "cpu";
  odd.capacity = odd.matmul = odd.memory = odd.node_link = odd.outside = odd.per_group = {1, 2, "back\\slash"};
  const Result<DeviceProfile> back = parseDeviceProfile("b.toml", deviceProfileText(odd, "c"));
  ASSERT_TRUE(back) << back.error().format();
  EXPECT_EQ(back->name, odd.name);
  EXPECT_EQ(back->capacity.source, odd.capacity.source);
}

TEST(DeviceProfile, NamesAreFoundWhateverTheirCase) {
  ASSERT_FALSE(deviceProfiles().empty());
  const Result<DeviceProfile> p = readDeviceProfile("h100-80");
  ASSERT_TRUE(p) << p.error().format();
  EXPECT_EQ(p->name, "H100-80");
  for (const char* meant : {"h100", "H100-80GB", "h1OO-80"}) {
    const auto none = readDeviceProfile(meant);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, "profile-missing");
    EXPECT_THAT(none.error().message, HasSubstr("did you mean H100-80?")) << meant;
  }
}

struct Bad {
  const char* what;
  const char* from;
  const char* to;
  const char* code;
  const char* message;
};

TEST(DeviceProfile, WhatIsWrongIsNamedWithItsPlace) {
  const Bad cases[] = {
      {"no toml", "device = \"cuda\"", "device cuda", "profile-syntax", ""},
      {"a misspelt figure", "capacity =", "capacty =", "profile-key", "did you mean capacity?"},
      {"a misspelt table", "[compute]", "[compte]", "profile-key", "did you mean compute?"},
      {"a misspelt bound", "high = \"200 MiB\"", "hi = \"200 MiB\"", "profile-key", "communication.per_group has no 'hi'"},
      {"no unit", "\"10 GiB\"", "10", "profile-value", "memory.capacity.low = 10 is no quantity"},
      {"a unit of something else", "\"10 GiB\"", "\"10 GB/s\"", "profile-value", "is no quantity"},
      {"something behind the unit", "\"10 GiB\"", "\"10 GiB or so\"", "profile-value", "is no quantity"},
      {"no number", "\"10 GiB\"", "\"nan GiB\"", "profile-value", "is no quantity"},
      {"less than nothing", "\"10 GiB\"", "\"-10 GiB\"", "profile-value", "is no quantity"},
      {"a number out of range", "\"10 GiB\"", "\"1e300 GiB\"", "profile-value", "is no quantity"},
      {"ends exchanged", "\"10 GiB\"", "\"12 GiB\"", "profile-value", "low is above high"},
      {"no source", "source = \"s\" }\noutside", "}\noutside", "profile-syntax", ""},
      {"an empty source", "high = \"11 GiB\", source = \"s\"", "high = \"11 GiB\", source = \"\"", "profile-value", "lacks a source"},
      {"a missing figure", "outside = { low = \"1 GB\", high = \"2 GB\", source = \"s\" }", "", "profile-value", "lacks [memory.outside]"},
      {"no name", "name = \"X\"", "", "profile-value", "lacks its name"},
      {"another device", "\"cuda\"", "\"tpu\"", "profile-value", "lacks device"},
      {"a figure that is no table", "node = { low = \"100 GB/s\", high = \"200 GB/s\", source = \"s\" }", "node = \"100 GB/s\"", "profile-value", "links.node is no table"},
      {"a rate of zero", "\"1 TB/s\"", "\"0 TB/s\"", "profile-value", "rates above 0"},
      {"shared as a text", "device =", "shared = \"yes\"\ndevice =", "profile-value", "shared is true or false"},
  };
  for (const Bad& bad : cases) {
    std::string text = kGood;
    const std::size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.what;
    text.replace(at, std::string(bad.from).size(), bad.to);
    const Result<DeviceProfile> p = parseDeviceProfile("x.toml", text);
    ASSERT_FALSE(p) << bad.what;
    EXPECT_EQ(p.error().code, bad.code) << bad.what << ": " << p.error().message;
    EXPECT_THAT(p.error().message, HasSubstr(bad.message)) << bad.what;
    EXPECT_EQ(p.error().source.rfind("x.toml:", 0), 0U) << bad.what << ": " << p.error().source;
    EXPECT_EQ(p.error().outcome, Outcome::kUsage);
  }
}

TEST(DeviceProfile, ThoseThatComeAlongAreWhole) {
  const auto known = deviceProfiles();
  std::vector<std::string> names;
  for (const auto& [name, path] : known) {
    const Result<DeviceProfile> p = readDeviceProfile(name);
    ASSERT_TRUE(p) << p.error().format();
    EXPECT_EQ(p->name, name);
    EXPECT_FALSE(p->summary.empty());
    EXPECT_LT(p->outside.high, p->capacity.low);
    names.push_back(name);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"A100-40", "A100-80", "H100-80", "H200-141", "GH200-96", "MI250", "CPU-24"}));
}

TEST(DeviceProfile, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  const Result<DeviceProfile> p = readDeviceProfile("H100-8");
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, "profile-missing");
  EXPECT_THAT(p.error().message, HasSubstr("did you mean H100-80?"));
  EXPECT_THAT(p.error().legal, HasSubstr("A100-40, A100-80"));
  EXPECT_EQ(readDeviceProfile("/nowhere/x.toml").error().code, "file-missing");
}

}  // namespace
}  // namespace spscope::session
