#include "scenarios/sweep/buckets.hpp"

#include <fmt/format.h>

#include "input/problem.hpp"
#include "models/workload.hpp"

namespace foreduce {

std::vector<Bucket> buckets_of(const AllReduceSpec& spec, const Workload& workload,
                               std::size_t element, Bytes cap, Seconds backward) {
  // Each is a collective that the step plays; with millions of them neither time nor memory ends.
  constexpr double kMostBuckets = 100'000;
  const double bytes =
      static_cast<double>(trained_elements(workload.elements(), workload.trainable) * element);
  if (spec.bucketing == Bucketing::smddp && bytes > kMostBuckets * cap.value)
    throw key_error("allreduce.bucket",
                    fmt::format("{} in buckets of {} are more than {:.0f} all-reduces a step",
                                to_text(Bytes{bytes}), to_text(cap), kMostBuckets),
                    "the usual size is 25 MiB");
  std::vector<Tensor> tensors = workload.tensors;
  for (Tensor& t : tensors) t.elements = trained_elements(t.elements, workload.trainable);
  const TrainingConstants& constants = training_constants();
  std::vector<Bucket> buckets =
      spec.bucketing == Bucketing::ddp
          ? ddp_buckets(tensors, element, spec.first_bucket.value_or(constants.first_bucket), cap)
      : spec.bucketing == Bucketing::smddp
          ? balanced_buckets(tensors, element, cap)
          : horovod_buckets(tensors, element, cap, spec.cycle.value_or(constants.fusion_cycle),
                            backward);
  if (spec.overlap == GradientSums::after_backward)
    for (Bucket& bucket : buckets) bucket.ready = 1;
  return buckets;
}

}  // namespace foreduce
