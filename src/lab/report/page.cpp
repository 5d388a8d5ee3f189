#include "report/page.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

// JSON inside of a script element: no < can end the element, and bytes that are not UTF-8 are replaced.
std::string script_json(const ordered_json& value) {
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");  // < occurs in strings only
  return text;
}

// `frame` with each {{name}} replaced by part(name). What is put in is not searched again.
template <class Part>
std::string fill(std::string_view frame, Part part) {
  std::string result;
  for (size_t begin; (begin = frame.find("{{")) != std::string_view::npos;) {
    const size_t end = frame.find("}}", begin);
    result += frame.substr(0, begin);
    result += part(frame.substr(begin + 2, end - begin - 2));
    frame.remove_prefix(end + 2);
  }
  return result.append(frame);
}

}  // namespace

std::string make_page(const ordered_json& data, const WebFiles& files) {
  if (files.libraries.empty() || files.script.empty())
    throw InputError(
        "this program was built without the charts of a report, because npm was missing or could "
        "not install vega; install nodejs and npm, remove '" DP_WEB_LIBRARIES
        "', configure and build again");
  return fill(files.frame, [&](std::string_view name) -> std::string {
    if (name == "style") return std::string(files.style);
    if (name == "libraries") return std::string(files.libraries);
    if (name == "script") return std::string(files.script);
    if (name == "data") return script_json(data);
    throw std::logic_error("web/page.html has an unknown place: " + std::string(name));
  });
}

void write_page(const ordered_json& data, const std::filesystem::path& file) {
  require_writable(file);
  write_file_atomically(file, make_page(data));
}

ordered_json rounded(ordered_json data) {
  if (data.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", data.get<double>());
    return std::atof(text);
  }
  if (data.is_structured())
    for (ordered_json& value : data) value = rounded(std::move(value));
  return data;
}

}  // namespace dp::report
