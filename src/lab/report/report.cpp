#include "report/report.h"

#include "base/atomic_file.h"
#include "report/report_page.h"

namespace dp {

ReportSummary write_report(std::span<const std::filesystem::path> folders,
                           const std::filesystem::path& file) {
  const report::WebFiles files = report::web_files();
  require_writable(file);
  const report::Runs runs = report::find_runs(folders);
  write_file_atomically(file, report::make_page(runs, files));
  ReportSummary summary;
  summary.runs = static_cast<int64_t>(runs.runs.size());
  summary.left_out = static_cast<int64_t>(runs.problems.size());
  for (const report::Run& run : runs.runs) summary.broken_lines += run.broken_lines;
  return summary;
}

}  // namespace dp
