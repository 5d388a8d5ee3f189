#include "io/verify_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "io/safetensors.h"
#include "text/token_shards.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

// JSON with a checksum of its fields: a checkpoint's progress, a run's settings, what a compiled model solves.
constexpr std::string_view kJsonFiles[] = {"trainer.json", "run.json", "compiled.json"};

bool is_checked_json(const fs::path& file) {
  return std::ranges::find(kJsonFiles, file.filename().string()) != std::end(kJsonFiles);
}

bool has_checksums(const fs::path& file) {
  return file.extension() == ".safetensors" || file.filename() == kManifestFile || is_checked_json(file);
}

// Their checksums are in the manifest beside them.
bool is_shard(const fs::path& file) { return file.extension() == ".tokens" || file.extension() == ".documents"; }

// Text and tokenizers; a saved state may have any other name.
bool is_of_others(const fs::path& file) {
  constexpr std::string_view kEndings[] = {".json", ".jsonl", ".model", ".txt", ".jinja", ".html", ".md", ".csv", ".gz", ".zst"};
  return std::ranges::find(kEndings, file.extension().string()) != std::end(kEndings);
}

std::vector<fs::path> files_below(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw InputError(quote(path.string()) + " is not there, expected a file or a directory");
  if (!fs::is_directory(status)) return {path};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator item(path, fs::directory_options::skip_permission_denied), end; item != end;
       item.increment(error))
    if (item->is_regular_file(error) && has_checksums(item->path())) files.push_back(item->path());
  std::ranges::sort(files);
  return files;
}

// Whether there was anything to compare with. Throws InputError for damage.
bool verify_file(const fs::path& file) {
  if (file.filename() == kManifestFile || is_shard(file)) {
    TokenDataset(file.parent_path()).verify();
    return true;
  }
  if (!is_checked_json(file)) return is_of_others(file) ? false : SafetensorsFile(file).verify() > 0;
  const MappedFile mapped = map_file(file);
  const nlohmann::json fields = parse_json(
      {reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size()}, file.string(), "it");
  expect_checksum(fields, file.string());
  return fields.is_object() && fields.contains("checksum");
}

}  // namespace

FilesReport verify_files(const fs::path& path, const std::function<void(const fs::path&)>& looking_at) {
  FilesReport report;
  for (const fs::path& file : files_below(path)) {
    if (looking_at) looking_at(file);
    try {
      ++(verify_file(file) ? report.verified : report.without_checksums);
    } catch (const InputError& error) {
      report.damages.push_back(error.what());
    }
  }
  return report;
}

}  // namespace dp
