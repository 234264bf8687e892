#include "models/fit.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <stdexcept>

#include "models/statistics.hpp"

namespace foreduce {
namespace {

/// Lawson and Hanson's active-set method for min |a·x − b| with x ≥ 0.
Eigen::VectorXd non_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Eigen::Index n = a.cols();
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<Eigen::Index> passive;
  const auto solve = [&] {
    Eigen::MatrixXd part(a.rows(), static_cast<Eigen::Index>(passive.size()));
    for (std::size_t i = 0; i < passive.size(); ++i)
      part.col(static_cast<Eigen::Index>(i)) = a.col(passive[i]);
    return Eigen::VectorXd(part.colPivHouseholderQr().solve(b));
  };
  for (int round = 0; round < 10 * n; ++round) {
    const Eigen::VectorXd gradient = a.transpose() * (b - a * x);
    Eigen::Index best = -1;
    for (Eigen::Index j = 0; j < n; ++j)
      if (std::find(passive.begin(), passive.end(), j) == passive.end() && gradient[j] > 1e-12 &&
          (best < 0 || gradient[j] > gradient[best]))
        best = j;
    if (best < 0) break;
    passive.push_back(best);
    while (true) {
      const Eigen::VectorXd s = solve();
      if (s.minCoeff() > 0) {
        x.setZero();
        for (std::size_t i = 0; i < passive.size(); ++i)
          x[passive[i]] = s[static_cast<Eigen::Index>(i)];
        break;
      }
      double step = 1;
      for (std::size_t i = 0; i < passive.size(); ++i)
        if (const double si = s[static_cast<Eigen::Index>(i)]; si <= 0)
          step = std::min(step, x[passive[i]] / (x[passive[i]] - si + 1e-300));
      for (std::size_t i = 0; i < passive.size(); ++i)
        x[passive[i]] += step * (s[static_cast<Eigen::Index>(i)] - x[passive[i]]);
      std::erase_if(passive, [&](Eigen::Index j) { return x[j] <= 1e-300; });
      if (passive.empty()) break;
    }
  }
  return x;
}

/// Rows divided by b, columns scaled to 1: bytes and messages differ by many powers of ten.
Eigen::VectorXd huber(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  Eigen::MatrixXd scaled = b.cwiseInverse().asDiagonal() * a;
  const Eigen::VectorXd width = scaled.colwise().norm().transpose().cwiseMax(1e-300);
  scaled = scaled * width.cwiseInverse().asDiagonal();
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(b.size());
  Eigen::VectorXd weight = ones, x;
  for (int round = 0; round < 20; ++round) {
    const Eigen::VectorXd root = weight.cwiseSqrt();
    x = non_negative(root.asDiagonal() * scaled, root);
    const Eigen::VectorXd error = (scaled * x - ones).cwiseAbs();
    std::vector<double> sorted(error.begin(), error.end());
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<long>(sorted.size() / 2),
                     sorted.end());
    const double bound = std::max(1.345 * 1.4826 * sorted[sorted.size() / 2],
                                  1e-9);  // 95 % efficient for normal errors (Huber 1964)
    for (Eigen::Index i = 0; i < error.size(); ++i)
      weight[i] = error[i] <= bound ? 1 : bound / error[i];
  }
  return width.cwiseInverse().asDiagonal() * x;
}

}  // namespace

LinearFit fit_robust(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  if (a.cols() < 1 || a.rows() < a.cols() || a.rows() != b.size() || b.minCoeff() <= 0)
    throw std::invalid_argument("a fit needs positive measurements, at least as many as unknowns");
  LinearFit fit;
  fit.x = huber(a, b);
  for (Eigen::Index i = 0; i < b.size(); ++i)
    fit.errors.push_back((a.row(i) * fit.x)(0) / b[i] - 1);
  constexpr int kResamples = 200;
  std::mt19937 random(1);  // the same points give the same interval
  std::vector<std::vector<double>> values(static_cast<std::size_t>(a.cols()));
  std::uniform_int_distribution<Eigen::Index> pick(0, a.rows() - 1);
  for (int r = 0; r < kResamples; ++r) {
    Eigen::MatrixXd a2(a.rows(), a.cols());
    Eigen::VectorXd b2(b.size());
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
      const Eigen::Index from = pick(random);
      a2.row(i) = a.row(from);
      b2[i] = b[from];
    }
    const Eigen::VectorXd x = huber(a2, b2);
    for (Eigen::Index j = 0; j < x.size(); ++j) values[static_cast<std::size_t>(j)].push_back(x[j]);
  }
  fit.low.resize(a.cols());
  fit.high.resize(a.cols());
  for (std::size_t j = 0; j < values.size(); ++j) {
    std::sort(values[j].begin(), values[j].end());
    fit.low[static_cast<Eigen::Index>(j)] = values[j][kResamples / 20];
    fit.high[static_cast<Eigen::Index>(j)] = values[j][kResamples - 1 - kResamples / 20];
  }
  return fit;
}

