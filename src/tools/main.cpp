// The program: parses the command line, runs one command, turns exceptions into one line and an
// exit code (2 for wrong usage or input, 1 for failure).
#include <c10/util/Exception.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tools/blas_kernels.h"
#include "tools/command.h"
#include "dist/world.h"

namespace dp::cli {
namespace {

constexpr int kFailure = 1, kWrongUsage = 2;

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App& app);  // null: done by the ./dp script
};

constexpr Command kCommands[] = {
#define DP_COMMAND(name, help) {#name, help, add_##name},
#define DP_SCRIPT_COMMAND(name, help) {#name, help, nullptr},
#include "tools/commands.def"
#undef DP_COMMAND
#undef DP_SCRIPT_COMMAND
};

int complain(const std::string& message, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "dp: error: %s\n", message.c_str());
  return exit_code;
}

// A large tensor that is freed and needed again in the next step should not go through the kernel
// each time, which zeroes every page anew.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() ? full_name(app->get_parent()) + " " + app->get_name() : app->get_name();
}

// The words that `app` would have understood in place of `word`.
std::vector<std::string> known_words(const CLI::App& app, const std::string& word) {
  std::vector<std::string> words;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  } else {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      words.push_back(command->get_name());
  }
  return words;
}

std::string explain_unknown(const CLI::App& app, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  const std::vector<std::string> known = known_words(app, word);
  std::string kind = word.starts_with('-') ? "option " : known.empty() ? "argument " : "command ";
  std::string message = "unknown " + kind + quote(word) + " for " + quote(full_name(&app));
  const std::string meant = closest(word, known);
  if (!meant.empty()) return message + "; did you mean " + quote(meant) + "?";
  return message + "; " + quote(full_name(&app) + " --help") + " lists what there is";
}

std::string explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* app = &root;
  while (true) {
    const bool may_be_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) ||
                                dynamic_cast<const CLI::RequiredError*>(&error);
    if (const std::vector<std::string> rest = app->remaining(); may_be_unknown && !rest.empty())
      return explain_unknown(*app, rest.front());
    if (app->get_subcommands().empty()) break;
    app = app->get_subcommands().front();
  }
  std::string what = error.what();
  std::ranges::replace(what, '\n', ' ');
  return what + "; " + quote(full_name(app) + " --help") + " explains";
}

int run(int argc, char** argv) {
  CLI::App app("DeltaProduct in C++: linear recurrent networks that track state, on CPUs.", "dp");
  app.set_version_flag("--version", "dp " DP_VERSION);
  app.require_subcommand(1);
  std::map<const CLI::App*, Run> runs;
  for (const Command& command : kCommands) {
    CLI::App* subcommand = app.add_subcommand(command.name, command.help);
    if (command.add) {
      runs[subcommand] = command.add(*subcommand);
    } else {
      subcommand->prefix_command();  // whatever follows is not ours to judge
      runs[subcommand] = [name = command.name]() -> int {
        throw InputError(quote(name) +
                         " is a command of the script dp at the root of the repository");
      };
    }
  }
  if (argc == 1) {
    std::printf("%s", app.help().c_str());
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return complain(explain(app, error), kWrongUsage);
  }
  return runs.at(app.get_subcommands().front())();
}

}  // namespace
}  // namespace dp::cli

int main(int argc, char** argv) {
  using namespace dp::cli;
  restart_with_better_blas_kernels(argv);
  keep_freed_memory();
  set_command_line(argc, argv);
  try {
    return run(argc, argv);
  } catch (const dp::RankLost& error) {
    // Without destructors: threads of the process group may still wait for the rank that is gone.
    std::_Exit(complain(error.what(), kFailure));
  } catch (const dp::InputError& error) {
    return complain(error.what(), kWrongUsage);
  } catch (const c10::ValueError& error) {
    return complain(error.what_without_backtrace(), kWrongUsage);
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace(), kFailure);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailure);
  }
}
