#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/quote.h"

namespace dp {

static_assert(std::endian::native == std::endian::little,
              "tensors are used in place, as little-endian data");

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;                // the header length at the start of a file
constexpr uint64_t kLongestHeader = 100'000'000;  // as in the reference implementation
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kChecksum = "xxh64:";

struct DTypeRow {
  DType dtype;
  std::string_view name;
  size_t size;
};
constexpr DTypeRow kDTypes[] = {
    {DType::kBool, "BOOL", 1},      {DType::kU8, "U8", 1},          {DType::kI8, "I8", 1},
    {DType::kF8E4M3, "F8_E4M3", 1}, {DType::kF8E5M2, "F8_E5M2", 1}, {DType::kU16, "U16", 2},
    {DType::kI16, "I16", 2},        {DType::kF16, "F16", 2},        {DType::kBF16, "BF16", 2},
    {DType::kU32, "U32", 4},        {DType::kI32, "I32", 4},        {DType::kF32, "F32", 4},
    {DType::kU64, "U64", 8},        {DType::kI64, "I64", 8},        {DType::kF64, "F64", 8}};

const DTypeRow& dtype_row(DType dtype) {
  return *std::ranges::find(kDTypes, dtype, &DTypeRow::dtype);  // every enumerator has a row
}

[[noreturn]] void fail(const std::string& file, const std::string& problem) {
  throw InputError(file + ": " + problem);
}

[[noreturn]] void fail(const std::string& file, std::string_view tensor,
                       const std::string& problem) {
  fail(file, "tensor " + quote(tensor) + " " + problem);
}

// Elements times size, or nothing when the product does not fit.
std::optional<uint64_t> num_bytes(const std::vector<int64_t>& shape, size_t size) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  uint64_t bytes = size;
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return std::nullopt;
  return bytes;
}

std::vector<uint64_t> unsigned_numbers(const json& field) {
  std::vector<uint64_t> numbers;
  for (const json& number : field) {
    if (!number.is_number_unsigned()) return {};
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

TensorEntry parse_entry(const std::string& file, const std::string& name, const json& fields,
                        std::span<const std::byte> data) {
  if (!fields.is_object())
    fail(file, name, "is described by " + std::string(fields.type_name()) + ", not by an object");
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!fields.contains(field)) fail(file, name, "has no " + quote(field));

  TensorEntry entry;
  entry.name = name;
  const json& dtype = fields["dtype"];
  const auto* row =
      dtype.is_string()
          ? std::ranges::find(kDTypes, dtype.get_ref<const std::string&>(), &DTypeRow::name)
          : std::end(kDTypes);
  if (row == std::end(kDTypes)) fail(file, name, "has the unknown dtype " + quote(dtype.dump()));
  entry.dtype = row->dtype;

  const json& shape = fields["shape"];
  if (!shape.is_array()) fail(file, name, "has a shape that is not a list: " + quote(shape.dump()));
  for (const uint64_t extent : unsigned_numbers(shape))
    entry.shape.push_back(static_cast<int64_t>(extent));
  if (entry.shape.size() != shape.size() ||
      std::ranges::any_of(entry.shape, [](int64_t extent) { return extent < 0; }))
    fail(file, name, "has a shape that is not made of sizes: " + quote(shape.dump()));

  const json& offsets_field = fields["data_offsets"];
  const std::vector<uint64_t> offsets = unsigned_numbers(offsets_field);
  if (!offsets_field.is_array() || offsets.size() != 2 || offsets[0] > offsets[1])
    fail(file, name,
         "has data_offsets " + quote(offsets_field.dump()) +
             "; expected [begin, end] with begin <= end");
  if (offsets[1] > data.size())
    fail(file, name,
         "ends at byte " + std::to_string(offsets[1]) +
             " of the data, of which the file holds only " + std::to_string(data.size()));

  const std::optional<uint64_t> bytes = num_bytes(entry.shape, row->size);
  if (!bytes) fail(file, name, "has the impossible shape " + shape.dump());
  if (*bytes != offsets[1] - offsets[0])
    fail(file, name,
         "of shape " + shape.dump() + " and dtype " + std::string(row->name) + " needs " +
             std::to_string(*bytes) + " bytes, but its data_offsets give it " +
             std::to_string(offsets[1] - offsets[0]));
  entry.data = data.subspan(offsets[0], *bytes);
  return entry;
}

TensorMetadata parse_metadata(const std::string& file, const json& fields) {
  TensorMetadata metadata;
  if (!fields.is_object()) fail(file, "__metadata__ is not an object");
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) fail(file, "__metadata__ field " + quote(key) + " is not a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Sorts entries by position; they must cover the data from end to end, each byte once.
void check_layout(const std::string& file, std::span<const std::byte> data,
                  std::vector<TensorEntry>& entries) {
  const auto entry_begin = [&](const TensorEntry& entry) {
    return static_cast<size_t>(entry.data.data() - data.data());
  };
  std::ranges::stable_sort(entries, {}, [&](const TensorEntry& entry) {
    return std::tuple(entry_begin(entry),
                      entry.data.size());  // empty tensors before the one at the same place
  });
  size_t end = 0;
  for (const TensorEntry& entry : entries) {
    const size_t begin = entry_begin(entry);
    if (begin < end)
      fail(file, entry.name,
           "overlaps the one before it: it begins at byte " + std::to_string(begin) +
               ", the other ends at byte " + std::to_string(end));
    if (begin > end)
      fail(file, entry.name,
           "begins at byte " + std::to_string(begin) + ", which leaves a hole of " +
               std::to_string(begin - end) + " bytes before it");
    end += entry.data.size();
  }
  if (end != data.size())
    fail(file, "the tensors end at byte " + std::to_string(end) +
                   " of the data, but the file goes on to byte " + std::to_string(data.size()));
}

// A byte that no text holds ends each, so that no two sets of metadata run together the same.
uint64_t metadata_hash(const TensorMetadata& metadata) {
  Hasher hasher;
  for (const auto& [key, value] : metadata)
    for (const std::string& text : {key, value})
      hasher.add(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  return hasher.result();
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

size_t dtype_size(DType dtype) { return dtype_row(dtype).size; }
std::string_view dtype_name(DType dtype) { return dtype_row(dtype).name; }

std::vector<TensorEntry> parse_safetensors(std::span<const std::byte> bytes,
                                           const std::string& file, TensorMetadata* metadata) {
  if (bytes.size() < kLengthBytes)
    fail(file, "not a safetensors file: " + std::to_string(bytes.size()) +
                   " bytes, and the header length alone takes 8");
  uint64_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLongestHeader)
    fail(file, "not a safetensors file: it claims a header of " + std::to_string(length) +
                   " bytes, the limit is " + std::to_string(kLongestHeader));
  if (length > bytes.size() - kLengthBytes)
    fail(file, "truncated: the header should take " + std::to_string(length) +
                   " bytes, the file has " + std::to_string(bytes.size() - kLengthBytes) +
                   " after the header length");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!header.starts_with('{'))
    fail(file, "not a safetensors file: the header does not begin with '{'");

  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  const json fields = parse_json(header, file, "the header");
  std::vector<TensorEntry> entries;
  for (const auto& [name, description] : fields.items()) {
    if (name != kMetadata) {
      entries.push_back(parse_entry(file, name, description, data));
    } else {
      TensorMetadata parsed = parse_metadata(file, description);
      if (metadata) *metadata = std::move(parsed);
    }
  }
  check_layout(file, data, entries);
  return entries;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const MappedFile file = map_file(path);
  mapping_ = file.mapping;
  entries_ = parse_safetensors(file.bytes, path.string(), &metadata_);
  for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].name] = i;
  for (auto field = metadata_.lower_bound(std::string(kChecksum));
       field != metadata_.end() && field->first.starts_with(kChecksum);) {
    checksums_[field->first.substr(kChecksum.size())] = field->second;
    field = metadata_.erase(field);
  }
}