namespace {

std::string residual_words(const LinearFit& fit) {
  std::vector<double> magnitudes;
  for (const double e : fit.errors) magnitudes.push_back(std::abs(e));
  return fmt::format("median residual {:.1f} %, worst {:.1f} %", 100 * median(magnitudes),
                     100 * *std::max_element(magnitudes.begin(), magnitudes.end()));
}

/// Fits a profile, experiment by experiment, and then holds all points against it.
class Calibrator {
 public:
  Calibrator(const std::vector<CalibrationPoint>& points, std::string source)
      : points_(points), source_(std::move(source)) {
    std::set<double> sizes;
    for (const CalibrationPoint& p : points) sizes.insert(p.bytes);
    bool take = true;
    for (const double size : sizes) {
      if (take) fitted_sizes_.insert(size);
      take = !take;
    }
    result_.profile.name = "calibrated";
    result_.profile.library = "foreduce";
    result_.profile.note =
        "Fitted by foreduce calibrate from point-to-point messages and reductions; no all-reduce "
        "was measured for it.";
  }

  Calibration fit(BytesPerSecond nic, BytesPerSecond memory) {
    const bool network = std::any_of(points_.begin(), points_.end(), [](const auto& p) {
      return p.path == ExperimentPath::network;
    });
    const bool in_memory = std::any_of(points_.begin(), points_.end(), [](const auto& p) {
      return p.path == ExperimentPath::memory && p.experiment == Experiment::exchange;
    });
    if (network) fit_links(ExperimentPath::network, PathClass::network, nic);
    if (in_memory) {
      fit_links(ExperimentPath::memory, PathClass::pcie, memory);
      result_.profile.of(PathClass::host_memory) = result_.profile.of(PathClass::pcie);
    }
    if (!network && !in_memory)
      throw input_error("there is nothing to fit: no exchange was measured");
    fit_reductions();
    find_errors();
    return std::move(result_);
  }

 private:
  using Model = std::function<double(const CalibrationPoint&)>;

  /// The points of an experiment that a fit may use.
  std::vector<CalibrationPoint> fitted(Experiment experiment, ExperimentPath path) const {
    std::vector<CalibrationPoint> some;
    for (const CalibrationPoint& p : points_)
      if (p.experiment == experiment && p.path == path && fitted_sizes_.contains(p.bytes))
        some.push_back(p);
    return some;
  }
  LinearFit line(Experiment experiment, ExperimentPath path) const;
  double overhead_of(ExperimentPath path, const LinearFit& wire, LinkClass& links);
  void fit_links(ExperimentPath path, PathClass kind, BytesPerSecond sheet);
  void fit_reductions();
  void find_errors();

  const std::vector<CalibrationPoint>& points_;
  std::string source_;
  std::set<double> fitted_sizes_;
  std::map<std::pair<Experiment, ExperimentPath>, Model> models_;
  double burst_fitted_ = -1;  // bytes
  Calibration result_;
};

/// seconds = x[0] + x[1] bytes
LinearFit Calibrator::line(Experiment experiment, ExperimentPath path) const {
  const auto some = fitted(experiment, path);
  if (some.size() < 3)
    throw input_error(fmt::format("{} over {}: {} sizes to fit are too few", name_of(experiment),
                                  name_of(path), some.size()),
                      "at least 5 sizes, every second one is held out");
  Eigen::MatrixXd a(static_cast<Eigen::Index>(some.size()), 2);
  Eigen::VectorXd b(a.rows());
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    a.row(i) << 1, some[static_cast<std::size_t>(i)].bytes;
    b[i] = some[static_cast<std::size_t>(i)].seconds;
  }
  return fit_robust(a, b);
}

