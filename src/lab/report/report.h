// A self-contained HTML page about training runs: accuracy by length, training curves, settings.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

namespace dp {

struct ReportSummary {
  int64_t runs = 0;
  int64_t left_out = 0;      // runs that could not be read
  int64_t broken_lines = 0;  // of all metrics.jsonl together
};

/// `folders` are training runs (train/run.h) or hold some, at any depth. A run's eval.json, as
/// `dp eval --json` writes it, is used where it is there. The page appears at `file` once it is
/// complete. Throws InputError, for a folder without runs among others.
ReportSummary write_report(std::span<const std::filesystem::path> folders,
                           const std::filesystem::path& file);

}  // namespace dp
