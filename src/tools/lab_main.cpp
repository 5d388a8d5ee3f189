// The program dp-lab: every command, those that need libtorch among them. dp starts it.
#include <c10/util/Exception.h>
#include <malloc.h>

#include <exception>

#include "base/error.h"
#include "base/quote.h"
#include "dist/world.h"
#include "tools/blas_kernels.h"
#include "tools/program.h"

namespace dp::cli {
namespace {

constexpr Command kCommands[] = {
#define DP_COMMAND(name, help) {#name, help, add_##name},
#define DP_LAB_COMMAND(name, help) {#name, help, add_##name},
#define DP_SCRIPT_COMMAND(name, help) {#name, help, nullptr},
#include "tools/commands.def"
#undef DP_COMMAND
#undef DP_LAB_COMMAND
#undef DP_SCRIPT_COMMAND
};

int run_elsewhere(const std::string& name) {
  throw InputError(quote(name) + " is a command of the script dp at the root of the repository");
}

// A large tensor that is freed and needed again in the next step should not go through the kernel
// each time, which zeroes every page anew.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace
}  // namespace dp::cli

int main(int argc, char** argv) {
  using namespace dp::cli;
  restart_with_better_blas_kernels(argv);
  keep_freed_memory();
  try {
    return run_program(kCommands, argc, argv, run_elsewhere);
  } catch (const dp::RankLost& error) {
    // Without destructors: threads of the process group may still wait for the rank that is gone.
    std::_Exit(complain(error.what(), kFailure));
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace(), kFailure);
  } catch (const std::exception&) {
    return complain_about_exception();
  }
}