size_t SafetensorsFile::verify() const {
  if (checksums_.empty()) return 0;
  for (const TensorEntry& entry : entries_)
    if (!checksums_.contains(entry.name))
      fail(path_.string(), entry.name, "has no checksum, but others have one: the file is damaged");
  if (!checksums_.contains(std::string(kMetadata)))
    fail(path_.string(), "has no checksum of its metadata, but of tensors: the file is damaged");
  for (const auto& [name, expected] : checksums_) {
    const TensorEntry* entry = find(name);
    if (!entry && name != kMetadata)
      fail(path_.string(), "has a checksum of tensor " + quote(name) + ", which is not there: the file is damaged");
    const std::string found = to_hex(entry ? xxh64(entry->data) : metadata_hash(metadata_));
    const std::string what = "has the checksum " + found + ", expected " + quote(expected) + ": the file is damaged";
    if (found != expected && entry) fail(path_.string(), name, what);
    if (found != expected) fail(path_.string(), "the metadata " + what);
  }
  return entries_.size();
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  throw InputError(path_.string() + ": has no tensor " + quote(name));
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                       const TensorMetadata& metadata) {
  std::ranges::sort(entries, {}, [](const TensorEntry& entry) {
    return std::tuple(-static_cast<int>(dtype_size(entry.dtype)), std::string_view(entry.name));
  });
  ordered_json header = ordered_json::object();
  TensorMetadata sealed = metadata;
  sealed[std::string(kChecksum).append(kMetadata)] = to_hex(metadata_hash(metadata));
  for (const TensorEntry& entry : entries)
    sealed[std::string(kChecksum) + entry.name] = to_hex(xxh64(entry.data));
  header[kMetadata] = sealed;
  size_t end = 0;
  for (const TensorEntry& entry : entries) {
    const auto reject = [&](const char* why) {
      throw std::invalid_argument("write_safetensors: tensor " + quote(entry.name) + " " + why);
    };
    if (entry.name == kMetadata || header.contains(entry.name))
      reject("needs another name: this one is taken");
    if (std::ranges::any_of(entry.shape, [](int64_t extent) { return extent < 0; }) ||
        num_bytes(entry.shape, dtype_size(entry.dtype)) != entry.data.size())
      reject("has data that does not fit its shape and dtype");
    const size_t begin = end;
    end += entry.data.size();
    header[entry.name] = {
        {"dtype", dtype_name(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw std::invalid_argument("write_safetensors: " + quote(path.string()) +
                                " would need a name that is not valid UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const TensorEntry& entry : entries) file.write(entry.data);
  file.commit();
}

}  // namespace dp
