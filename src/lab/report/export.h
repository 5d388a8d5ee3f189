// Training runs for other programs: tables as CSV, event files for TensorBoard.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

namespace dp {

struct ExportSummary {
  int64_t runs = 0, broken_lines = 0;
};

/// Into `out`, which is made if needed, for all runs of `folders` (report/runs.h):
///   metrics.csv      a row per training step
///   evaluations.csv  a row per length and evaluation: "validation" during training, "test" of eval.json
///   runs.csv         a row per run with all of its settings
/// A column has the name of the field that it comes from; nested names are joined by dots. Throws InputError.
ExportSummary export_csv(std::span<const std::filesystem::path> folders,
                         const std::filesystem::path& out);

/// An event file per run, in a directory of `out` named as the run is below the folder given: train/loss and the other
/// numbers of every step, validation/FIELD_LENGTH of every evaluation. Throws InputError.
ExportSummary export_tensorboard(std::span<const std::filesystem::path> folders,
                                 const std::filesystem::path& out);

}  // namespace dp
