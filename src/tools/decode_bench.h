// Decoding speed beside this machine's memory bandwidth.
#pragma once
#include <memory>
#include <string>

#include "nn/language_model.h"

namespace dp::cli {

struct DecodeSpeed {
  double tokens_per_second = 0;
  double bytes_per_token = 0;        // weights read once, state read and written
  double read_bytes_per_second = 0;  // a plain pass over memory, in turns with the decoding
  double ratio() const { return tokens_per_second * bytes_per_token / read_bytes_per_second; }
};

/// One sequence, token after token, for about so many seconds.
DecodeSpeed time_decoding(const std::shared_ptr<const LanguageModel>& model, double seconds);

struct LoadTiming {
  double file_bytes = 0;
  double read_seconds = 0;         // reading the file's bytes once, from the page cache
  double first_token_seconds = 0;  // a new process, from its start to its first token
};

/// Saves the model to a temporary directory and lets `program` generate from it, twice.
LoadTiming time_loading(const LanguageModel& model, const std::string& program, int threads);

}  // namespace dp::cli
