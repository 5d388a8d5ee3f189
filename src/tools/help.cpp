#include "tools/help.h"

#include <string_view>
#include <vector>

namespace dp::cli {
namespace {

constexpr size_t kLeftColumn = 30, kWidth = 120;

// Lines of at most `width` bytes, cut at spaces; a line break in the text is kept.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    size_t end = line.size();
    if (end > width) {
      end = line.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = std::min(line.find(' '), line.size());
    }
    lines.emplace_back(line.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));  // and the space or line break
  }
  return lines;
}

std::string two_columns(const std::string& left, const std::string& right) {
  std::string row = "  " + left;
  const std::string indent(kLeftColumn, ' ');
  bool beside = row.size() + 2 <= kLeftColumn;
  for (const std::string& line : wrap(right, kWidth - kLeftColumn)) {
    row += beside ? std::string(kLeftColumn - row.size(), ' ') : "\n" + indent;
    row += line;
    beside = false;
  }
  return row + "\n";
}

std::string names(const CLI::Option& option) {
  if (option.get_positional()) return option.get_single_name();
  std::string all;
  for (const std::string& name : option.get_snames()) all += (all.empty() ? "-" : ",-") + name;
  for (const std::string& name : option.get_lnames()) all += (all.empty() ? "--" : ",--") + name;
  return all;
}

// "--batch INT=64": names, type, default.
std::string signature(const CLI::Option& option) {
  std::string text = names(option);
  if (option.get_type_size() == 0) return text;
  if (!option.get_type_name().empty()) text += " " + option.get_type_name();
  if (!option.get_default_str().empty()) text += "=" + option.get_default_str();
  if (option.get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
  if (option.get_required()) text += " REQUIRED";
  return text;
}

std::string section(const std::string& title, const std::vector<const CLI::Option*>& options) {
  if (options.empty()) return "";
  std::string text = "\n" + title + ":\n";
  for (const CLI::Option* option : options) text += two_columns(signature(*option), option->get_description());
  return text;
}

std::string usage(const CLI::App& app, const std::string& name,
                  const std::vector<const CLI::Option*>& positionals, bool has_subcommands) {
  std::string line = "Usage: " + name + " [OPTIONS]";
  for (const CLI::Option* option : positionals) {
    std::string one = option->get_single_name();
    if (option->get_expected_max() > 1) one += "...";
    line += option->get_required() ? " " + one : " [" + one + "]";
  }
  if (has_subcommands) line += app.get_require_subcommand_min() == 0 ? " [SUBCOMMAND]" : " SUBCOMMAND";
  return line + "\n";
}

}  // namespace

std::string help_text(const CLI::App* app, std::string name, CLI::AppFormatMode) {
  const auto shown = [&](bool positional) {
    return app->get_options([&](const CLI::Option* option) {
      return option->get_positional() == positional && !option->get_group().empty();
    });
  };
  const auto positionals = shown(true);
  const auto subcommands = app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
  std::string text;
  for (const std::string& line : wrap(app->get_description(), kWidth)) text += line + "\n";
  text += usage(*app, name, positionals, !subcommands.empty());
  text += section("Positionals", positionals);
  text += section("Options", shown(false));
  if (!subcommands.empty()) text += "\nSubcommands:\n";
  for (const CLI::App* one : subcommands) text += two_columns(one->get_name(), one->get_description());
  if (!app->get_footer().empty()) text += "\n" + app->get_footer() + "\n";
  return text;
}

}  // namespace dp::cli
