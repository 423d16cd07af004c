#include <cmath>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/data/images/image_data.hpp"

namespace axonn {
namespace {

// With h of n images held out, image i is held out if floor((i + 1) h / n) > floor(i h / n). The
// index of the k-th held-out image and of the j-th other image follow in closed form.
class ImageView : public ImageSource {
 public:
  enum class Subset { training, held_out };

  ImageView(std::shared_ptr<const ImageSource> source, int64_t held_out, Subset subset)
      : source_(std::move(source)), held_out_(held_out), subset_(subset) {}

  int64_t count() const override { return subset_ == Subset::held_out ? held_out_ : source_->count() - held_out_; }
  int64_t size() const override { return source_->size(); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  uint64_t fingerprint() const override {
    return source_->fingerprint() + 0x9e3779b97f4a7c15 * static_cast<uint64_t>(count());
  }
  uint64_t content() const override { return source_->content(); }
  FilesRead files() const override { return source_->files(); }
  std::string description() const override { return detail::concatenate(count(), " of ", source_->description()); }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const int64_t all = source_->count();
    return source_->read(
        subset_ == Subset::held_out ? ((index + 1) * all - 1) / held_out_ : index * all / (all - held_out_), pixels);
  }

 private:
  std::shared_ptr<const ImageSource> source_;
  int64_t held_out_;
  Subset subset_;
};

}  // namespace

ImageSplit hold_out(std::shared_ptr<const ImageSource> source, double fraction) {
  const int64_t all = source->count();
  const auto held_out = std::isfinite(fraction) ? std::llround(fraction * static_cast<double>(all)) : 0;
  AXONN_CHECK(held_out > 0 && held_out < all, "data.hold_out", "holding out ", fraction, " of ", source->description(),
              " leaves one part without an image");
  return {.training = std::make_unique<ImageView>(source, held_out, ImageView::Subset::training),
          .held_out = std::make_unique<ImageView>(source, held_out, ImageView::Subset::held_out)};
}

}  // namespace axonn
