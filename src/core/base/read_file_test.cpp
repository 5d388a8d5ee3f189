#include "base/read_file.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace dp {
namespace {

TEST(ReadFile, GivesAllBytesOrNothing) {
  const TestFolder folder;
  const std::string bytes("a\0\r\n\xff", 5);
  EXPECT_EQ(read_file(folder.file("some", bytes)), bytes);
  EXPECT_EQ(read_file(folder.file("empty", "")), "");
  EXPECT_EQ(read_file(folder / "missing"), std::nullopt);
  EXPECT_EQ(read_file(folder.path()), std::nullopt);
}

}  // namespace
}  // namespace dp
