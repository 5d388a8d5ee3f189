// dp report: a page of charts about training runs or a compiled model, or runs exported for other programs.
#include "report/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "report/compiled_data.h"
#include "report/export.h"
#include "report/page.h"
#include "report/stored_results.h"
#include "theory/problem.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> folders;
  std::string out;     // empty: by default
  std::string format;  // of an export; empty: a page
  std::string commit;  // of the program that made the runs
  bool add = false;    // keep the runs that `out` has
};

int store_results(const std::vector<std::filesystem::path>& folders, const ReportOptions& options) {
  const std::string out = options.out.empty() ? "results.json" : options.out;
  require_writable(out);
  nlohmann::ordered_json results = report::stored_results(folders, options.commit);
  if (options.add && std::filesystem::exists(out))
    results = report::with_earlier_runs(std::move(results), report::read_stored_results(out));
  write_file_atomically(out, report::to_text(results));
  std::printf("%zu finished runs\nwrote %s\n", results["runs"].size(), out.c_str());
  return 0;
}

int export_runs(const std::vector<std::filesystem::path>& folders, const ReportOptions& options) {
  if (options.format == "json") return store_results(folders, options);
  const std::string out = options.out.empty() ? "export" : options.out;
  const ExportSummary summary =
      options.format == "csv" ? export_csv(folders, out) : export_tensorboard(folders, out);
  if (summary.broken_lines > 0)
    std::printf("left out %ld broken line%s of metrics\n", summary.broken_lines,
                summary.broken_lines == 1 ? "" : "s");
  std::printf("%ld run%s\nwrote %s\n", summary.runs, summary.runs == 1 ? "" : "s", out.c_str());
  return 0;
}

int report(const ReportOptions& options) {
  const std::vector<std::filesystem::path> folders(options.folders.begin(), options.folders.end());
  if (!options.format.empty()) return export_runs(folders, options);
  const std::string out = options.out.empty() ? "report.html" : options.out;
  const auto compiled = std::ranges::find_if(folders, theory::is_compiled);
  if (compiled != folders.end()) {
    if (folders.size() > 1)
      throw InputError(quote(compiled->string()) +
                       " is a compiled model: its page takes no other folders, got " +
                       std::to_string(folders.size()));
    require_writable(out);
    report::write_page(report::compiled_data(report::load_compiled(*compiled)), out);
    std::printf("one compiled model\nwrote %s\n", out.c_str());
    return 0;
  }
  if (folders.size() == 1 && report::holds_stored_results(folders[0])) {
    require_writable(out);
    const nlohmann::ordered_json data = report::experiments_data(folders[0]);
    report::write_page(data, out);
    std::printf("%zu files of results%s\nwrote %s\n", data["results"].size(),
                data["problems"].empty() ? "" : ", others could not be read and the page says why", out.c_str());
    return 0;
  }
  const ReportSummary summary = write_report(folders, out);
  if (summary.left_out > 0)
    std::printf("%ld run%s could not be read; the page says why\n", summary.left_out,
                summary.left_out == 1 ? "" : "s");
  if (summary.broken_lines > 0)
    std::printf("left out %ld broken line%s of metrics\n", summary.broken_lines,
                summary.broken_lines == 1 ? "" : "s");
  std::printf("%ld run%s\nwrote %s\n", summary.runs, summary.runs == 1 ? "" : "s", out.c_str());
  return 0;
}

}  // namespace

Run add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  app.add_option("folders", options->folders,
                 "training runs, folders that contain runs at any depth, one compiled model, or one folder with "
                 "stored results")
      ->type_name("DIR")
      ->required();
  app.add_option(
         "--out", options->out,
         "the page to write (default: report.html), or the folder of an export (default: export)")
      ->type_name("PATH");
  app.add_option(
         "--export", options->format,
         "instead of a page: csv (metrics, evaluations and settings as tables), tensorboard (an event file per run) or json (a "
         "file of the finished runs without their weights, for a folder called results; default: results.json)")
      ->check(CLI::IsMember({"csv", "tensorboard", "json"}));
  app.add_option("--commit", options->commit, "with --export json: the commit of the program that made the runs")->type_name("HASH");
  app.add_flag("--add", options->add, "with --export json: keep runs that the file has and the folders do not");
  return [options] { return report(*options); };
}

}  // namespace dp::cli
