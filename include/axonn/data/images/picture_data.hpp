#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// Pictures of one size with a class each, by number. Height, width and three channels (red, green, blue), row by row, one byte a value. May
// be read by several threads at a time. No torch, no communication.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  virtual int64_t count() const = 0;
  virtual int64_t size() const = 0;                      // height and width
  virtual std::vector<std::string> classes() const = 0;  // names; empty: all pictures are of one
  // Picture `index` into `pixels` (size * size * 3 bytes); its class is returned.
  virtual int64_t read(int64_t index, std::span<uint8_t> pixels) const = 0;
  virtual uint64_t fingerprint() const = 0;     // of what is read; kept in checkpoints
  virtual std::string description() const = 0;  // "cifar10: 50000 pictures of 32 x 32 in 10 classes"
};

// The official binary files of CIFAR-10, those of `directory` whose names begin with data_batch or test_batch: records of one byte of class
// and 3072 of red, green and blue planes, all kept in memory. UserError: no such file, a length that is no multiple of 3073 (file, length),
// a class beyond 9 (file, record).
std::unique_ptr<PictureSource> load_cifar10(const std::string& directory, bool test);

// Discs, squares, triangles and crosses in changing colours, sizes and places on a plain ground, drawn from (seed, number) with soft edges:
// `count` pictures of size x size, the class is the shape. For trying out: needs no file.
std::unique_ptr<PictureSource> make_shapes(int64_t size, int64_t count, uint64_t seed);

// The .png, .jpg and .jpeg files (in any case) below `directory`, in the order of their names, each decoded when it is read: shorter side
// resized to `size`, the middle cut out. Other and hidden files are ignored. Folders directly in `directory` that hold pictures are the
// classes, in the order of their names; pictures beside them are a UserError. Opening looks at the two ends of each file
// (check_picture_file). Bad files are skipped, counted and named in the log, unless they are more than 1% of all: a UserError, which in a
// folder of fewer than 100 files any bad one is, as it is soon put right by hand. UserError too: no directory, no such file in it; and from
// read(), a file that turns out to be corrupt (its name).
std::unique_ptr<PictureSource> load_picture_folder(const std::string& directory, int64_t size);

// Two parts of one source: round(fraction * count) pictures that are held out, evenly spread over the numbers, and the others, both in the
// order of the source. The same on every rank. UserError: a part without a picture.
struct PictureSplit {
  std::unique_ptr<PictureSource> training;
  std::unique_ptr<PictureSource> held_out;
};
PictureSplit hold_out(std::shared_ptr<const PictureSource> source, double fraction);

// Which picture training sample `number` is, and whether it is mirrored: from (seed, number) alone, so that every grid draws the same.
struct PictureDraw {
  int64_t index = 0;
  bool mirrored = false;
};
PictureDraw draw_picture(uint64_t number, uint64_t seed, int64_t count, bool mirror);

}  // namespace axonn
