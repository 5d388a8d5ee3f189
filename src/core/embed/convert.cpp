#include "deltaproduct/convert.h"

#include "base/quote.h"
#include "embed/internals.h"
#include "runtime/convert.h"

namespace deltaproduct {

void convert(const std::filesystem::path& from, const std::filesystem::path& to,
             const std::string& dtype, Threads threads) {
  namespace fs = std::filesystem;
  const bool known = dtype == "float32" || dtype == "bfloat16" || dtype == "float16" ||
                     dtype == "int8" || dtype == "int4";
  if (!known)
    throw Error("dtype is " + dp::quote(dtype) + ", expected float32, bfloat16, float16, int8 or int4");
  if (fs::exists(to)) throw Error(dp::quote(to.string()) + " exists already, expected a new directory");
  const fs::path unfinished = to.string() + ".unfinished";
  if (!fs::create_directory(unfinished))
    throw Error(dp::quote(unfinished.string()) + " exists already: another conversion may be under way");
  try {
    dp::runtime::ConvertOptions options;
    options.dtype = dtype;
    with_public_errors([&] {
      dp::runtime::convert_checkpoint(from, unfinished, options, Internals::executor(threads));
    });
    fs::rename(unfinished, to);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
}

}  // namespace deltaproduct
