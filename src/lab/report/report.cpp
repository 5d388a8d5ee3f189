#include "report/report.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "report/page.h"
#include "report/runs.h"

namespace dp {

ReportSummary write_report(std::span<const std::filesystem::path> folders,
                           const std::filesystem::path& file) {
  require_writable(file);
  const nlohmann::ordered_json data = report::report_data(folders);
  report::write_page(data, file);
  ReportSummary summary;
  summary.runs = static_cast<int64_t>(data["runs"].size());
  summary.left_out = static_cast<int64_t>(data["problems"].size());
  for (const auto& run : data["runs"])
    summary.broken_lines += run["training"]["broken_lines"].get<int64_t>();
  return summary;
}

}  // namespace dp
