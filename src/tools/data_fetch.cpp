// dp data fetch: a corpus from Debian packages.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/quote.h"
#include "text/corpus.h"
#include "tools/command.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFetchExplanation =
    "CORPUS.json names packages and, by patterns, which of their files are documents:\n"
    "  {\"part_bytes\": 200000, \"packages\": [{\"name\": \"git-doc\", \"kind\": \"manuals\",\n"
    "    \"include\": [\"usr/share/doc/git-doc/**.txt\"], \"exclude\": [\"**/howto/*\"]}]}\n"
    "* stands for anything but '/', ** for anything. kind labels the sizes; encoding (such as "
    "windows-1252) is for files\n"
    "that are not UTF-8. Documents of more than part_bytes are cut into equal parts at empty lines. "
    "Nothing is installed:\n"
    "apt-get download puts packages into DIR/packages, where existing ones are used as "
    "they are, and the text goes to\n"
    "DIR/text/PACKAGE.jsonl. Left out: links, binary files, files of less than 1 KB, and "
    "duplicates.\n"
    "  ./dp data fetch experiments/language/corpus.json --out corpus\n"
    "  ./dp tokenizer train corpus/text --vocab-size 4096 --out corpus/tokenizer.model\n"
    "  ./dp data prepare corpus/text --tokenizer corpus/tokenizer.model --validation 0.03 --out "
    "data";

struct FetchCommand {
  std::string corpus, out;
  JsonOption json;
};

struct FetchedPackage {
  std::string archive;  // the .deb file's name: it has the version in it
  CorpusCounts counts;
};

struct ProgramEnd {
  bool good = false;
  std::string complaint;  // the last line that says what is wrong
};

std::string last_complaint(const std::string& output) {
  std::istringstream lines(output);
  std::string last, error;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
    if (line.starts_with("E: ")) error = line.substr(3);  // apt-get warns after it has failed
  }
  return error.empty() ? last : error;
}

// Waits for a program, found by PATH, in a working directory of its own.
ProgramEnd run_program(const std::vector<std::string>& command, const fs::path& directory) {
  ChildOutput output;
  try {
    output = run_child({.command = command, .directory = directory}, /*errors_too=*/true);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
    throw InputError("there is no program " + quote(command[0]) +
                     " here: dp data fetch needs Debian or a system derived from it");
  }
  if (output.exit_code == 0) return {.good = true, .complaint = {}};
  const std::string complaint = last_complaint(output.text);
  return {.good = false, .complaint = complaint.empty() ? command[0] + " failed without a message" : complaint};
}

// The package's archives in a directory: NAME_VERSION_ARCHITECTURE.deb.
std::vector<fs::path> archives_in(const fs::path& directory, const std::string& package) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().extension() == ".deb" &&
        entry.path().filename().native().starts_with(package + "_"))
      found.push_back(entry.path());
  return found;
}

// Downloads it unless it is there. An interrupted download never gets the name of a whole one.
fs::path find_or_download(const Corpus& corpus, size_t index, const fs::path& packages) {
  const std::string& name = corpus.packages[index].name;
  std::vector<fs::path> found = archives_in(packages, name);
  if (found.empty()) {
    const fs::path unfinished = packages / "unfinished";
    fs::create_directories(unfinished);
    const ProgramEnd end = run_program({"apt-get", "download", name}, unfinished);
    if (!end.good)
      throw InputError(corpus.file + ": packages[" + std::to_string(index) +
                       "].name: cannot download " + quote(name) + ": " + end.complaint);
    for (const fs::path& path : archives_in(unfinished, name))
      fs::rename(path, packages / path.filename());
    fs::remove_all(unfinished);
    found = archives_in(packages, name);
    if (found.empty())
      throw InputError("apt-get download " + name + " succeeded, but left no " + name + "_*.deb");
  }
  if (found.size() > 1)
    throw InputError(quote(packages.string()) + " has " + std::to_string(found.size()) +
                     " versions of the package " + quote(name) + "; remove all but one");
  return found[0];
}

// A directory for the time of its life.
class Unpacked {
 public:
  Unpacked(const fs::path& archive, fs::path directory) : directory_(std::move(directory)) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    const ProgramEnd end =
        run_program({"dpkg-deb", "-x", fs::absolute(archive).string(), "."}, directory_);
    if (!end.good) {
      fs::remove_all(directory_);
      throw InputError("cannot unpack " + quote(archive.string()) + ": " + end.complaint +
                       "; remove it to have it downloaded again");
    }
  }
  ~Unpacked() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

 private:
  fs::path directory_;
};

