// JSON from outside. A file that includes this one needs nlohmann-json; no public header does.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dp {

/// The one JSON value that `text` must hold. Throws InputError "FILE: WHAT ..." for malformed text,
/// for an object that names a field twice (the parser alone would keep the last one silently), and
/// for values nested more than 64 deep: whoever prints a value recurses once per level.
nlohmann::json parse_json(std::string_view text, const std::string& file, std::string_view what);

/// As text, with bytes that are not UTF-8 replaced: names of files and quoted input may hold such.
template <class Json>
std::string dump_json(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// `object` with one more field, "checksum", of all others: for small files whose damage must not pass for other values.
nlohmann::json with_checksum(nlohmann::json object);
/// Throws InputError if `object` has a checksum that is not its own. Without one there is nothing to compare.
void expect_checksum(nlohmann::json object, const std::string& file);

}  // namespace dp
