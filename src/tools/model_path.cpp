#include "tools/model_path.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/quote.h"

namespace dp::cli {
namespace fs = std::filesystem;

fs::path presets_folder() {
  const fs::path source = DP_SOURCE_DIR "/configs";
  return fs::is_directory(source) ? source : fs::path(DP_INSTALLED_CONFIGS);
}

ModelConfig find_model_config(const std::string& text) {
  if (fs::exists(text)) return read_model_config(text);
  const fs::path preset = presets_folder() / (text + ".json");
  if (text.find('/') == std::string::npos && fs::exists(preset)) return read_model_config(preset);
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& item : fs::directory_iterator(presets_folder(), error))
    names.push_back(item.path().stem().string());
  std::ranges::sort(names);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw InputError(quote(text) + " is neither a model directory nor a config.json nor a preset (" +
                   list + ")");
}

}  // namespace dp::cli