// Text of packages that have left the list would silently stay part of the corpus.
void refuse_leftovers(const Corpus& corpus, const fs::path& text) {
  for (const auto& entry : fs::directory_iterator(text)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".jsonl" &&
        std::ranges::find(corpus.packages, path.stem().string(), &CorpusPackage::name) !=
            corpus.packages.end())
      continue;
    throw InputError(quote(path.string()) + " is of no package in " + corpus.file +
                     "; remove it or choose another --out");
  }
}

ordered_json fetch_json(const Corpus& corpus, const std::vector<FetchedPackage>& fetched) {
  auto packages = ordered_json::array();
  for (size_t i = 0; i < fetched.size(); ++i) {
    const CorpusCounts& counts = fetched[i].counts;
    packages.push_back({{"name", corpus.packages[i].name},
                        {"kind", corpus.packages[i].kind},
                        {"archive", fetched[i].archive},
                        {"files", counts.files},
                        {"documents", counts.documents},
                        {"bytes", counts.bytes},
                        {"tiny", counts.tiny},
                        {"not_text", counts.not_text},
                        {"duplicates", counts.duplicates}});
  }
  return {{"packages", packages}};
}

double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void print_fetched(const Corpus& corpus, const std::vector<FetchedPackage>& fetched) {
  size_t width = 7;
  for (const CorpusPackage& package : corpus.packages) width = std::max(width, package.name.size());
  const int columns = static_cast<int>(width);
  std::printf("%-*s  %6s  %9s  %8s   left out: tiny, no text, seen before\n", columns, "package",
              "files", "documents", "MB");
  CorpusCounts all;
  std::map<std::string, uint64_t> kinds;
  for (size_t i = 0; i < fetched.size(); ++i) {
    const CorpusCounts& counts = fetched[i].counts;
    std::printf("%-*s  %6lu  %9lu  %8.2f   %lu, %lu, %lu\n", columns,
                corpus.packages[i].name.c_str(), counts.files, counts.documents,
                megabytes(counts.bytes), counts.tiny, counts.not_text, counts.duplicates);
    all.files += counts.files;
    all.documents += counts.documents;
    all.bytes += counts.bytes;
    kinds[corpus.packages[i].kind] += counts.bytes;
  }
  std::printf("%-*s  %6lu  %9lu  %8.2f\n", columns, "total", all.files, all.documents,
              megabytes(all.bytes));
  if (kinds.size() < 2) return;
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    char share[64];
    std::snprintf(share, sizeof share, " %.2f MB (%.0f %%)", megabytes(bytes),
                  100 * megabytes(bytes) / megabytes(all.bytes));
    text += (text.empty() ? "" : ", ") + (kind.empty() ? "of no kind" : kind) + share;
  }
  std::printf("%s\n", text.c_str());
}

int fetch(const FetchCommand& command) {
  command.json.check();
  const Corpus corpus = read_corpus(command.corpus);
  const fs::path out = command.out, text = out / "text", packages = out / "packages";
  std::error_code error;
  for (const fs::path& directory : {text, packages}) {
    fs::create_directories(directory, error);
    if (error)
      throw InputError("cannot make the directory " + quote(directory.string()) + ": " +
                       error.message());
  }
  refuse_leftovers(corpus, text);
  CorpusDocuments documents(corpus);
  std::vector<FetchedPackage> fetched;
  {
    Progress progress("fetching", static_cast<int64_t>(corpus.packages.size()));
    for (size_t i = 0; i < corpus.packages.size(); ++i) {
      const std::string& name = corpus.packages[i].name;
      progress.update(static_cast<int64_t>(i), name);
      const fs::path archive = find_or_download(corpus, i, packages);
      const fs::path root = out / "unpacked";
      const Unpacked unpacked(archive, root);
      FetchedPackage& package = fetched.emplace_back();
      package.archive = archive.filename().string();
      const std::string lines = documents.document_lines(i, root, package.counts);
      if (lines.empty())
        throw InputError("the package " + quote(name) + " of " + corpus.file +
                         " gives no document: all files that its patterns match are tiny, no text, "
                         "excluded or duplicates");
      write_file_atomically(text / (name + ".jsonl"), lines);
    }
    progress.update(static_cast<int64_t>(corpus.packages.size()), "");
  }
  print_fetched(corpus, fetched);
  std::printf("wrote %s\n", text.c_str());
  command.json.write(fetch_json(corpus, fetched));
  return 0;
}

}  // namespace

Run add_data_fetch(CLI::App& app) {
  auto command = std::make_shared<FetchCommand>();
  app.footer(kFetchExplanation);
  app.add_option("corpus", command->corpus,
                 "which packages, and which of their files are documents")
      ->type_name("CORPUS.json")
      ->required();
  app.add_option("--out", command->out, "where packages and text go")->type_name("DIR")->required();
  command->json.add_to(app);
  return [command] { return fetch(*command); };
}

}  // namespace dp::cli
