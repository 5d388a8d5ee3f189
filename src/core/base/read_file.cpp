#include "base/read_file.h"

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace dp {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path, error)) return std::nullopt;
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

}  // namespace dp
