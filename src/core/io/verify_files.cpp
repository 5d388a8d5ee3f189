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

constexpr const char* kProgressFile = "trainer.json";

bool has_checksums(const fs::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".safetensors" || name == kManifestFile || name == kProgressFile;
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
  if (file.filename() == kManifestFile) {
    TokenDataset(file.parent_path()).verify();
    return true;
  }
  if (file.filename() != kProgressFile) return SafetensorsFile(file).verify() > 0;
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
