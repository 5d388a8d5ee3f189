// What Progress writes to a file and to a terminal.
#include "base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace dp {
namespace {

TEST(Progress, InAFileALineAtOnceAndALineAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    Progress progress("training", 4);
    progress.update(1, "loss 2");
    progress.update(2, "loss 1");  // too soon after the last line
    progress.say("a remark");
    progress.update(4, "loss 0");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "training  25 %  loss 2, 0 s left\na remark\ntraining 100 %  loss 0\n");
}

TEST(Progress, WorkThatWasDoneBeforeCountsInTheShareButNotInTheTimeLeft) {
  testing::internal::CaptureStderr();
  {
    Progress progress("reading", 4, 3);
    progress.update(3, "");  // nothing done in this process: no time to extrapolate from
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "reading  75 %  \n");
}

TEST(Progress, OnATerminalOneLineThatRedrawsItself) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  const int line = open(ptsname(terminal), O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
  ASSERT_GE(line, 0);
  dup2(line, STDERR_FILENO);
  {
    Progress progress("training", 2);
    progress.update(1, "half");
    progress.say("a remark");
    progress.update(2, "all");
  }
  dup2(before, STDERR_FILENO);
  close(before);
  const std::string half = "████████████", none = "░░░░░░░░░░░░", erase = "\r\x1b[K";
  const std::string expected = erase + "training " + half + none + "  50 %  half, 0 s left" + erase + "a remark\r\n" + erase +
                               "training " + half + half + " 100 %  all\r\n";
  // Each read gives what has come through so far.
  std::string text;
  pollfd ready = {.fd = terminal, .events = POLLIN, .revents = 0};
  while (text.size() < expected.size() && poll(&ready, 1, 10'000) > 0) {
    char part[4096];
    const ssize_t size = read(terminal, part, sizeof part);
    if (size <= 0) break;
    text.append(part, static_cast<size_t>(size));
  }
  close(line), close(terminal);
  EXPECT_EQ(text, expected);
}

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(-1), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 min 0 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(7500), "2 h 5 min");
}

}  // namespace
}  // namespace dp
