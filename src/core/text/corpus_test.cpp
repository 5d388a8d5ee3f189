#include "text/corpus.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_folder.h"

namespace dp {
namespace {

using Strings = std::vector<std::string>;

std::string refusal_message(const TestFolder& folder, const std::string& json) {
  try {
    read_corpus(folder.file("corpus.json", json));
  } catch (const InputError& error) {
    return std::string(error.what()).substr((folder / "corpus.json").string().size());
  }
  return "";
}

// A text of `lines` lines, unlike that of any other seed.
std::string some_lines(int lines, int seed) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += "line " + std::to_string(i) + " of text " + std::to_string(seed) + "\n";
  return text;
}

TEST(Corpus, PatternsStandForPaths) {
  const auto matches = [](const char* pattern, const char* path) {
    return pattern_matches(pattern, path);
  };
  EXPECT_TRUE(matches("usr/doc/a.txt", "usr/doc/a.txt"));
  EXPECT_FALSE(matches("usr/doc/a.txt", "usr/doc/a.txt.gz"));
  EXPECT_FALSE(matches("usr/doc/a.txt.gz", "usr/doc/a.txt"));
  EXPECT_FALSE(matches("a.txt", "a-txt"));  // a dot is a dot
  EXPECT_TRUE(matches("usr/*/a.*", "usr/doc/a.txt"));
  EXPECT_FALSE(matches("usr/*.txt", "usr/doc/a.txt"));
  EXPECT_TRUE(matches("usr/**.txt", "usr/doc/a.txt"));
  EXPECT_TRUE(matches("usr/**.txt", "usr/a.txt"));
  EXPECT_TRUE(matches("**/doc/**", "usr/share/doc/x/y"));
  EXPECT_FALSE(matches("**/doc/**", "usr/share/docs/x/y"));
  EXPECT_TRUE(matches("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches("a*b*c", "a-b-b"));
  EXPECT_TRUE(matches("a*", "a"));
  EXPECT_TRUE(matches("v?m", "vim"));
  EXPECT_FALSE(matches("v?m", "vm"));
  EXPECT_FALSE(matches("v?m", "v/m"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Corpus, FieldsThatAreWrongAreNamed) {
  const TestFolder folder;
  const auto refusal = [&](const std::string& package) {
    return refusal_message(folder,
                      R"({"packages": [{"name": "aa", "include": ["x"]}, )" + package + "]}");
  };
  EXPECT_EQ(refusal(R"({"name": "bb", "include": ["x"]})"), "");
  EXPECT_EQ(refusal(R"({"include": ["x"]})"), ": packages[1].name is missing, expected a text");
  EXPECT_EQ(refusal(R"({"name": "bb"})"), ": packages[1].include is missing, expected a list");
  EXPECT_EQ(refusal(R"({"name": "bb", "include": ["x", 3]})"),
            ": packages[1].include[1] is '3', expected a text");
  EXPECT_EQ(refusal(R"({"name": "bb", "include": []})"),
            ": packages[1].include is empty: nothing would be taken");
  EXPECT_EQ(refusal(R"({"name": "bb", "include": ["/usr"]})"),
            ": packages[1].include[0] is '/usr', expected a pattern such as usr/share/doc/**.txt");
  EXPECT_EQ(refusal(R"({"name": "bb", "includes": ["x"]})"),
            ": packages[1] has a field 'includes' that is not known; did you mean 'include'?");
  EXPECT_EQ(refusal(R"({"name": "aa", "include": ["x"]})"),
            ": packages[1].name is 'aa', which is in the list already");
  for (const char* name : {"--option", "../up", "a", "Big", "a b"})
    EXPECT_NE(refusal(R"({"name": ")" + std::string(name) + R"(", "include": ["x"]})")
                  .find("expected a Debian package's name"),
              std::string::npos)
        << name;
  EXPECT_EQ(refusal(R"({"name": "bb", "include": ["x"], "encoding": "morse"})"),
            ": packages[1].encoding is 'morse', expected an encoding that iconv knows, such as "
            "windows-1252");
  EXPECT_EQ(refusal_message(folder, R"({"packages": []})"),
            ": packages is empty: expected at least one package");
  EXPECT_EQ(refusal_message(folder, R"({})"), ": packages is missing, expected a list");
  EXPECT_EQ(refusal_message(folder, R"({"part_bytes": 12, "packages": []})"),
            ": part_bytes is '12', expected a whole number of at least 4096");
  EXPECT_THROW(read_corpus((folder / "none.json").string()), InputError);
}

TEST(Corpus, TextIsUtf8WithPlainLineEnds) {
  EXPECT_EQ(decode_text("\xef\xbb\xbf"
                          "a\r\nb\rc\r\n",
                          ""),
            "a\nb\rc\n");
  EXPECT_EQ(decode_text("caf\xe9", ""), std::nullopt);
  EXPECT_EQ(decode_text("caf\xe9 \x87", "windows-1252"), "café ‡");
  EXPECT_EQ(decode_text("café", "windows-1252"), "café");        // as it is: already UTF-8
  EXPECT_EQ(decode_text("\x81", "windows-1252"), std::nullopt);  // stands for nothing there
  EXPECT_EQ(decode_text(std::string("a\0b", 3), ""), std::nullopt);
}

TEST(Corpus, LongTextsAreCutBetweenParagraphs) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += some_lines(1 + i % 7, i) + "\n";
  for (const uint64_t part : {uint64_t{4096}, uint64_t{10'000}, text.size() - 1}) {
    const std::vector<std::string_view> parts = split_document(text, part);
    EXPECT_EQ(parts.size(), (text.size() + part - 1) / part);
    std::string joined;
    for (const std::string_view piece : parts) joined += piece;
    EXPECT_EQ(joined, text);
    for (const std::string_view piece : parts) {
      EXPECT_TRUE(piece.ends_with("\n\n"));
      EXPECT_LT(piece.size(), part + 200);  // up to a paragraph more
    }
  }
  EXPECT_EQ(split_document(text, 0).size(), 1);
  EXPECT_EQ(split_document(text, text.size()).size(), 1);
  const std::string lines = some_lines(1000, 1);  // no paragraphs
  for (const std::string_view piece : split_document(lines, 4096))
    EXPECT_TRUE(piece.ends_with("\n") && piece.starts_with("line "));
  EXPECT_EQ(split_document(std::string(20'000, 'x'), 4096).size(), 1);  // nowhere to cut
}

TEST(Corpus, PicksFilesAndNamesPatternsThatFindNone) {
  const TestFolder folder;
  for (const char* name : {"p/doc/b.txt", "p/doc/a.txt", "p/doc/de/a.txt", "p/doc/a.html"})
    folder.file(name, "x");
  std::filesystem::create_symlink("a.txt", folder / "p/doc/link.txt");
  Corpus corpus{"list.json", 0, {{"other", "", "", {"x"}, {}}, {"pack", "", "", {}, {}}}};
  CorpusPackage& package = corpus.packages[1];
  package.include = {"doc/**.txt"};
  EXPECT_EQ(pick_files(corpus, 1, folder / "p"),
            (Strings{"doc/a.txt", "doc/b.txt", "doc/de/a.txt"}));
  package.exclude = {"**/de/*"};
  EXPECT_EQ(pick_files(corpus, 1, folder / "p"), (Strings{"doc/a.txt", "doc/b.txt"}));
  const auto refusal = [&] {
    try {
      pick_files(corpus, 1, folder / "p");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  package.exclude = {"**/de/*", "**/fr/*"};
  EXPECT_EQ(refusal(),
            "list.json: packages[1].exclude[1] '**/fr/*' matches none of the 4 files of the "
            "package 'pack'");
  package.include = {"doc/*.pod"};
  EXPECT_EQ(refusal(),
            "list.json: packages[1].include[0] 'doc/*.pod' matches none of the 4 files of the "
            "package 'pack'");
}

TEST(Corpus, DocumentsAreTakenOnce) {
  const TestFolder folder;
  const std::string first = some_lines(100, 1), second = some_lines(100, 2);
  folder.file("p/1.txt", first);
  folder.file("p/2.txt", "short");
  folder.file("p/3.txt", first);
  folder.file("p/4.txt", second + "\xff");
  folder.file("q/1.txt", second);
  folder.file("q/2.txt", first);
  const Corpus corpus{"list.json", 0, {{"p", "", "", {"*"}, {}}, {"q", "", "", {"*"}, {}}}};
  CorpusDocuments documents(corpus);
  CorpusCounts p, q;
  EXPECT_EQ(documents.document_lines(0, folder / "p", p),
            nlohmann::ordered_json({{"text", first}, {"source", "p/1.txt"}}).dump() + "\n");
  EXPECT_EQ(documents.document_lines(1, folder / "q", q),
            nlohmann::ordered_json({{"text", second}, {"source", "q/1.txt"}}).dump() + "\n");
  EXPECT_EQ((std::vector{p.files, p.documents, p.bytes, p.tiny, p.not_text, p.duplicates}),
            (std::vector<uint64_t>{1, 1, first.size(), 1, 1, 1}));
  EXPECT_EQ((std::vector{q.files, q.documents, q.bytes, q.tiny, q.not_text, q.duplicates}),
            (std::vector<uint64_t>{1, 1, second.size(), 0, 0, 1}));
}

}  // namespace
}  // namespace dp
