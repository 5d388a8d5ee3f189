// Pages: everything in one file, with nothing to load.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "report/chart_list.h"

namespace dp::report {

/// What pages are made of (web/), embedded in the program.
struct WebFiles {
  std::string_view page, style, script;  // the page is the same for all, with a place for the body
  std::string_view charts;  // vega, vega-lite and vega-embed; empty if npm could not install them
  std::string_view report = {}, analysis = {}, theory = {}, compiled = {};  // bodies
};
WebFiles web_files();

/// HTML by the name of the place where it goes, in the page or its body.
using Parts = std::map<std::string, std::string, std::less<>>;

/// The page with `body` in it, both filled with `parts`, and the charts. Throws InputError if there are no
/// chart libraries, std::logic_error for a place that has no part.
std::string put_together(const WebFiles& files, std::string_view title, std::string_view body,
                         const Parts& parts, const ChartList& charts);

/// Sentences as paragraphs, with no line breaks inside of "n = 2" and "99 %".
std::string paragraphs(const std::vector<std::string>& sentences);

/// A cell of a table that sorts by `value`.
std::string cell(const std::string& value, const std::string& text, bool is_number);

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
