#include "deltaproduct/convert.h"

#include "base/atomic_file.h"
#include "base/quote.h"
#include "embed/internals.h"
#include "runtime/convert.h"

namespace deltaproduct {

void convert(const std::filesystem::path& from, const std::filesystem::path& to,
             const std::string& dtype, Threads threads) {
  const bool known = dtype == "float32" || dtype == "bfloat16" || dtype == "float16" ||
                     dtype == "int8" || dtype == "int4";
  if (!known)
    throw Error("dtype is " + dp::quote(dtype) + ", expected float32, bfloat16, float16, int8 or int4");
  if (std::filesystem::exists(to)) throw Error(dp::quote(to.string()) + " exists already, expected a new directory");
  with_public_errors([&] {
    dp::StagedDirectory staged(to);
    dp::runtime::ConvertOptions options;
    options.dtype = dtype;
    dp::runtime::convert_checkpoint(from, staged.path(), options, Internals::executor(threads));
    staged.publish();
  });
}

}  // namespace deltaproduct
