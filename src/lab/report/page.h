// Self-contained HTML pages: a frame, the chart libraries, the scripts of web/ and one JSON value that they show.
// The words and charts of pages are in web/; web/README.md describes the JSON.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace dp::report {

/// The files of web/, embedded in the program.
struct WebFiles {
  std::string_view frame, style, script;
  std::string_view libraries;  // empty if npm could not install them
};
WebFiles web_files();

/// The page that shows `data`, an object with a field "page". Throws InputError if there are no libraries.
std::string make_page(const nlohmann::ordered_json& data, const WebFiles& files = web_files());

/// The page appears at `file` once it is complete.
void write_page(const nlohmann::ordered_json& data, const std::filesystem::path& file);

/// Fractions in `data` with six digits: more than a screen shows, and a page half as large.
nlohmann::ordered_json rounded(nlohmann::ordered_json data);

}  // namespace dp::report
