// Every algorithm, as it describes itself. A file in algorithms/ ends with a `Registered`; that is
// all it takes to appear in the simulator, in real runs, in `list`, in the scenario schema, in the
// benchmarks and in the tests.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "algorithms/core/transport.hpp"

namespace foreduce {

/// The algorithm between nodes where nobody says another.
inline constexpr const char* kUsualInner = "ring";

/// How an algorithm is to run. What one algorithm alone needs is a named field here.
struct Plan {
  int segments = 1;  ///< cuts of the data that travel separately, for pipelining; ≥ 1
  int channels = 1;  ///< how many of the layout's channels share the data; ≥ 1
  std::string inner = kUsualInner;  ///< hierarchical: the algorithm between nodes
  /// ring: segments of a channel that travel together; the next ones begin when the last of these
  /// is everywhere. 0: all of them.
  int together = 0;
  /// The length of the last segment (ring: of those that travel together last), see Segments::last:
  /// what is left for the last loop of a library that cuts by bytes.
  int last = Segments::kFull;

  Segments cut() const { return {segments, together > 0 ? together : 1, last}; }
};

/// Which renumbering of nodes leaves the schedule as it is; what an exact symmetry reduction of a
/// simulation may rely on.
enum class Symmetry : std::uint8_t {
  none,
  translation,   ///< node i becomes node i + k (mod n)
  exclusive_or,  ///< node i becomes node i xor k; needs a power of two
  mirror  ///< node i becomes node n-1-i, while the two trees of each channel (Tag::half) change
          ///< places; needs an even n
};

/// The blocks of a reduce-scatter or all-gather: block i belongs to rank i of the transport.
using Blocks = std::function<Buffer(int owner)>;

/// One algorithm for one collective. An algorithm that does several is registered once for each,
/// under the same name.
struct Algorithm {
  std::string_view name;
  Collective collective = Collective::all_reduce;
  std::string_view idea;  ///< one line
  std::string_view cost;  ///< one line, in α (latency), β (1/bandwidth), γ (1/reduce rate), n, S
  std::string_view wins;  ///< when to use it
  std::string_view source;  ///< paper or file
  bool takes_inner =
      false;  ///< runs Plan::inner between nodes; cannot be an inner algorithm itself
  bool uses_servers = false;  ///< needs reduction servers in the layout
  /// Shares the data among Plan::channels; else everything travels on the first, which then stands
  /// for all channels that a library would use.
  bool uses_channels = false;
  /// The symmetry of the schedule; null: none. A test holds symmetric simulations against full
  /// ones.
  Symmetry (*symmetry)(const Plan&) = nullptr;
  /// Every channel does the same along its own order of workers, so that channels may change
  /// places. The same test holds it to that.
  bool channels_alike = false;
  /// Where all GPUs of a node hang on one switch, each does the same for its own chunk along its
  /// own rail, with the same tags, so that GPUs may change places. Likewise.
  bool gpus_alike = false;
  /// A rank sends to all others at once, or to as many as the data has blocks.
  bool many_peers = false;
  /// All messages of a channel go to the next rank of one ring of all: what a library gains in a
  /// ring it gains here, and laps may take equal times.
  bool in_ring = false;
  /// It runs the collective where nobody names an algorithm, and in place of one that has no such
  /// collective; one for each collective.
  bool usual = false;
  /// Among more GPUs it is compared only where it is asked for by name, for it takes long to
  /// simulate; 0: among any number, because no rank stands for others.
  int compared_up_to = std::numeric_limits<int>::max();
  /// Who sums inside a node.
  SummedBy summed_by = SummedBy::gpus;
  /// From so many segments on a pipeline is in its steady state: one more costs what the last one
  /// did. NVLS in one node gets there early, because a chunk travels to all GPUs at once.
  int steady_segments = 48;
  /// From so many nodes on, one more level of its binary trees over nodes takes what the last one
  /// did; 0: it has no such trees. A test holds many nodes against what fewer tell.
  int steady_nodes = 0;

