// Tokenizer files and texts for tests.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace dp::test {

/// The byte-level alphabet, written down independently: what GPT-2's files have for a byte.
inline std::string byte_name(int byte) {
  const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  int point = byte;
  if (!itself) {
    point = 256;
    for (int other = 0; other < byte; ++other)
      point += !((other >= 33 && other <= 126) || (other >= 161 && other <= 172) || other >= 174);
  }
  if (point < 128) return {static_cast<char>(point)};
  return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
}

inline std::string byte_names(std::string_view bytes) {
  std::string names;
  for (const char c : bytes) names += byte_name(static_cast<unsigned char>(c));
  return names;
}

/// A tokenizer.json: bytes are tokens 0 .. 255, merge i ("a", "b") makes token 256 + i.
inline nlohmann::json bpe_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  nlohmann::json vocabulary = nlohmann::json::object(), list = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_name(byte)] = byte;
  int next = 256;
  for (const auto& [left, right] : merges) {
    list.push_back(byte_names(left) + " " + byte_names(right));
    vocabulary[byte_names(left + right)] = next++;
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"vocab", vocabulary},
            {"merges", list}}}};
}

inline nlohmann::json added_token(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// Characters of all lengths, also such that nobody uses.
inline std::string random_unicode(std::mt19937& random, size_t characters) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::string text;
  while (characters-- > 0) {
    const uint32_t kind = below(8);
    uint32_t point = kind < 3   ? 'a' + below(4)
                     : kind < 4 ? ' '
                     : kind < 5 ? below(128)
                     : kind < 6 ? 0x80 + below(0x700)
                     : kind < 7 ? 0x800 + below(0xf000)
                                : 0x10000 + below(0x100000);
    if (point >= 0xd800 && point < 0xe000) point = 0x2581;  // SentencePiece's sign for a space
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    } else if (point < 0x10000) {
      text += {static_cast<char>(0xe0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 63)),
               static_cast<char>(0x80 | (point & 63))};
    } else {
      text += {static_cast<char>(0xf0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 63)),
               static_cast<char>(0x80 | (point >> 6 & 63)), static_cast<char>(0x80 | (point & 63))};
    }
  }
  return text;
}

inline std::string random_bytes(std::mt19937& random, size_t count) {
  std::string text;
  while (count-- > 0) text += static_cast<char>(random());
  return text;
}

/// Texts that must survive any tokenizer: `survives(text)`.
inline void for_texts(const std::function<void(const std::string&)>& survives) {
  std::mt19937 random(1);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("   "), std::string("\n\n"),
        std::string("\0a\0", 3), all, all + all,
        std::string("caf\xc3\xa9 \xe2\x96\x81 na\xc3\xafve \xf0\x9f\x98\x80\xf0\x9f\x91\x8d"),
        std::string("\xc3"), std::string("a\xff\xfe b\xe2\x96"),
        std::string("\xed\xa0\x80 surrogate"), std::string("\xc0\xaf overlong \xf4\x90\x80\x80"),
        std::string("<s>text</s><|end|>")})
    survives(text);
  for (int i = 0; i < 200; ++i) {
    survives(random_unicode(random, random() % 40));
    survives(random_bytes(random, random() % 40));
    survives(random_unicode(random, random() % 10) + random_bytes(random, random() % 4) +
             random_unicode(random, random() % 10));
  }
}

}  // namespace dp::test
