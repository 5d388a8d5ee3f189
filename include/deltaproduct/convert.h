// A model's directory in fewer bits.
#pragma once
#include <filesystem>
#include <string>

#include <deltaproduct/model.h>

namespace deltaproduct {

/// Writes the model of directory `from` to `to`, with its matrices in `dtype`: float32, bfloat16, float16, int8 or int4. `to`
/// must not exist; if anything fails, it still does not. Throws Error.
void convert(const std::filesystem::path& from, const std::filesystem::path& to,
             const std::string& dtype, Threads threads = Threads());

}  // namespace deltaproduct