  /// Of a reduce-scatter or all-gather that hierarchical can run between nodes: the same for any
  /// blocks. On entry `after` says when this rank's data may be read. Tags: steps from first.step
  /// on, all with first.segment and first.channel.
  Event (*run_blocks)(Transport&, const Blocks&, Op, Tag first, Event after) = nullptr;
  /// Elements that a rank of `n` sends for them.
  std::size_t (*sends_blocks)(int n, int rank, const Blocks&) = nullptr;

  /// Posts the rank's whole schedule; the data of a worker is its contribution, a server's is
  /// workspace of the same size. Returns the event after which this rank's result is complete. Does
  /// not block.
  std::function<Event(Transport&, Buffer data, Op, const Plan&, Event after)> run = nullptr;

  /// Elements that `rank` puts on the wire: a closed form, held against the wire by the tests.
  std::function<std::size_t(const Layout&, int rank, std::size_t count, const Plan&)> sends =
      nullptr;

  /// Length of the longest chain of dependent messages for one segment on n ranks, one a node.
  std::function<int(int n)> steps = nullptr;

  /// Why the algorithm cannot run on this layout, or nothing.
  std::function<std::optional<std::string>(const Layout&, const Plan&)> unsupported_reason =
      nullptr;

  /// The default number of segments for `bytes` on this layout.
  int (*segments_for)(const Layout&, std::size_t bytes) = nullptr;

  /// Where it comes from and a hash of what is there, if it is not part of the program: a plug-in
  /// or a schedule's file. Set by whoever adds it.
  std::string_view origin = {}, content = {};
};

/// All registered algorithms for a collective, by name.
const std::vector<const Algorithm*>& algorithms(Collective collective = Collective::all_reduce);
/// Those for all collectives.
std::vector<const Algorithm*> all_algorithms();
/// The one of that name, or null.
const Algorithm* find_algorithm(std::string_view name,
                                Collective collective = Collective::all_reduce);
/// The usual one of a collective.
const Algorithm& usual_algorithm(Collective collective = Collective::all_reduce);
/// The collectives that an algorithm of this name does.
std::vector<Collective> collectives_of(std::string_view name);
/// Why `algorithm` cannot run there, or nothing.
std::optional<std::string> unsupported_reason(const Algorithm& algorithm, const Layout& layout,
                                              const Plan& plan);
/// The plan with segments and channels filled in where they are 0 ("auto"), for `bytes` on
/// `layout`.
Plan with_defaults(const Algorithm& algorithm, Plan plan, const Layout& layout, std::size_t bytes);

/// The symmetry that `algorithm` has on `layout`: none where nodes differ or a power of two is
/// missing.
Symmetry symmetry_on(const Algorithm& algorithm, const Layout& layout, const Plan& plan);

/// What one answer of a simulation depends on besides the plan's numbers: which algorithm, by name,
/// collective and content, and which one runs between nodes.
std::string identity_of(const Algorithm& algorithm, const Plan& plan);
/// Whether all that it runs is part of the program, and nothing of a plug-in or a file.
bool is_ours(const Algorithm& algorithm, const Plan& plan);

/// The algorithms of each collective, by name.
using Registry = std::array<std::vector<const Algorithm*>, kCollectives.size()>;
/// What `Registered` fills in this program or plug-in.
Registry& own_registry();
/// Look-ups go there from now on; how a plug-in sees the algorithms of the program that loads it.
void look_up_in(Registry& registry);
/// Why add_algorithm() would refuse an algorithm under this name, or "".
std::string why_not_to_add(const Algorithm& algorithm, std::string_view name);
/// Adds an algorithm that is not part of the program. `name`, `origin` and `content` are copied.
/// Not for use while other threads look algorithms up. Throws std::invalid_argument if there is one
/// of this name for its collective, or one that lacks what every algorithm must have.
const Algorithm& add_algorithm(Algorithm algorithm, std::string name, std::string origin,
                               std::string content);

/// Puts an algorithm into the registry before main, or of a plug-in when it is loaded.
class Registered {
 public:
  explicit Registered(const Algorithm& algorithm);

 private:
  Algorithm algorithm_;
};

}  // namespace foreduce
