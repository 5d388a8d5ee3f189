// The program dp: every command that needs no libtorch. The others are those of dp-lab, which it starts in its place.
#include <exception>

#include "tools/program.h"

namespace dp::cli {
namespace {

constexpr Command kCommands[] = {
#define DP_COMMAND(name, help) {#name, help, add_##name},
#define DP_LAB_COMMAND(name, help) {#name, help, nullptr},
#define DP_SCRIPT_COMMAND(name, help) {#name, help, nullptr},
#include "tools/commands.def"
#undef DP_COMMAND
#undef DP_LAB_COMMAND
#undef DP_SCRIPT_COMMAND
};

int run_elsewhere(const std::string&) { run_in_lab(); }

}  // namespace
}  // namespace dp::cli

int main(int argc, char** argv) {
  using namespace dp::cli;
  try {
    return run_program(kCommands, argc, argv, run_elsewhere);
  } catch (const std::exception&) {
    return complain_about_exception();
  }
}
