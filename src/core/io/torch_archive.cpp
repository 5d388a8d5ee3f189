#include "io/torch_archive.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "io/pickle.h"
#include "io/zip.h"

namespace dp {
namespace {

constexpr std::string_view kPickle = "data.pkl";

// A file of torch before 1.6 is a sequence of pickles, each of which begins with this.
bool is_bare_pickle(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] <= std::byte{5};
}

}  // namespace

std::vector<ArchivedTensor> parse_torch_archive(std::span<const std::byte> bytes,
                                                const std::string& file) {
  const auto fail = [&](const std::string& problem) { throw InputError(file + ": " + problem); };
  if (is_bare_pickle(bytes))
    fail("is in the format of torch before 1.6: load it with torch.load and save it again");
  std::map<std::string_view, std::span<const std::byte>> records;
  for (const ZipRecord& record : parse_zip(bytes, file)) records[record.name] = record.data;

  // Every name begins with the name the archive was saved under: "archive/data.pkl".
  std::string folder;
  for (const auto& [name, data] : records)
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size() - 1)
      folder = name.substr(0, name.size() - kPickle.size());
  if (folder.empty()) fail("not a file of torch.save: the archive has no record data.pkl");
  if (const auto order = records.find(folder + "byteorder");
      order != records.end() &&
      std::string_view(reinterpret_cast<const char*>(order->second.data()), order->second.size()) !=
          "little")
    fail("its tensors are not little-endian");

  std::vector<ArchivedTensor> entries;
  for (PickledTensor& tensor :
       parse_tensor_pickle(records.at(folder + std::string(kPickle)), file)) {
    const std::string which = "tensor " + quote(tensor.name) + " ";
    const auto record = records.find(folder + "data/" + tensor.storage);
    if (record == records.end())
      fail(which + "lies in storage " + quote(tensor.storage) +
           ", which the archive does not have");
    const size_t size = dtype_size(tensor.dtype);
    const auto elements = static_cast<size_t>(tensor.storage_elements);
    if (record->second.size() % size != 0 || record->second.size() / size != elements)
      fail(which + "lies in storage " + quote(tensor.storage) + " of " + std::to_string(elements) +
           " elements of " + std::to_string(size) + " bytes, but its record has " +
           std::to_string(record->second.size()) + " bytes");
    const auto begin = static_cast<size_t>(tensor.begin);
    const auto end = static_cast<size_t>(tensor.end);
    entries.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                       std::move(tensor.strides),
                       record->second.subspan(begin * size, (end - begin) * size)});
  }
  return entries;
}

TorchArchive::TorchArchive(const std::filesystem::path& path) : path_(path) {
  const MappedFile file = map_file(path);
  mapping_ = file.mapping;
  entries_ = parse_torch_archive(file.bytes, path.string());
  for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].name] = i;
}

const ArchivedTensor& TorchArchive::at(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw InputError(path_.string() + ": has no tensor " + quote(name));
  return entries_[found->second];
}

}  // namespace dp
