#include "base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/test_folder.h"

namespace dp {
namespace {

TEST(ChildProcess, OutputExitCodeDirectoryAndVariables) {
  const TestFolder folder;
  folder.file("here", "");
  const ChildOutput output =
      run_child({.command = {"sh", "-c", "ls; echo $WORD; echo lost >&2; exit 3"},
                 .directory = folder / "",
                 .variables = {{"WORD", "two words"}}},
                /*errors_too=*/false);
  EXPECT_EQ(output.text, "here\ntwo words\n");
  EXPECT_EQ(output.exit_code, 3);
}

TEST(ChildProcess, ErrorsCanBePartOfTheOutput) {
  EXPECT_EQ(run_child({.command = {"sh", "-c", "echo out; echo error >&2"}}, true).text, "out\nerror\n");
}

TEST(ChildProcess, AMissingProgramIsAnErrorThatNamesIt) {
  try {
    run_child({.command = {"/no/such/program"}}, false);
    FAIL() << "started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("cannot start /no/such/program"), std::string::npos) << error.what();
  }
}

TEST(ChildProcess, ASignalIsToldFromAnExitCode) {
  const pid_t process = start_child({.command = {"sleep", "60"}});
  kill(process, SIGKILL);
  const int status = wait_for_child(process);
  EXPECT_EQ(exit_code(status), 128 + SIGKILL);
  EXPECT_EQ(describe_end(status), "was killed by signal 9 (Killed)");
}

// The process between us and the sleep ends; the sleep must end with it, and so close its end of the pipe.
TEST(ChildProcess, AnOrphanGetsItsSignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    close(ends[0]);
    start_child({.command = {"sleep", "60"}, .output = ends[1], .signal_when_orphaned = SIGTERM});
    std::_Exit(0);
  }
  close(ends[1]);
  wait_for_child(middle);
  char byte = 0;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read(ends[0], &byte, 1), 0);  // the end of the pipe
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50)) << "the sleep ran to its own end";
  close(ends[0]);
}

}  // namespace
}  // namespace dp
