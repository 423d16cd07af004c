#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/data/folder/files_read.hpp"

namespace axonn {

// Images of one size, each with a class, by number. Pixels are height x width x 3 channels (red,
// green, blue), row by row, one byte per value. Several threads may call read() concurrently. No
// torch, no communication.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t count() const = 0;
  virtual int64_t size() const = 0;                      // height and width
  virtual std::vector<std::string> classes() const = 0;  // names; empty: there is only one class
  // Reads image `index` into `pixels` (size * size * 3 bytes). Returns its class.
  virtual int64_t read(int64_t index, std::span<uint8_t> pixels) const = 0;
  virtual uint64_t fingerprint() const = 0;  // hash of the data; kept in checkpoints
  // Hash of what was seen of the files' bytes when they were found. The fingerprint of a folder
  // covers only their names and lengths. Not kept in checkpoints.
  virtual uint64_t content() const { return fingerprint(); }
  virtual FilesRead files() const { return {}; }  // in a folder
  virtual std::string description() const = 0;    // "cifar10: 50000 images of 32 x 32 in 10 classes"
};

// The official binary files of CIFAR-10 in `directory`, whose names begin with data_batch or
// test_batch. A record has one byte for the class and 3072 bytes of red, green and blue planes. All
// records are kept in memory. Throws UserError if there is no such file, if a length is not a
// multiple of 3073 (file, length), and for a class beyond 9 (file, record).
std::unique_ptr<ImageSource> load_cifar10(const std::string& directory, bool test);

// Synthetic images that need no file: `count` images of size x size, drawn from (seed, number) with
// soft edges. They show discs, squares, triangles and crosses in changing colours, sizes and places
// on a plain ground. The class is the shape.
std::unique_ptr<ImageSource> make_shapes(int64_t size, int64_t count, uint64_t seed);

// The .png, .jpg and .jpeg files (in any case) below `directory`, sorted by name, by the rule of
// docs/data.md. Logs what is read and left out in one line. Each file is decoded when it is read:
// its shorter side is resized to `size`, and the centre is cropped. Folders directly in `directory`
// that hold images are the classes, sorted by name. Images beside such folders are a UserError.
//
// load_image_folder() checks both ends of each file with check_image_file(). It skips bad files,
// and logs their number and names. It throws UserError if more than 1% of the files are bad, so in
// a folder of fewer than 100 files any bad file is an error. It also throws UserError if there is
// no directory or no image file in it. read() throws UserError with the file's name if a file is
// corrupt.
std::unique_ptr<ImageSource> load_image_folder(const std::string& directory, int64_t size);

// Two parts of one source: round(fraction * count) held-out images, spread evenly over the numbers,
// and the other images. Both keep the order of the source. The same on every rank. Throws UserError
// if a part has no image.
struct ImageSplit {
  std::unique_ptr<ImageSource> training;
  std::unique_ptr<ImageSource> held_out;
};
ImageSplit hold_out(std::shared_ptr<const ImageSource> source, double fraction);

// The image that training sample `number` takes, and whether it is mirrored. Depends only on (seed,
// number), so every grid draws the same images.
struct ImageDraw {
  int64_t index = 0;
  bool mirrored = false;
};
ImageDraw draw_image(uint64_t number, uint64_t seed, int64_t count, bool mirror);

}  // namespace axonn
