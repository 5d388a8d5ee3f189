#include "report/page.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

// JSON inside of a script element: no < can end the element, and bytes that are no UTF-8 are replaced.
std::string script_json(const ordered_json& value) {
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");  // < occurs in strings only
  return text;
}

}  // namespace

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

std::string paragraphs(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += "<p>" + html(sentence) + "</p>\n";
  for (const std::string_view part : {" %", " = ", "= "})
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
      text.replace(part == "= " ? at + 1 : at, 1, "&nbsp;");
  return text;
}

std::string cell(const std::string& value, const std::string& text, bool is_number) {
  return std::string("<td") + (is_number ? " class=\"number\"" : "") + " data-value=\"" +
         html(value) + "\">" + html(text) + "</td>";
}

std::string put_together(const WebFiles& files, std::string_view title, std::string_view body,
                         const Parts& parts, const ChartList& charts) {
  if (files.charts.empty())
    throw InputError(
        "this program was built without the charts of a report, because npm was missing or could "
        "not install vega; install nodejs and npm, remove '" DP_WEB_CHARTS
        "', configure and build again");
  const auto part = [&](std::string_view name) -> std::string {
    if (const auto found = parts.find(name); found != parts.end()) return found->second;
    throw std::logic_error("a page has an unknown place: " + std::string(name));
  };
  return fill(files.page, [&](std::string_view name) -> std::string {
    if (name == "title") return html(title);
    if (name == "style") return std::string(files.style);
    if (name == "charts") return std::string(files.charts);
    if (name == "script") return std::string(files.script);
    if (name == "data") return script_json(charts.json());
    if (name == "body") return fill(body, part);
    return part(name);
  });
}

}  // namespace dp::report
