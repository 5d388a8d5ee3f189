// Ends a text where one of several strings begins.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dp::serve {

/// Text goes in as it is made and comes out as soon as no stop string can begin in it.
class StopText {
 public:
  /// The strings are not empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// What may be shown now. After a stop string has been found: nothing more.
  std::string feed(std::string_view text);
  /// What was held back.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace dp::serve
