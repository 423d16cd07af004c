#include <cmath>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/data/images/picture_data.hpp"

namespace axonn {
namespace {

// With h of n pictures held out, picture i is one of them when floor((i + 1) h / n) > floor(i h / n). The k-th of these and the j-th of the
// others follow from that without a list.
class PictureView : public PictureSource {
 public:
  enum class Part { training, held_out };

  PictureView(std::shared_ptr<const PictureSource> source, int64_t held_out, Part part)
      : source_(std::move(source)), held_out_(held_out), part_(part) {}

  int64_t count() const override { return part_ == Part::held_out ? held_out_ : source_->count() - held_out_; }
  int64_t size() const override { return source_->size(); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  uint64_t fingerprint() const override { return source_->fingerprint() + 0x9e3779b97f4a7c15 * static_cast<uint64_t>(count()); }
  std::string description() const override { return detail::concatenate(count(), " of ", source_->description()); }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const int64_t all = source_->count();
    return source_->read(part_ == Part::held_out ? ((index + 1) * all - 1) / held_out_ : index * all / (all - held_out_), pixels);
  }

 private:
  std::shared_ptr<const PictureSource> source_;
  int64_t held_out_;
  Part part_;
};

}  // namespace

PictureSplit hold_out(std::shared_ptr<const PictureSource> source, double fraction) {
  const int64_t all = source->count();
  const auto held_out = std::isfinite(fraction) ? std::llround(fraction * static_cast<double>(all)) : 0;
  AXONN_CHECK(held_out > 0 && held_out < all, "train.hold_out", "holding out ", fraction, " of ", source->description(),
              " leaves one part without a picture");
  return {.training = std::make_unique<PictureView>(source, held_out, PictureView::Part::training),
          .held_out = std::make_unique<PictureView>(source, held_out, PictureView::Part::held_out)};
}

}  // namespace axonn
