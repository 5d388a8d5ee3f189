#include "base/atomic_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/test_folder.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t num_files() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }

  TestFolder folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyOnCommit) {
  const fs::path path = folder_ / "result.json";
  AtomicFile file(path);
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(content(path), "one two");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(AtomicFileTest, KeepsTheOldContentWithoutCommit) {
  const fs::path path = folder_ / "result.json";
  write_file_atomically(path, "old");
  { AtomicFile(path).write("new"); }
  EXPECT_EQ(content(path), "old");
  write_file_atomically(path, "new");
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(num_files(), 1) << "no temporary file is left";
}

TEST_F(AtomicFileTest, HasTheUsualPermissions) {
  write_file_atomically(folder_ / "ours", "x");
  std::ofstream(folder_ / "usual") << "x";
  EXPECT_EQ(fs::status(folder_ / "ours").permissions(),
            fs::status(folder_ / "usual").permissions());
}

TEST_F(AtomicFileTest, FollowsLinksAndLeavesDevicesInPlace) {
  write_file_atomically(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(folder_ / "target"), "new");

  write_file_atomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFileTest, WhatIsNewHasNoNameYet) {
  EXPECT_NO_THROW(require_new(folder_ / "new"));
  EXPECT_NO_THROW(require_new(folder_ / "missing" / "new"));
  write_file_atomically(folder_ / "file", "x");
  fs::create_symlink("nowhere", folder_ / "dangling");
  fs::create_symlink("loop", folder_ / "loop");
  for (const fs::path& path : {folder_.path(), folder_ / "file", folder_ / "dangling", folder_ / "loop",
                               folder_ / std::string(300, 'x')})
    EXPECT_THROW(require_new(path), InputError) << path;
}

TEST_F(AtomicFileTest, AStagedDirectoryAppearsWhenItIsPublished) {
  {
    const StagedDirectory abandoned(folder_ / "new");
    write_file_atomically(abandoned.path() / "file", "x");
  }
  EXPECT_EQ(num_files(), 0);
  StagedDirectory staged(folder_ / "new/");  // as a shell completes it
  write_file_atomically(staged.path() / "file", "x");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  staged.publish();
  EXPECT_EQ(content(folder_ / "new/file"), "x");
  EXPECT_EQ(num_files(), 1);

  StagedDirectory another(folder_ / "new");
  EXPECT_THROW(another.publish(), fs::filesystem_error) << "something is there";
  EXPECT_EQ(content(folder_ / "new/file"), "x");
}

TEST_F(AtomicFileTest, AStagedDirectoryReplacesAnotherAndWhatAKilledProcessLeft) {
  for (const std::string text : {"old", "new"}) {
    folder_.file("staging/leftover", "of a process that was killed");
    StagedDirectory staged(folder_ / "target", folder_ / "staging");
    write_file_atomically(staged.path() / text, text);
    staged.replace();
    EXPECT_EQ(folder_.content("target"), (std::map<std::string, std::string>{{text, text}}));
    EXPECT_EQ(num_files(), 1);
  }
}

TEST_F(AtomicFileTest, FindsOutBeforehandThatNothingCanBeWritten) {
  EXPECT_THROW(require_writable(folder_.path()), InputError);
  EXPECT_THROW(require_writable(folder_ / "missing" / "file"), InputError);
  EXPECT_NO_THROW(require_writable(folder_ / "file"));
  EXPECT_EQ(num_files(), 0);
}

}  // namespace
}  // namespace dp
