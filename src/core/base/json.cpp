#include "base/json.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/quote.h"

namespace dp {
namespace {

using nlohmann::json;

/// Builds the value from the parser's events, in time linear in the text. json::parse with a callback is not an
/// alternative: after every object it looks through all its elder siblings.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::string name) : name_(std::move(name)) {}

  json take() { return std::move(root_); }
  InputError error(const std::string& problem) const { return InputError(name_ + " " + problem); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    json& object = *open_.back();
    if (object.contains(name)) throw error("names " + quote(name) + " twice");
    member_ = &object[std::move(name)];
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& problem) override {
    // "[json.exception.parse_error.101] parse error at ... last read: 'THE WHOLE TOKEN'"
    constexpr size_t kLongest = 200;
    std::string_view reason = problem.what();
    reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
    throw error("is not valid JSON: " + std::string(reason.substr(0, kLongest)) +
                (reason.size() > kLongest ? "..." : ""));
  }

 private:
  static constexpr size_t kDeepest = 64;

  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return *member_ = std::move(value);
  }
  bool put(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() >= kDeepest)
      throw error("nests values more than " + std::to_string(kDeepest) + " deep");
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string name_;
  json root_;
  std::vector<json*> open_;  // an element does not move while it is open: its elders are complete
  json* member_ = nullptr;   // of the innermost object, whose value comes next
};

}  // namespace

json parse_json(std::string_view text, const std::string& file, std::string_view what) {
  Builder builder(file + ": " + std::string(what));
  json::sax_parse(text, &builder);
  return builder.take();
}

json with_checksum(json object) {
  object["checksum"] = to_hex(xxh64(dump_json(object)));
  return object;
}

void expect_checksum(json object, const std::string& file) {
  if (!object.is_object() || !object.contains("checksum")) return;
  const json expected = object["checksum"];
  object.erase("checksum");
  if (const json found = to_hex(xxh64(dump_json(object))); found != expected)
    throw InputError(file + ": its fields have the checksum " + found.dump() + ", expected " + expected.dump() +
                     ": the file was changed or damaged");
}

}  // namespace dp
