// Models on disk that answer words: those of dp compile, and those trained on a word problem.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "theory/answerer.h"
#include "theory/problem.h"

namespace dp::cli {

/// What the model in a directory solves. Throws InputError if it is of neither kind.
theory::Problem find_problem(const std::filesystem::path& directory);

/// The model, run by core/runtime, or by nn if it is a rival of DeltaProduct.
std::unique_ptr<theory::Answerer> open_answerer(const std::filesystem::path& directory,
                                                int threads);

/// "one of a  b  c", with the first dozen of many: what a symbol of a word may be.
std::string list_symbols(const theory::Problem& problem);

/// Reads words: symbols are separated by spaces, except within parentheses; if all symbols are single characters,
/// spaces may be left out.
class WordParser {
 public:
  /// The problem must outlive the parser.
  explicit WordParser(const theory::Problem& problem);
  /// Throws InputError that begins with `origin` and names the column.
  std::vector<int32_t> parse(const std::string& line, const std::string& origin) const;

 private:
  const theory::Problem& problem_;
  std::map<std::string, int32_t> numbers_;  // of symbols
  bool characters_;                         // is each symbol
};

}  // namespace dp::cli
