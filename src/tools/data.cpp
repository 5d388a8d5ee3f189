// dp data: packages into text, text into tokens, and what there is; one subcommand each.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "text/token_shards.h"
#include "tools/command.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct DataOptions {
  std::string directory;
  bool verify = false;
  uint64_t document = 0;
  JsonOption json;
};

// The directory itself, or its splits.
std::vector<fs::path> datasets_in(const fs::path& directory) {
  std::vector<fs::path> found;
  if (!fs::exists(directory / kManifestFile))
    for (const char* split : {"train", "validation"})
      if (fs::exists(directory / split / kManifestFile)) found.push_back(directory / split);
  if (found.empty()) found.push_back(directory);
  return found;
}

int show_info(const DataOptions& options) {
  options.json.check();
  ordered_json all = ordered_json::array();
  for (const fs::path& path : datasets_in(options.directory)) {
    const TokenDataset data(path);
    if (options.verify) data.verify();
    const TokenManifest& manifest = data.manifest();
    std::printf("%s: %lu tokens in %lu documents, %zu shard%s, made of %.1f MB of text\n",
                path.c_str(), data.num_tokens(), data.num_documents(), manifest.shards.size(),
                manifest.shards.size() == 1 ? "" : "s",
                static_cast<double>(data.text_bytes()) / 1e6);
    std::printf("   tokenizer %s (%s), %ld different tokens, %.2f bytes of text per token%s\n",
                manifest.tokenizer_fingerprint.c_str(), manifest.tokenizer_kind.c_str(),
                manifest.vocab_size,
                static_cast<double>(data.text_bytes()) /
                    static_cast<double>(std::max<uint64_t>(1, data.num_tokens())),
                options.verify ? "; all checksums are right" : "");
    all.push_back({{"directory", path.string()},
                   {"tokens", data.num_tokens()},
                   {"documents", data.num_documents()},
                   {"text_bytes", data.text_bytes()},
                   {"shards", manifest.shards.size()},
                   {"vocab_size", manifest.vocab_size},
                   {"tokenizer", manifest.tokenizer_fingerprint},
                   {"verified", options.verify}});
  }
  options.json.write(all);
  return 0;
}

int show_document(const DataOptions& options) {
  const TokenDataset data(options.directory);
  if (options.document >= data.num_documents())
    throw InputError(quote(options.directory) + " has " + std::to_string(data.num_documents()) +
                     " documents, numbered from 0; got " + std::to_string(options.document));
  const std::unique_ptr<Tokenizer> tokenizer = data.load_tokenizer();
  const TokenRange range = data.document(options.document);
  // A document may be the whole dataset: it is decoded bit by bit.
  TextStream stream(*tokenizer);
  std::vector<int64_t> block(1 << 14);
  for (uint64_t at = range.begin; at < range.end; at += block.size()) {
    block.resize(std::min<uint64_t>(block.size(), range.end - at));
    data.read(at, block);
    for (const int64_t& token : block) {
      const bool end = at + block.size() == range.end && &token == &block.back();
      if (end && data.manifest().eos == static_cast<int32_t>(token)) break;
      const std::string text = stream.feed(static_cast<int32_t>(token));
      std::fwrite(text.data(), 1, text.size(), stdout);
    }
  }
  const std::string text = stream.finish();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

Run add_data_info(CLI::App& app) {
  auto options = std::make_shared<DataOptions>();
  app.add_option("directory", options->directory, "dataset made by dp data prepare")
      ->type_name("DIR")
      ->required();
  app.add_flag("--verify", options->verify, "read everything and compare the checksums");
  options->json.add_to(app);
  return [options] { return show_info(*options); };
}

Run add_data_show(CLI::App& app) {
  auto options = std::make_shared<DataOptions>();
  app.add_option("directory", options->directory, "dataset made by dp data prepare; one of its splits, if it has any")
      ->type_name("DIR")
      ->required();
  app.add_option("--document", options->document, "number of the document, from 0")
      ->type_name("N")
      ->capture_default_str();
  return [options] { return show_document(*options); };
}

}  // namespace

Run add_data(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* fetch = app.add_subcommand("fetch", "extract documents from Debian packages");
  CLI::App* prepare = app.add_subcommand("prepare", "turn text files into shards of tokens");
  CLI::App* info =
      app.add_subcommand("info", "show what a dataset holds; --verify checks every byte");
  CLI::App* show = app.add_subcommand("show", "print a document as text");
  const std::vector<std::pair<CLI::App*, Run>> commands = {{fetch, add_data_fetch(*fetch)},
                                                           {prepare, add_data_prepare(*prepare)},
                                                           {info, add_data_info(*info)},
                                                           {show, add_data_show(*show)}};
  return [commands] {
    for (const auto& [subcommand, run] : commands)
      if (subcommand->parsed()) return run();
    return 0;
  };
}

}  // namespace dp::cli
