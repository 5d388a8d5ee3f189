#include "report/event_file.h"

#include <gtest/gtest.h>

namespace dp::report {
namespace {

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, appendix B.4
}

// The first record of every file that TensorFlow writes, but for the time.
TEST(EventFile, BeginsWithTheVersion) {
  const std::string bytes = EventFile(0).bytes();
  ASSERT_EQ(bytes.size(), 8 + 4 + 26 + 4u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x1a\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(12, 26), std::string("\x09\0\0\0\0\0\0\0\0\x10\0\x1a\x0d"
                                              "brain.Event:2",
                                              26));
}

TEST(EventFile, AScalarIsAnEventWithASummary) {
  EventFile file(0);
  const size_t begin = file.bytes().size();
  file.add_scalar(1, 300, "a", 0.5f);
  const std::string message = file.bytes().substr(begin + 12, file.bytes().size() - begin - 16);
  EXPECT_EQ(message, std::string("\x09\0\0\0\0\0\0\xf0\x3f"  // wall_time 1
                                 "\x10\xac\x02"              // step 300
                                 "\x2a\x0a\x0a\x08"          // summary, value
                                 "\x0a\x01\x61"              // tag
                                 "\x15\0\0\0\x3f",           // simple_value
                                 9 + 3 + 4 + 3 + 5));
}

}  // namespace
}  // namespace dp::report
