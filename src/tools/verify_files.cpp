// dp verify-files: compares files with the checksums in them.
#include "io/verify_files.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace dp::cli {

Run add_verify_files(CLI::App& app) {
  struct Options {
    std::string path;
    JsonOption json;
  };
  auto options = std::make_shared<Options>();
  app.add_option("path", options->path, "a run, model, dataset or any directory that holds some; or one file")
      ->type_name("DIR")
      ->required();
  options->json.add_to(app);
  app.footer(
      "Everything that dp writes carries checksums: weights, optimiser states, saved states and tokens. Exit code 1 if a file\n"
      "was changed or damaged. After that, train --resume falls back to the checkpoint before.");
  return [options] {
    options->json.check();
    const FilesReport report = verify_files(options->path);
    for (const std::string& damage : report.damages) std::printf("DAMAGED %s\n", damage.c_str());
    std::printf("%zu files verified, %zu without checksums, %zu damaged\n", report.verified, report.without_checksums,
                report.damages.size());
    options->json.write({{"verified", report.verified},
                         {"without_checksums", report.without_checksums},
                         {"damages", report.damages}});
    return report.damages.empty() ? 0 : 1;
  };
}

}  // namespace dp::cli
