// TextReader on files in memory: the first three bytes choose compression, format and sizes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/text_reader.h"
#include "target.h"

namespace dp::fuzz {
namespace {

constexpr size_t kMostText = 1 << 20;  // of a file: a few bytes may decompress to gigabytes

bool same(const TextPiece& a, const TextPiece& b) {
  return a.text == b.text && a.line == b.line && a.begins_document == b.begins_document &&
         a.ends_document == b.ends_document && a.broken == b.broken && a.after == b.after;
}

void read(const std::vector<TextSource>& sources, const TextReaderOptions& options,
          std::string_view content) {
  TextReader reader(sources, options);
  std::vector<TextPiece> pieces;
  std::string joined;
  bool inside = false, broken = false, whole = true;
  while (auto piece = reader.next()) {
    joined += piece->text;
    broken |= !piece->broken.empty();
    if (piece->broken.empty()) {
      require(piece->begins_document != inside, "a document begins when the one before has ended");
      require(!piece->text.empty() || inside, "no document is empty");
      inside = !piece->ends_document;
    }
    const size_t most = sources[0].jsonl ? options.longest_line + 1 : options.piece_bytes;
    require(piece->text.size() <= most, "pieces are no longer than asked");
    if (sources[0].jsonl && piece->broken.empty()) try {
        json_text_field(piece->text, "text");
      } catch (const InputError&) {
      }
    pieces.push_back(std::move(*piece));
    whole = joined.size() < kMostText;
    if (!whole) break;
  }
  require(!whole || !inside, "the last document ends");
  if (whole && !sources[0].jsonl && !options.separator && sources[0].compression == Compression::kNone)
    require(joined == content && !broken, "plain text comes whole");
  for (size_t i = 0; i < pieces.size(); i += 1 + pieces.size() / 8) {
    TextReader again(sources, options, pieces[i].after);
    for (size_t j = i + 1; j <= std::min(i + 8, pieces.size() - !whole); ++j) {
      const auto piece = again.next();
      require(piece.has_value() == (j < pieces.size()), "reading goes on to the same end");
      if (piece) require(same(*piece, pieces[j]), "reading goes on with the same piece");
    }
  }
}

}  // namespace
}  // namespace dp::fuzz

DP_FUZZ_TARGET(text_file, const uint8_t* data, size_t size) {
  using namespace dp;
  if (size < 3) return 0;
  const std::string_view content(reinterpret_cast<const char*>(data) + 3, size - 3);
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
    return 0;
  constexpr Compression kinds[] = {Compression::kNone, Compression::kGzip, Compression::kZstd};
  TextSource source;
  source.path = "/proc/self/fd/" + std::to_string(file);
  source.compression = kinds[data[0] % 3];
  source.jsonl = data[1] & 1;
  TextReaderOptions options;
  if (data[1] & 2) options.separator = data[1] & 4 ? "--" : "";
  options.piece_bytes = 4u + data[2];
  options.longest_line = 4u + data[2];
  fuzz::read({source}, options, content);
  return 0;
}
