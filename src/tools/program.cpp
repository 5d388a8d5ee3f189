#include "tools/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <new>
#include <vector>

#include "base/closest.h"
#include "base/error.h"
#include "base/quote.h"
#include "runtime/model.h"
#include "tools/help.h"

namespace dp::cli {
namespace {

char** arguments = nullptr;  // of this process

std::string lab_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dp-lab";
}

// What was printed may be waiting in a buffer, and the place it goes to may be full or gone.
int expect_printed(int exit_code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout.flush()) return exit_code;
  return complain("cannot write to the standard output: is the disk full?", kFailure);
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

}  // namespace

// One line, whatever it quotes.
int complain(const std::string& message, int exit_code) {
  constexpr size_t kLongest = 1000;
  std::string line = message.substr(0, kLongest) + (message.size() > kLongest ? "..." : "");
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' ? ' ' : '?';
  std::fflush(stdout);
  std::fprintf(stderr, "dp: error: %s\n", line.c_str());
  return exit_code;
}

int complain_about_exception() {
  try {
    throw;
  } catch (const InputError& error) {
    return complain(error.what(), kWrongUsage);
  } catch (const std::filesystem::filesystem_error& error) {
    const int reason = error.code().value();
    const bool wrong_path = reason == ENAMETOOLONG || reason == ELOOP || reason == ENOTDIR || reason == EISDIR ||
                            reason == ENOENT || reason == EACCES || reason == EEXIST;
    return complain("cannot use " + quote(error.path1().string()) + ": " + error.code().message(),
                    wrong_path ? kWrongUsage : kFailure);
  } catch (const std::bad_alloc&) {
    return complain("there is not enough memory for this", kFailure);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailure);
  }
}

bool is_lab_installed() { return access(lab_program().c_str(), X_OK) == 0; }

void run_in_lab() {
  const std::string lab = lab_program();
  execv(lab.c_str(), arguments);
  throw InputError("this needs libtorch and the program " + quote(lab) + ", which cannot be started");
}

ModelSize any_model_size(const ModelConfig& config) {
  return runtime::is_supported(config) ? runtime::model_size(config) : size_in_lab(config);
}

// The weights of a model lie in mapped files; if another program shortens one, reading what is gone raises SIGBUS.
static void explain_lost_pages() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    constexpr char kMessage[] =
        "dp: error: a file that was being read has become shorter; models in use are replaced by renaming, not by writing\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    _exit(kFailure);
  };
  sigaction(SIGBUS, &action, nullptr);
}

int run_program(std::span<const Command> commands, int argc, char** argv, int (*elsewhere)(const std::string& name)) {
  arguments = argv;
  explain_lost_pages();
  set_command_line(argc, argv);
  CLI::App app("DeltaProduct in C++: linear recurrent networks that track state, on CPUs.", "dp");
  app.formatter_fn(help_text);
  app.get_help_ptr()->description("print this help and exit");
  app.set_version_flag("--version", "dp " DP_VERSION, "print the version and exit");
  app.require_subcommand(1);
  std::map<const CLI::App*, Run> runs;
  for (const Command& command : commands) {
    std::string name = command.name;
    std::ranges::replace(name, '_', '-');
    // Before anything else reads its options, --help among them.
    if (!command.add && argc > 1 && name == argv[1]) return elsewhere(name);
    CLI::App* subcommand = app.add_subcommand(name, command.help);
    if (command.add) runs[subcommand] = command.add(*subcommand);
  }
  if (argc == 1) {
    std::printf("%s", app.help().c_str());
    return expect_printed(0);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return expect_printed(app.exit(error));  // --help, --version
    return complain(explain(app, error), kWrongUsage);
  }
  const CLI::App* chosen = app.get_subcommands().front();
  return expect_printed(runs.contains(chosen) ? runs.at(chosen)() : elsewhere(chosen->get_name()));
}

}  // namespace dp::cli
