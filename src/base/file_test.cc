#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "monkeytree_file_test_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FileTest, WhatIsWrittenIsReadBack) {
  const std::string text = std::string("a\0b\n", 4) + std::string(3 << 20, 'x');
  ASSERT_TRUE(write_file(path("f"), text).ok());
  EXPECT_EQ(*read_file(path("f")), text);
  ASSERT_TRUE(write_file(path("f"), "short").ok());
  EXPECT_EQ(*read_file(path("f")), "short");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "nothing else is left in the folder";
}

TEST_F(FileTest, AnEmptyFileIsAnEmptyText) {
  ASSERT_TRUE(write_file(path("f"), "").ok());
  EXPECT_EQ(*read_file(path("f")), "");
}

TEST_F(FileTest, AReplacedFileKeepsItsMode) {
  ASSERT_TRUE(write_file(path("f"), "a").ok());
  ::chmod(path("f").c_str(), 0640);
  ASSERT_TRUE(write_file(path("f"), "b").ok());
  struct stat info {};
  ::stat(path("f").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(FileTest, RightsAreAsAskedFor) {
  struct stat info {};
  const auto mode_of = [&](const std::string& file) {
    ::stat(file.c_str(), &info);
    return info.st_mode & 0777;
  };
  ASSERT_TRUE(write_file(path("f"), "a", {.mode = 0600, .keep_owner = false, .group = {}}).ok());
  EXPECT_EQ(mode_of(path("f")), 0600u);
  ASSERT_TRUE(write_file(path("f"), "b", {.mode = 0640, .keep_owner = false, .group = {}}).ok());
  EXPECT_EQ(mode_of(path("f")), 0640u);
  EXPECT_EQ(*read_file(path("f")), "b");
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  ASSERT_EQ(::chown(path("f").c_str(), 65534, 65534), 0);
  ASSERT_TRUE(write_file(path("f"), "c", {.mode = {}, .keep_owner = true, .group = {}}).ok());
  EXPECT_EQ(mode_of(path("f")), 0640u);
  EXPECT_EQ(info.st_uid, 65534u);
  EXPECT_EQ(info.st_gid, 65534u);
  ASSERT_TRUE(write_file(path("f"), "d", {.mode = {}, .keep_owner = false, .group = 1}).ok());
  mode_of(path("f"));
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_gid, 1u);
}

TEST_F(FileTest, SaysWhyItCannotRead) {
  EXPECT_EQ(read_file(path("none")).status().message(), "cannot open: No such file or directory");
  EXPECT_EQ(read_file(folder_).status().message(), "is a directory, expected a file");
  EXPECT_EQ(write_file(folder_, "x").message(), "is a directory, expected a file");
  EXPECT_THAT(std::string(write_file(path("none/f"), "x").message()), HasSubstr("cannot create"));
}

TEST_F(FileTest, RefusesWhatIsLargerThanTheLimit) {
  ASSERT_TRUE(write_file(path("f"), "12345").ok());
  EXPECT_TRUE(read_file(path("f"), 5).ok());
  EXPECT_EQ(read_file(path("f"), 4).status().message(), "too large: expected at most 4 bytes");
  EXPECT_EQ(read_file("/dev/zero", 1 << 20).status().message(),
            "too large: expected at most 1 MiB");
}

TEST_F(FileTest, WritesToWhatIsNoRegularFile) {
  EXPECT_TRUE(write_file("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(FileTest, KnowsTheFolder) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b/");
  EXPECT_EQ(folder_of("c"), "");
  EXPECT_EQ(folder_of("/c"), "/");
}

}  // namespace
}  // namespace monkeytree
