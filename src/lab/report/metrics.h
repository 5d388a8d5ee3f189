// metrics.jsonl of a run, which may be cut short or come from elsewhere: lines that cannot be read are counted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace dp::report {

/// Calls `row` with every line that is an object with the fields of train/run.cpp, in the order of the file. Returns
/// how many lines were left out.
int64_t read_metrics(const std::filesystem::path& file,
                     const std::function<void(const nlohmann::ordered_json&)>& row);

/// The part of them that pages show:
///   steps, tokens, seconds  at the end of training so far
///   tokens_per_second       over the steps without an evaluation; 0: unknown
///   broken_lines
///   curve        columns {"step", "count", "loss", "accuracy", "length", "tokens"}: a point for every `width` steps,
///                a power of two, so that there are at most `most_points` and curves of runs can be put on one grid.
///                loss and accuracy are means over `count` steps, the others belong to the last step
///   evaluations  [{"step", "tokens", "lengths": as dp eval writes them}]
nlohmann::ordered_json summarize_metrics(const std::filesystem::path& file, int64_t most_points = 512);

/// Checks rows {"length", ...} of an evaluation: a positive length, and numbers in all other fields, which may be null
/// for NaN. Throws nlohmann::json::exception.
void check_lengths(const nlohmann::ordered_json& rows);

}  // namespace dp::report
