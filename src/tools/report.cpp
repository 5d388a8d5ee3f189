// dp report: a page of charts about training runs, or about a compiled model.
#include "report/report.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "tools/command.h"
#include "report/compiled_page.h"
#include "theory/problem.h"

namespace dp::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> folders;
  std::string out = "report.html";
};

int report(const ReportOptions& options) {
  const std::vector<std::filesystem::path> folders(options.folders.begin(), options.folders.end());
  const auto compiled = std::ranges::find_if(folders, theory::is_compiled);
  if (compiled != folders.end()) {
    if (folders.size() > 1)
      throw InputError(quote(compiled->string()) +
                       " is a compiled model: its page takes no other folders, got " +
                       std::to_string(folders.size()));
    report::write_compiled_page(*compiled, options.out);
    std::printf("one compiled model\nwrote %s\n", options.out.c_str());
    return 0;
  }
  const ReportSummary summary = write_report(folders, options.out);
  if (summary.left_out > 0)
    std::printf("%ld run%s could not be read; the page says why\n", summary.left_out,
                summary.left_out == 1 ? "" : "s");
  if (summary.broken_lines > 0)
    std::printf("left out %ld broken line%s of metrics\n", summary.broken_lines,
                summary.broken_lines == 1 ? "" : "s");
  std::printf("%ld run%s\nwrote %s\n", summary.runs, summary.runs == 1 ? "" : "s",
              options.out.c_str());
  return 0;
}

}  // namespace

Run add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  app.add_option("folders", options->folders,
                 "training runs, or folders that hold some at any depth; or one compiled model")
      ->type_name("DIR")
      ->required();
  app.add_option("--out", options->out, "the page to write")
      ->type_name("FILE")
      ->capture_default_str();
  return [options] { return report(*options); };
}

}  // namespace dp::cli
