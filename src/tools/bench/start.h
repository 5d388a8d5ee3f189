// How soon programs answer: new processes, measured from outside.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/model_config.h"

namespace dp::cli {

/// This program with other arguments.
struct ProcessTimes {
  double first_byte = 0, end = 0;  // seconds from the start to the first output and to the end
  double cpu = 0;                  // seconds of processor time
};
/// `input` is its standard input, or empty for none. Throws std::runtime_error if it fails or prints nothing.
ProcessTimes run_this_program(const std::vector<std::string>& arguments, const std::string& input = "");

struct FirstToken {
  double file_bytes = 0;
  double read_seconds = 0;         // reading the file's bytes once, from the page cache, by one thread
  double first_token_seconds = 0;  // of `dp generate`, from its start to its first token
  double ratio() const { return first_token_seconds / read_seconds; }
};
/// Of a model with random weights in float32, saved to a temporary directory. The best of several rounds.
FirstToken time_first_token(const ModelConfig& config, int threads);

inline constexpr double kMostFirstToken = 1.25;  // times reading the file

}  // namespace dp::cli