/// One of many messages under way at once costs its overhead, or its bytes, whichever is slower.
/// The smallest tells the overhead; where its bytes are slower the overhead may be anything less,
/// and what they leave is taken.
double Calibrator::overhead_of(ExperimentPath path, const LinearFit& wire, LinkClass& links) {
  const auto bursts = fitted(Experiment::burst, path);
  if (bursts.empty()) return 0;
  const auto smallest = std::min_element(
      bursts.begin(), bursts.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const double sent = smallest->bytes * wire.x[1];
  const double overhead =
      smallest->seconds > 1.5 * sent ? smallest->seconds : std::max(0.0, smallest->seconds - sent);
  burst_fitted_ = smallest->bytes;
  links.overhead = Estimated<Seconds>{
      Seconds{overhead}, NumberOrigin::fitted, std::nullopt,
      fmt::format("{}; many messages of {:.0f} bytes at once", source_, smallest->bytes)};
  return overhead;
}

void Calibrator::fit_links(ExperimentPath path, PathClass kind, BytesPerSecond sheet) {
  const LinearFit wire = line(Experiment::exchange, path);
  const std::string from = fmt::format("{}; exchanges, {}", source_, residual_words(wire));
  LinkClass& links = result_.profile.of(kind);
  const double overhead = overhead_of(path, wire, links);
  const auto seconds = [](double value) { return Seconds{std::max(0.0, value)}; };
  // A lone message pays the overhead at both ends before and after its way.
  links.latency = Estimated<Seconds>{
      seconds(wire.x[0] - 2 * overhead), NumberOrigin::fitted,
      std::array{seconds(wire.low[0] - 2 * overhead), seconds(wire.high[0] - 2 * overhead)}, from};
  const auto efficiency = [&](double seconds_per_byte) {
    return std::min(1.0, 1 / std::max(seconds_per_byte, 1e-300) / sheet.value);
  };
  links.efficiency =
      Estimated<double>{efficiency(wire.x[1]), NumberOrigin::fitted,
                        std::array{efficiency(wire.high[1]), efficiency(wire.low[1])}, from};
  const double latency = links.latency->value.value + 2 * overhead,
               per_byte = 1 / (links.efficiency->value * sheet.value);
  const Model lone = [=](const CalibrationPoint& p) { return latency + p.bytes * per_byte; };
  for (const Experiment experiment :
       {Experiment::exchange, Experiment::ping_pong, Experiment::pairs})
    models_[{experiment, path}] = lone;
  models_[{Experiment::burst, path}] = [=](const CalibrationPoint& p) {
    return std::max(overhead, p.bytes * per_byte);
  };
  // Until the last has it and its answer is back.
  models_[{Experiment::one_to_many, path}] = [=](const CalibrationPoint& p) {
    return 2 * latency + p.fan * std::max(overhead, p.bytes * per_byte);
  };
}

void Calibrator::fit_reductions() {
  const LinearFit reducing = line(Experiment::reduce, ExperimentPath::memory);
  static constexpr double kFastest =
      1e-13;  // seconds a byte: what a resampled fit may take for nothing is no infinite rate
  const auto rate = [](double seconds_per_byte) {
    return BytesPerSecond{1 / std::max(seconds_per_byte, kFastest)};
  };
  result_.profile.reduce_bandwidth =
      Estimated<BytesPerSecond>{rate(reducing.x[1]), NumberOrigin::fitted,
                                std::array{rate(reducing.high[1]), rate(reducing.low[1])},
                                fmt::format("{}; reduce, {}", source_, residual_words(reducing))};
  models_[{Experiment::reduce, ExperimentPath::memory}] =
      [x = reducing.x](const CalibrationPoint& p) { return x[0] + x[1] * p.bytes; };
}

void Calibrator::find_errors() {
  std::map<std::tuple<std::string_view, std::string_view, bool>,
           std::pair<const CalibrationPoint*, std::vector<double>>>
      errors;  // by name, as they are listed
  for (const CalibrationPoint& p : points_) {
    const auto known = models_.find({p.experiment, p.path});
    if (known == models_.end()) continue;
    const bool fitted =
        p.experiment == Experiment::burst
            ? p.bytes == burst_fitted_
            : fitted_sizes_.contains(p.bytes) &&
                  (p.experiment == Experiment::exchange || p.experiment == Experiment::reduce);
    auto& [one, values] = errors[{name_of(p.experiment), name_of(p.path), fitted}];
    one = &p;
    values.push_back(known->second(p) / p.seconds - 1);
  }
  for (const auto& [key, of] : errors) {
    const auto& [one, values] = of;
    CalibrationError e{
        one->experiment, one->path, std::get<2>(key), static_cast<int>(values.size()), 0, 0, 0};
    std::vector<double> magnitudes;
    for (const double v : values) {
      magnitudes.push_back(std::abs(v));
      e.bias += v / static_cast<double>(values.size());
    }
    e.median = median(magnitudes);
    e.worst = *std::max_element(magnitudes.begin(), magnitudes.end());
    result_.errors.push_back(e);
  }
}

}  // namespace

Calibration calibrate(const std::vector<CalibrationPoint>& points, BytesPerSecond nic,
                      BytesPerSecond memory, const std::string& source) {
  return Calibrator(points, source).fit(nic, memory);
}

}  // namespace foreduce
