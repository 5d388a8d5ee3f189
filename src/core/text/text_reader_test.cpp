#include "text/text_reader.h"
#include <algorithm>

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"

namespace dp {
namespace {

using Strings = std::vector<std::string>;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

// All pieces; many positions are tried as a place to go on from.
std::vector<TextPiece> read_all(const std::vector<TextSource>& sources,
                                const TextReaderOptions& options) {
  TextReader reader(sources, options);
  std::vector<TextPiece> pieces;
  while (auto piece = reader.next()) pieces.push_back(std::move(*piece));
  for (size_t i = 0; i < pieces.size(); i += 1 + pieces.size() / 50) {
    TextReader again(sources, options, pieces[i].after);
    for (size_t j = i + 1; j <= std::min(i + 50, pieces.size()); ++j) {
      const auto piece = again.next();
      EXPECT_EQ(piece.has_value(), j < pieces.size());
      if (!piece || j >= pieces.size()) break;
      EXPECT_EQ(piece->text, pieces[j].text);
      EXPECT_EQ(piece->broken, pieces[j].broken);
      EXPECT_EQ(piece->line, pieces[j].line);
      EXPECT_EQ(piece->begins_document, pieces[j].begins_document);
      EXPECT_EQ(piece->ends_document, pieces[j].ends_document);
      EXPECT_EQ(piece->after, pieces[j].after);
    }
  }
  return pieces;
}

// Documents as "text", pieces of one joined by "|"; what is broken as "!LINE WHAT".
Strings documents(const std::string& path, const TextReaderOptions& options) {
  Strings found;
  bool inside = false;
  for (const TextPiece& piece : read_all(find_text({path}).files, options)) {
    if (!piece.broken.empty()) {
      found.push_back("!" + std::to_string(piece.line) + " " + piece.broken);
      continue;
    }
    EXPECT_EQ(piece.begins_document, !inside);
    if (inside)
      found.back() += "|" + piece.text;
    else
      found.push_back(piece.text);
    inside = !piece.ends_document;
  }
  EXPECT_FALSE(inside);
  return found;
}

TEST(TextReader, AFileIsADocument) {
  const TestFolder folder;
  EXPECT_EQ(documents(folder.file("a.txt", "one\ntwo"), {}), (Strings{"one\ntwo"}));
  EXPECT_EQ(documents(folder.file("b", "\n"), {}), (Strings{"\n"}));
  EXPECT_EQ(documents(folder.file("empty.txt", ""), {}), Strings{});
}

TEST(TextReader, LongTextComesInPieces) {
  const TestFolder folder;
  const TextReaderOptions options{.separator = {}, .piece_bytes = 10};
  const auto pieces = [&](const std::string& text) {
    return documents(folder.file("a.txt", text), options);
  };
  EXPECT_EQ(pieces("0123456789"), (Strings{"0123456789"}));
  EXPECT_EQ(pieces("0123456789a"), (Strings{"0123456789|a"}));
  EXPECT_EQ(pieces("one\ntwo\n\nthree four"), (Strings{"one\ntwo\n\n|three four"}))
      << "behind a newline";
  EXPECT_EQ(pieces("one\ntwo\n  three four"), (Strings{"one\n|two\n|  three| four"}))
      << "where no space follows, if possible";
  EXPECT_EQ(pieces("one two three"), (Strings{"one two| three"})) << "or before a space";
  EXPECT_EQ(pieces("ééééééé"), (Strings{"ééééé|éé"}));
  EXPECT_EQ(pieces("aééééééé"), (Strings{"aéééé|ééé"})) << "between characters";
  EXPECT_EQ(pieces(std::string(12, '\x80')), (Strings{std::string(10, '\x80') + "|\x80\x80"}));
}

TEST(TextReader, SeparatorsSplitDocuments) {
  const TestFolder folder;
  const auto split = [&](const std::string& text, const std::string& separator,
                         size_t piece = 1 << 20) {
    return documents(folder.file("a.txt", text), {.separator = separator, .piece_bytes = piece});
  };
  EXPECT_EQ(split("a\nb\n\nc\n", ""), (Strings{"a\nb\n", "c\n"}));
  EXPECT_EQ(split("\n\na\r\n \t\r\n\n\nb", ""), (Strings{"a\r\n", "b"}));
  EXPECT_EQ(split("a\n---\nb ---\n---\r\n---", "---"), (Strings{"a\n", "b ---\n"}));
  EXPECT_EQ(split("---\n", "---"), Strings{});
  EXPECT_EQ(split("0123456789 0123---\n---\nb", "---", 10),
            (Strings{"0123456789| 0123---\n", "b"}));
  EXPECT_EQ(split("0123456789---\nb", "---", 10), (Strings{"0123456789|---\nb"}))
      << "the end of a line";
  EXPECT_EQ(split("012345678\n---\nb", "---", 10), (Strings{"012345678\n", "b"}));
  EXPECT_EQ(split("0123456789\n---\nb", "---", 10), (Strings{"0123456789|\n", "b"}));
}

// Whatever the blocks in which files are read, documents are those of the whole text.
TEST(TextReader, ManyDocumentsInManyBlocks) {
  const TestFolder folder;
  std::string text, lines;
  Strings want;
  for (int i = 0; i < 3000; ++i) {
    want.push_back(std::string(static_cast<size_t>(i * 37 % 301), 'x') + std::to_string(i) + "\n");
    text += want.back() + "--\n";
    lines += "{\"text\": \"" + want.back().substr(0, want.back().size() - 1) + "\"}\n";
  }
  const auto all = [&](const std::string& path, const TextReaderOptions& options) {
    const auto sources = find_text({path}).files;
    TextReader reader(sources, options);
    Strings found;
    bool inside = false;
    while (const auto piece = reader.next()) {
      std::string part = piece->text;
      if (piece->source->jsonl) part = json_text_field(part, "text") + "\n";
      inside ? found.back() += part : found.emplace_back(part);
      inside = !piece->ends_document;
    }
    return found;
  };
  for (const size_t piece : {64, 1000, 1 << 20}) {
    const TextReaderOptions options{.separator = "--", .piece_bytes = piece};
    EXPECT_EQ(all(folder.file("a.txt", text), options), want);
    EXPECT_EQ(all(folder.file("a.txt.gz", gzip(text)), options), want);
    EXPECT_EQ(all(folder.file("a.txt.zst", zstd(text)), options), want);
  }
  EXPECT_EQ(all(folder.file("a.jsonl", lines), {}), want);
  EXPECT_EQ(all(folder.file("a.jsonl.zst", zstd(lines)), {}), want);
}

TEST(TextReader, LinesOfJson) {
  const TestFolder folder;
  EXPECT_EQ(documents(folder.file("a.jsonl", "{1}\n\n \r\n{2}\n{3}"), {}),
            (Strings{"{1}\n", "{2}\n", "{3}"}));
  EXPECT_EQ(documents(folder.file("b.ndjson", "12345\n123456\n12\n1234567"), {.longest_line = 5}),
            (Strings{"12345\n", "!2 has more than 5 bytes", "12\n", "!4 has more than 5 bytes"}));
  const std::string large(1'000'000, 'x');
  EXPECT_EQ(documents(folder.file("c.jsonl", large + "\n1\n" + large), {.longest_line = 999'999}),
            (Strings{"!1 has more than 999999 bytes", "1\n", "!3 has more than 999999 bytes"}));
  EXPECT_EQ(documents(folder.file("d.jsonl", large + "\n1\n" + large), {.longest_line = 1'000'000}),
            (Strings{large + "\n", "1\n", large}));
}

TEST(TextReader, DamagedFilesKeepWhatCameBefore) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919 % 10'007) + "\n";
  for (const bool use_gzip : {true, false}) {
    const std::string whole = use_gzip ? gzip(text) : zstd(text),
                      ending = use_gzip ? ".gz" : ".zst";
    SCOPED_TRACE(ending);
    const Strings twice = documents(folder.file("twice.txt" + ending, whole + whole), {});
    EXPECT_EQ(twice, (Strings{text + text})) << "files put one behind the other are one";
    const Strings cut =
        documents(folder.file("cut.txt" + ending, whole.substr(0, whole.size() / 2)), {});
    ASSERT_EQ(cut.size(), use_gzip ? 2u : cut.size());
    EXPECT_NE(cut.back().find(" is damaged: it ends in the midst"), cut.back().npos) << cut.back();
    EXPECT_TRUE(cut.size() == 1 || text.starts_with(cut.front()));

    Strings lines =
        documents(folder.file("cut.jsonl" + ending, whole.substr(0, whole.size() / 2)), {});
    EXPECT_EQ(lines.back(), "!" + std::to_string(lines.size()) +
                                " is damaged: it ends in the midst of its compressed data");
    lines.pop_back();
    std::string joined;
    for (const std::string& line : lines) joined += line;
    EXPECT_TRUE(text.starts_with(joined)) << "no half line";

    std::string changed = whole;
    for (size_t i = whole.size() / 2; i < whole.size() / 2 + 20; ++i) changed[i] ^= 0x55;
    EXPECT_NE(
        documents(folder.file("changed.txt" + ending, changed), {}).back().find(" is damaged: "),
        text.npos);
    EXPECT_NE(documents(folder.file("foreign.txt" + ending, "no such thing"), {})
                  .back()
                  .find(" is damaged: "),
              text.npos);
    EXPECT_EQ(documents(folder.file("empty.txt" + ending, ""), {}).size(), 1u);
  }
}

// Ten thousand to one: in blocks, like anything else.
TEST(TextReader, ABombIsALongStream) {
  const TestFolder folder;
  const std::string million(1 << 20, '\n'), one = zstd(million);
  std::string bomb;
  for (int i = 0; i < 200; ++i) bomb += one;
  const auto sources = find_text({folder.file("bomb.txt.zst", bomb)}).files;
  TextReader reader(sources, {});
  size_t bytes = 0, largest = 0;
  while (const auto piece = reader.next()) {
    bytes += piece->text.size();
    largest = std::max(largest, piece->text.size());
  }
  EXPECT_EQ(bytes, 200u << 20);
  EXPECT_LE(largest, 1u << 20);
}

TEST(TextReader, TextOfJson) {
  EXPECT_EQ(json_text_field(R"({"id": 1, "text": "a\nb\u00e9", "meta": {"text": 5}})", "text"),
            "a\nbé");
  EXPECT_EQ(json_text_field(R"({"meta": [{"text": "no"}], "content": ""})", "content"), "");
  const auto refused = [](const std::string& line) -> std::string {
    return input_error([&] { json_text_field(line, "text"); });
  };
  EXPECT_EQ(refused(R"({"id": 1, "content": "x"})"), "has no field 'text', only 'id', 'content'");
  EXPECT_EQ(refused("{}"), "has no field 'text'");
  EXPECT_EQ(refused(R"({"meta": {"text": "x"}})"), "has no field 'text', only 'meta'");
  EXPECT_EQ(refused(R"({"text": 5})"), "has a number as 'text', expected a string");
  EXPECT_EQ(refused(R"({"text": null})"), "has null as 'text', expected a string");
  EXPECT_EQ(refused(R"({"text": ["x"]})"), "has an array as 'text', expected a string");
  EXPECT_EQ(refused(R"({"text": "x", "text": "y"})"), "names 'text' twice");
  EXPECT_EQ(refused(R"(["text"])"), "is an array, expected an object");
  EXPECT_EQ(refused(R"("text")"), "is a string, expected an object");
  EXPECT_TRUE(refused(R"({"text": "x)").starts_with("is not valid JSON: "));
  EXPECT_TRUE(refused("{\"text\": \"\xff\"}").starts_with("is not valid JSON: "));
  EXPECT_TRUE(refused(R"({"text": "x"} x)").starts_with("is not valid JSON: "));
  EXPECT_TRUE(refused("{\"text\": \"x\", \"y\": " + std::string(100'000, '['))
                  .starts_with("is not valid JSON: "));
}

TEST(TextReader, FindsFilesInOrder) {
  const TestFolder folder;
  for (const char* name : {"d/b.txt", "d/a.jsonl.gz", "d/a/z.md", "d/.hidden.txt", "d/.git/x.txt",
                           "d/c.png", "d/x.gz", "d/b.ndjson.zst", "e.bin"})
    folder.file(name, "x");
  const TextSources found = find_text({folder / "e.bin", folder / "d"});
  Strings names;
  for (const TextSource& source : found.files)
    names.push_back(source.path.lexically_relative(folder / "").string() +
                    (source.jsonl ? " jsonl" : ""));
  EXPECT_EQ(names, (Strings{"e.bin", "d/a.jsonl.gz jsonl", "d/a/z.md", "d/b.ndjson.zst jsonl",
                            "d/b.txt"}));
  EXPECT_EQ(found.ignored, 3u);
  EXPECT_THROW(find_text({folder / "missing"}), InputError);
  EXPECT_THROW(find_text({folder / "d/a", folder / "d/a/z.md"}), InputError);
  EXPECT_THROW(find_text({"/dev/null"}), InputError);
  std::filesystem::create_directory(folder / "none");
  EXPECT_THROW(find_text({folder / "none"}), InputError);
}

}  // namespace
}  // namespace dp
