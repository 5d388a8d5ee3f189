// The page: everything in one file, with nothing to load.
#pragma once
#include <string>
#include <string_view>

#include "report/run.h"

namespace dp::report {

/// What the page is made of (web/), embedded in the program.
struct WebFiles {
  std::string_view page, style, script;
  std::string_view charts;  // vega, vega-lite and vega-embed; empty if npm could not install them
};
WebFiles web_files();

std::string make_page(const Runs& runs, const WebFiles& files);

/// Text as it goes between tags and into quoted attributes.
std::string html(std::string_view text);

/// `page` with {{name}} replaced by what `value` has for the name. What is put in is not looked at again.
template <class Value>
std::string fill(std::string_view page, Value value) {
  std::string result;
  for (size_t begin; (begin = page.find("{{")) != std::string_view::npos;) {
    const size_t end = page.find("}}", begin);
    if (end == std::string_view::npos) break;
    result += page.substr(0, begin);
    result += value(page.substr(begin + 2, end - begin - 2));
    page.remove_prefix(end + 2);
  }
  return result.append(page);
}

}  // namespace dp::report
